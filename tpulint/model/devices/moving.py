"""Code that puts something on a device, itself or through what it calls, passes on or imports."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.model.devices.given import given_device
from tpulint.model.names.scopes import Scope
from tpulint.model.project.facts import ANY
from tpulint.model.project.takers import is_accelerator
from tpulint.model.syntax.entry import of_main
from tpulint.model.values.kinds import Instance
from tpulint.model.values.typed_file import TypedFile


class Moves:
    """The code of a file that puts something on a device."""

    def __init__(self, module: TypedFile) -> None:
        self._module = module
        self._project = module.project

    def by_call(self, call: ast.Call, scope: Scope) -> bool:
        """Whether the call puts something on a device, or sets the device of new tensors."""
        project, name = self._project, self._module.names.qualified(call.func, scope)
        qualified = project.resolve(name) if name is not None else None
        if qualified is None and isinstance(call.func, ast.Attribute) and call.func.attr == "cuda":
            return True
        if is_accelerator(call, qualified):
            return True
        if qualified == "torch.device":
            around = self._module.parent(call)
            entered = isinstance(around, ast.Attribute) and around.attr == "__enter__"
            return entered or isinstance(around, ast.withitem)
        if qualified is not None:
            made = project.callees(f"name:{qualified}", None)
            if project.put_on_device([project.resolve(qualified), *made]):
                return True
        if isinstance(call.func, ast.Attribute) and qualified is None:
            owner = self._module.kind(call.func.value, scope)
            if isinstance(owner, Instance):
                method = project.callees(f"new:{owner.cls}:{call.func.attr}", None)
                if project.put_on_device(method):
                    return True
        return any(True for _ in given_device(self._module, call, scope))

    def in_function(self, function: Scope) -> bool:
        """Whether a function of the file puts something on a device."""
        return bool(self._project.put_on_device([f"{self._module.name}.{function.qualname}"]))

    def by_name(self, name: str) -> bool:
        """Whether the function, or a method of the class, with a qualified name does."""
        found = self._project.split(name)
        if found is None:
            return False
        facts, rest = found
        inner = [one for one in facts.functions if one == rest or one.startswith(f"{rest}.")]
        return bool(self._project.put_on_device(f"{facts.name}.{one}" for one in inner))

    def by_import(self, statement: ast.Import | ast.ImportFrom) -> bool:
        """Whether an import runs a file of the project that does."""
        if isinstance(statement, ast.Import):
            names = [alias.name for alias in statement.names]
        elif statement.module is not None and not statement.level:
            names = [statement.module, *(f"{statement.module}.{alias.name}" for alias in statement.names)]
        else:
            return False
        homes = {found[0] for name in names if (found := self._project.home(name)) is not None}
        return any(facts.moves for home in homes for facts in self._project.program(home))

    def passed(self) -> Iterator[ast.expr]:
        """Places of the file's own code that pass on a function which puts something on a device."""
        facts = self._project.modules[self._module.name]
        places = {
            (one.row, one.column - 1)
            for one in (*facts.starts, *facts.mentions)
            if one.row and self._project.puts_on_device(one.callee)
        }
        if places:
            tree = self._module.source.tree
            apart = {id(node) for node in of_main(tree)}
            for node in ast.walk(tree):
                if not isinstance(node, ast.Name | ast.Call | ast.Lambda | ast.Attribute):
                    continue
                if (node.lineno, node.col_offset) in places and id(node) not in apart:
                    yield node

    def unknown(self, calls: Iterable[ast.Call]) -> Iterator[ast.Call]:
        """Those of some calls that may start any code."""
        starts = self._project.modules[self._module.name].starts
        places = {(call.row, call.column - 1) for call in starts if call.callee == ANY}
        return (call for call in calls if (call.lineno, call.col_offset) in places)
