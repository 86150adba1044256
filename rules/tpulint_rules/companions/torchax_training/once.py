"""Makes all copies of this package in a program the same package.

Several packages of a program may contain a copy of this one, and each copy would patch torch again.
Importing this module adds an import hook that returns the modules of the first copy.
"""

from __future__ import annotations

import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec

#: The name of this package.
FOLDER = __package__


class _Once(MetaPathFinder, Loader):
    """Import hook that returns the modules of this package in place of those of its copies."""

    def find_spec(self, fullname, path=None, target=None):
        return ModuleSpec(fullname, self) if self._first(fullname) is not None else None

    def create_module(self, spec):
        module = self._first(spec.name)
        self.spec = module.__spec__
        return module

    def exec_module(self, module):
        module.__spec__ = self.spec  # it was executed before

    def _first(self, fullname):
        _, found, within = f".{fullname}.".partition(f".{FOLDER.rpartition('.')[2]}.")
        first = f"{FOLDER}.{within}".strip(".")
        return sys.modules.get(first) if found and fullname != first else None


sys.meta_path.insert(0, _Once())
