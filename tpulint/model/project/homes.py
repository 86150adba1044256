"""Where what fixes write beside a program goes: the folders that its packages lie in.

What a script imports by a package's name is found from the folder that the package lies in, so that one copy
there does for the script and for all such packages.
A library, of which others know its own name alone, has one within it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

#: Scripts that say nothing of how a program is started.
_ASIDE = ("setup", "conftest", "test")


class Home(NamedTuple):
    """A topmost package, and the folder that it lies in."""

    folder: str
    top: str


def home(path: str, package: str) -> Home:
    """The home of a file by its package's dotted name."""
    folder = os.path.dirname(path)
    for _ in package.split("."):
        folder = os.path.dirname(folder)
    return Home(folder, package.partition(".")[0])


def homes_of_programs(
    paths: Mapping[str, str], package: Callable[[str], str], users: Callable[[Iterable[str]], set[str]]
) -> frozenset[Home]:
    """Those whose folder a program is started in, or takes several packages from.

    `paths` are those of the modules by their names, `package` tells a module's, and `users` all that import
    some modules, directly or not.
    """
    members: dict[Home, list[str]] = {}
    scripts: dict[str, str] = {}
    for name, path in paths.items():
        if of := package(name):
            members.setdefault(home(path, of), []).append(name)
        elif not name.startswith(_ASIDE):
            scripts[name] = os.path.dirname(path)
    taken: dict[tuple[str, str], set[Home]] = {}
    found = set()
    for one, modules in members.items():
        for script in users(modules) & scripts.keys():
            if scripts[script] == one.folder:
                found.add(one)
            taken.setdefault((script, one.folder), set()).add(one)
    several = (homes for homes in taken.values() if len(homes) > 1)
    return frozenset(found.union(*several))
