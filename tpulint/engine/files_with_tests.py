"""Which files of a project are tests, which fixes leave alone."""

from __future__ import annotations

import os
import re

_FOLDERS = frozenset({"tests", "test"})
#: What pytest and unittest collect, and the imports of both.
_COLLECTED = re.compile(
    rb"^\s*(?:async\s+)?def test_|^\s*class Test|^\s*(?:import|from)\s+(?:pytest|unittest)\b", re.MULTILINE
)
_MAIN = re.compile(rb"^if __name__ ==", re.MULTILINE)
_RUNNER = re.compile(rb"\b(?:unittest|pytest)\.main\(")


def is_test(relative: str, data: bytes) -> bool:
    """Whether a file holds tests, by its name and its content.

    `relative` is its path from the root of the project, with slashes. A script that evaluates a model holds
    none, even if it is called `test_model.py`.
    """
    *folders, name = relative.split("/")
    if name == "conftest.py":
        return True
    stem = os.path.splitext(name)[0]
    if not (stem.startswith("test_") or stem.endswith("_test") or _FOLDERS.intersection(folders)):
        return False
    is_program = _MAIN.search(data) is not None and _RUNNER.search(data) is None
    return not is_program and _COLLECTED.search(data) is not None
