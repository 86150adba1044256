"""Changes of modules that the program may import later, or not at all."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from importlib.abc import MetaPathFinder
from types import ModuleType
from typing import Any

from . import application

#: The attributes of a module to replace: the object that has each, its name, and its new value.
Replacements = Callable[[ModuleType], list[tuple[Any, str, Any]]]


class AfterImport(MetaPathFinder):
    """An import hook that replaces attributes of a module once it is imported."""

    def __init__(self, name: str, replacements: Replacements) -> None:
        self._name, self._replacements = name, replacements
        self._undone: list[application.Undo] = []

    def add(self) -> application.Undo:
        """Start; returns what removes the hook, and restores what it replaced."""
        sys.meta_path.insert(0, self)
        if self._name in sys.modules:
            self._replace(sys.modules[self._name])
        return self._remove

    def find_spec(self, fullname: Any, path: Any = None, target: Any = None) -> Any:
        """The specification of the module, whose loader then replaces its attributes."""
        if fullname != self._name:
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in later)
        spec = next((spec for spec in specs if spec is not None), None)
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):
            loader.exec_module = functools.partial(self._execute, loader.exec_module)
        return spec

    def _execute(self, execute: Any, module: ModuleType) -> None:
        execute(module)
        self._replace(module)

    def _replace(self, module: ModuleType) -> None:
        self._undone += application.replace(self._replacements(module))

    def _remove(self) -> None:
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        application.restore(self._undone)
