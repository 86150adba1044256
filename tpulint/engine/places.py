"""Under which names the files of a project are imported."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable
from functools import cache

from tpulint.model.module import Place


@cache
def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def plain_name(path: str) -> tuple[str, bool]:
    """The dotted name of a file by the packages around it, and whether it is an `__init__.py`."""
    folder, filename = os.path.split(path)
    stem = filename.removesuffix(".py")
    package = stem == "__init__"
    parts = [] if package else [stem]
    while _is_package(folder):
        folder, name = os.path.split(folder)
        parts.append(name)
    return ".".join(reversed(parts)) or stem, package


def places(paths: Iterable[str]) -> dict[str, Place]:
    """A place for each file; files that would share a name get names of their own."""
    plain = {path: plain_name(path) for path in sorted(paths)}
    holders: dict[str, int] = defaultdict(int)
    names: dict[str, str] = {}
    renamed: dict[str, list[tuple[str, str]]] = defaultdict(list)
    for path, (name, _) in plain.items():
        holders[name] += 1
        if holders[name] > 1:
            names[path] = f"{name}#{holders[name]}"
            if "." not in name:
                renamed[os.path.dirname(path)].append((name, names[path]))
        else:
            names[path] = name
    return {
        path: Place(names[path], package, tuple(renamed.get(os.path.dirname(path), ())))
        for path, (_, package) in plain.items()
    }
