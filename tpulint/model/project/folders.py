"""Folders that are packages without an `__init__.py`: the names by which other files import from them."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from pathlib import Path

from tpulint.knowledge.tracing import LIBRARIES

#: How many a name may have that is imported: those, and what relative imports add, or are written out.
_DEEPEST = 8


def names_by_folder(modules: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The names of top-level modules and packages, by what imports from the folders around call them.

    `utils/loss.py` is known as `loss`, and imported as `utils.loss`. A name that several could go by, or that
    is a library's, stands for none. Modules are given by their names and paths.
    """
    found: dict[str, set[str]] = {}
    known = set()
    for name, path in modules:
        known.add(name)
        if "." in name:
            continue
        *folders, last = Path(path).parts
        if last == "__init__.py":
            last = folders.pop()
        called = last.removesuffix(".py")
        for folder in folders[: -_DEEPEST - 1 : -1]:
            if not folder.isidentifier():
                break
            called = f"{folder}.{called}"
            if folder not in LIBRARIES and folder not in sys.stdlib_module_names:
                found.setdefault(called, set()).add(name)
    return {called: names.pop() for called, names in found.items() if len(names) == 1 and called not in known}
