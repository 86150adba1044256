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


class ImportHook(MetaPathFinder):
    """Executes some modules in its own way when they are imported."""

    def concerns(self, name: str) -> bool:
        """Whether a module of this name is executed by `execute`."""
        raise NotImplementedError

    def execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        """Execute a module by a function of its loader."""
        raise NotImplementedError

    def find_spec(self, fullname: Any, path: Any = None, target: Any = None) -> Any:
        """The specification of a module, whose loader executes it by `execute`."""
        if not self.concerns(fullname):
            return None
        later = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (finder.find_spec(fullname, path, target) for finder in later)
        spec = next((spec for spec in specs if spec is not None), None)
        loader: Any = None if spec is None else spec.loader
        if hasattr(loader, "exec_module"):
            loader.exec_module = functools.partial(self.execute, loader.exec_module)
        return spec

    def remove(self) -> None:
        """Remove the hook."""
        if self in sys.meta_path:
            sys.meta_path.remove(self)


class AfterImport(ImportHook):
    """An import hook that replaces attributes of a module once it is imported."""

    def __init__(self, name: str, replacements: Replacements) -> None:
        self.name, self._replacements = name, replacements
        self._undone: list[application.Undo] = []

    def add(self) -> application.Undo:
        """Start; returns what removes the hook, and restores what it replaced."""
        sys.meta_path.insert(0, self)
        if self.name in sys.modules:
            self._replace(sys.modules[self.name])
        return self.remove

    def concerns(self, name: str) -> bool:
        """Whether this is the module."""
        return name == self.name

    def execute(self, execute: Callable[[ModuleType], None], module: ModuleType) -> None:
        """Execute the module, and replace its attributes."""
        execute(module)
        self._replace(module)

    def _replace(self, module: ModuleType) -> None:
        self._undone += application.replace(self._replacements(module))

    def remove(self) -> None:
        """Remove the hook, and restore what it replaced."""
        super().remove()
        application.restore(self._undone)
