"""What is found in a case and what its fix gives, each computed once for all the tests that ask."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import pytest

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
