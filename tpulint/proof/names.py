"""How a command line tells modules from programs."""

from __future__ import annotations

import re

SPLIT = re.compile(r"(?<=\.py):")


def names_module(word: str) -> bool:
    """Whether a word of a command line is `FILE.py:EXPRESSION`."""
    return SPLIT.search(word) is not None
