"""The module paths of the files of a project: the names under which they are imported."""

from __future__ import annotations

import os
import re
import sys
from collections import defaultdict
from collections.abc import Container, Iterator, Mapping
from functools import cache

from tpulint.model.syntax.parsed_file import ModulePath

#: The first name, or the dots, of what is imported, and the second one.
_IMPORT = re.compile(rb"^[ \t]*(?:from[ \t]+(\.|\w+)|import[ \t]+(\w+))(?:\.(\w+))?", re.MULTILINE)
_SCRIPT = re.compile(rb"^if __name__ ==", re.MULTILINE)


@cache
def _is_package(folder: str) -> bool:
    return os.path.isfile(os.path.join(folder, "__init__.py"))


def plain_name(path: str, apart: Container[str] = ()) -> tuple[str, bool]:
    """The dotted name of a file by the packages around it, and whether it is an `__init__.py`.

    Folders that are `apart` are none of them, though they have an `__init__.py`.
    """
    folder, filename = os.path.split(path)
    stem = filename.removesuffix(".py")
    package = stem == "__init__"
    parts = [] if package else [stem]
    while _is_package(folder) and folder not in apart:
        folder, name = os.path.split(folder)
        parts.append(name)
    return ".".join(reversed(parts)) or stem, package


def module_paths(contents: Mapping[str, bytes]) -> dict[str, ModulePath]:
    """The module path of each file; files that would share a name get names of their own."""
    folders: dict[str, list[str]] = defaultdict(list)
    for path in sorted(contents):
        folders[os.path.dirname(path)].append(path)
    apart = {folder for folder in folders if _is_package(folder) and _is_apart(folder, folders, contents)}
    plain = {path: plain_name(path, apart) for path in sorted(contents)}
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
        path: ModulePath(names[path], package, tuple(renamed.get(os.path.dirname(path), ())))
        for path, (_, package) in plain.items()
    }


def _is_apart(folder: str, folders: Mapping[str, list[str]], contents: Mapping[str, bytes]) -> bool:
    """Whether a folder with an `__init__.py` holds scripts and what they import by plain names.

    Nothing in it may import relatively, by its name or by that of a package around it, and nothing beside it
    by its name; where its files do not import each other at all, nothing anywhere may.
    If it holds none of the modules that it imports by its own name, that is the name of a library.
    """
    beside, name = os.path.dirname(folder), os.path.basename(folder)
    around = plain_name(os.path.join(folder, "__init__.py"))[0].split(".")
    stems = {os.path.basename(path).removesuffix(".py") for path in folders[folder]}
    packages = {os.path.basename(one) for one in folders if os.path.dirname(one) == folder}
    held = (stems - {"__init__"}) | packages
    neighbours = held - sys.stdlib_module_names
    named: set[str] = set()
    is_plain = has_script = False
    for path in folders[folder]:
        for head, inner in _imports(contents[path]):
            if around == [head] and inner not in held:
                named.add(inner)
            elif head in (".", *around):
                return False
            is_plain |= head in neighbours
        has_script |= _SCRIPT.search(contents[path]) is not None
    if named and not any(named):
        return False  # it is imported, and nothing says that this is another one
    if is_plain:
        return not any(name in _imported(contents[path]) for path in folders.get(beside, ()))
    is_topmost = has_script and not _is_package(beside)
    return is_topmost and not any(name in _imported(data) for data in contents.values())


def _imported(data: bytes) -> Iterator[str]:
    """The first names of what a file imports, and a dot for what is relative."""
    return (head for head, _ in _imports(data))


def _imports(data: bytes) -> Iterator[tuple[str, str]]:
    """The first two names of what a file imports; the first one is a dot for what is relative."""
    for found in _IMPORT.finditer(data):
        yield (found[1] or found[2]).decode("ascii", "replace"), (found[3] or b"").decode("ascii", "replace")
