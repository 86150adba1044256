"""What is found in a case and what its fix gives, each computed once for all the tests that ask."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest

from tests.wording import odd_words
from tpulint.engine.cache import MemoryCache
from tpulint.finding import Finding
from tpulint.fixture import Case
from tpulint.testing import findings, fixed


class Examined:
    """A case with its findings and its fixed files."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self.cache = MemoryCache()

    @cached_property
    def findings(self) -> list[Finding]:
        return findings(self._case)

    @cached_property
    def fixed(self) -> dict[str, str]:
        return fixed(self._case, cache=self.cache)


@pytest.fixture(scope="session")
def examined() -> Callable[[Case], Examined]:
    """Gives the same object each time for a case; tests of one rule share a process, and so this."""
    known: dict[Path, Examined] = {}

    def examine(case: Case) -> Examined:
        return known.setdefault(case.folder, Examined(case))

    return examine


@pytest.fixture(scope="session")
def style_faults() -> Callable[[str], list[str]]:
    """Gives what is wrong with the style of a message."""
    return _style_faults


def _style_faults(text: str) -> list[str]:
    """What is wrong with a message."""
    faults = []
    if not re.match(r"[a-z`]", text) and not re.match(r"(XLA|JAX|NumPy|Python|TPU|CUDA|TorchScript)\b", text):
        faults.append("begins with neither a small letter nor code")
    if text.endswith((".", "!", ":", " ")):
        faults.append("ends like a sentence")
    if text.count("`") % 2:
        faults.append("has an odd number of backticks")
    if "\n" in text or "  " in text:
        faults.append("is more than one line")
    bare = re.sub(r"`[^`]*`", "", text)
    if re.search(r"\b(torch|jax|torchax)\.\w|\w\(\)|\b[a-z]+_[a-z]+\b", bare):
        faults.append("has code outside of backticks")
    return [*faults, *odd_words(text)]
