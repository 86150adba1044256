"""Folders that are packages without an `__init__.py`: the names by which what lies in them is imported."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Mapping
from itertools import accumulate
from pathlib import Path

from tpulint.knowledge.tracing import LIBRARIES

#: How many a name may have that is imported: those, and what relative imports add, or are written out.
_DEEPEST = 8


def heads(name: str) -> set[str]:
    """The beginnings of a dotted name, and itself."""
    return {".".join(parts) for parts in accumulate([part] for part in name.split("."))}


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


class FolderPackages:
    """The packages that folders without an `__init__.py` are."""

    def __init__(
        self, paths: Mapping[str, str], imports: Iterable[tuple[str, str]], by_folder: Mapping[str, str]
    ) -> None:
        """`imports` are what each file imports, by its path; `by_folder` is from `names_by_folder`."""
        inits = ((name, path) for name, path in paths.items() if os.path.basename(path) == "__init__.py")
        self._packages = {os.path.dirname(path): name.partition("#")[0] for name, path in inits}
        self._imported: dict[str, str] = {}
        for path, target in imports:
            for name in heads(target) & by_folder.keys():
                module, package = by_folder[name], name.rpartition(".")[0]
                top = os.path.dirname(paths[module])
                for _ in range(package.count(".")):
                    top = os.path.dirname(top)
                # What is inside may import relatively, by a name that begins with any folder around.
                is_outside = not path.startswith(top + os.sep)
                if is_outside and len(package) > len(self._imported.get(module, "")):
                    self._imported[module] = package

    def package_around(self, path: str) -> str:
        """The dotted name of a file's folder inside a package with an `__init__.py`; "" if it is in none."""
        folder, inner = os.path.dirname(path), list[str]()
        while folder and os.path.basename(folder).isidentifier():
            if folder in self._packages:
                return ".".join([self._packages[folder], *reversed(inner)])
            inner.append(os.path.basename(folder))
            folder = os.path.dirname(folder)
        return ""

    def imported_from(self, module: str) -> str:
        """The dotted name of the package that files outside of it import a module from; "" if none does."""
        return self._imported.get(module, "")
