"""Copies of this folder that lie in other packages of the program are this one."""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

#: The name of this folder as a package.
FOLDER = __package__


class _Once(MetaPathFinder, Loader):
    """Gives this folder in the place of its copies, which would change torch once more."""

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if self._first(fullname) is not None else None

    def create_module(self, spec):
        module = self._first(spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec  # it is executed already

    def _first(self, fullname):
        _, found, within = f".{fullname}.".partition(f".{FOLDER.rpartition('.')[2]}.")
        first = f"{FOLDER}.{within}".strip(".")
        return sys.modules.get(first) if found and fullname != first else None


sys.meta_path.insert(0, _Once())
