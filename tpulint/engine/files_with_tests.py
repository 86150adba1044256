"""Which files of a project are tests, which fixes leave alone."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping

_FOLDERS = frozenset({"tests", "test"})
#: What pytest and unittest collect, and the imports of both.
_COLLECTED = re.compile(
    rb"^\s*(?:async\s+)?def test_|^\s*class Test|^\s*(?:import|from)\s+(?:pytest|unittest)\b", re.MULTILINE
)
_MAIN = re.compile(rb"^if __name__ ==", re.MULTILINE)
_RUNNER = re.compile(rb"\b(?:unittest|pytest)\.main\(")


def left_alone(contents: Mapping[str, bytes]) -> set[str]:
    """Which files are tests, or lie beside tests in a folder for them and are no programs.

    `contents` are the files by their paths from the root of the project, with slashes.
    """
    tests = {relative for relative, data in contents.items() if is_test(relative, data)}
    folders = {_folder(relative) for relative in tests if _FOLDERS.intersection(relative.split("/")[:-1])}
    beside = {one for one, data in contents.items() if _folder(one) in folders and not _is_program(data)}
    return tests | beside


def _folder(relative: str) -> str:
    return relative.rpartition("/")[0]


def _is_program(data: bytes) -> bool:
    return _MAIN.search(data) is not None and _RUNNER.search(data) is None


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
    return not _is_program(data) and _COLLECTED.search(data) is not None
