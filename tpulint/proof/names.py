"""Distinguishes modules from programs on the command line, and completes the names of topologies."""

from __future__ import annotations

import re

_TOPOLOGIES = {
    "v4": "v4:2x2x1",
    "v5e": "v5e:2x2",
    "v5p": "v5p:2x2x1",
    "v6e": "v6e:2x2",
    "tpu7x": "tpu7x:2x2x1",
}
SPLIT = re.compile(r"(?<=\.py):")


def names_module(word: str) -> bool:
    """Whether a word of a command line is `FILE.py:EXPRESSION`."""
    return SPLIT.search(word) is not None


def topology(name: str) -> str:
    """The topology of a chip name, such as `v5e:2x2` for `v5e`; other names are returned unchanged."""
    return _TOPOLOGIES.get(name, name)
