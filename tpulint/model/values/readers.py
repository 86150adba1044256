"""Who reads, in a file, what traced code has put into an attribute, once the call that did so is over."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tpulint.knowledge.training import HOOKS
from tpulint.model.names.references import is_put_back, method_around, positional, references
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile


class Reader(NamedTuple):
    """The code that reads an attribute.

    `host` is the name of a function that reads it outside of traced code, None if there is none. `later` says
    that the next call reads it; if it is false, and there is no `host`, nothing in the file reads it.
    """

    host: str | None = None
    later: bool = False


class _Reads(NamedTuple):
    """Where a file reads an attribute: functions of the host, and the reads of each traced function."""

    host: list[str]
    traced: dict[int, list[ast.Attribute]]


class Readers:
    """Who reads the attributes of a file, and who calls its methods; looked up once for each name."""

    def __init__(self, module: ProjectFile) -> None:
        self.module = module
        self._reads: dict[str, _Reads] = {}
        self._calls: dict[str, dict[int, list[tuple[ast.Call, Scope]]]] = {}

    def of(self, attribute: str, statement: ast.stmt, scope: Scope) -> Reader | None:
        """The code that reads an attribute after the call that set it in a statement; None if none does."""
        reads = self._of(attribute)
        if reads.host:
            return Reader(reads.host[0])
        if not reads.traced:
            return Reader()
        if self._is_set_before(attribute, statement, scope):
            return None
        own = reads.traced.get(id(scope.function), [])
        if any(node.lineno < statement.lineno for node in own) or _reads_itself(statement, attribute):
            return Reader(later=True)
        elsewhere = len(reads.traced) > bool(own)
        passed_by = self._may_be_passed_by(attribute, statement, None if elsewhere else own, scope)
        return Reader(later=True) if passed_by else None

    def _is_set_before(self, attribute: str, statement: ast.stmt, scope: Scope) -> bool:
        """Whether each call of the function sets the attribute before it comes to a statement."""
        method, function = method_around(scope), scope.function
        if method is None or method.owner is None or function is None:
            return False
        cls = f"{self.module.name}.{method.owner.qualname}"
        setting = {
            id(self.module.statement(value))
            for value, place in self.module.assignments.get((cls, attribute), ())
            if place.function is function
        }
        around = [outer for outer in self.module.ancestors(statement) if isinstance(outer, ast.stmt)]
        inside = around[: next(n for n, outer in enumerate(around) if outer is function.node)]
        return any(
            id(earlier) in setting for one in (statement, *inside) for earlier in self.module.before(one)
        )

    def _of(self, attribute: str) -> _Reads:
        if attribute not in self._reads:
            reads = self._reads[attribute] = _Reads([], {})
            for node, scope in self.module.index.taken.get(attribute, ()):
                if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                    continue
                function = scope.function
                if self.module.trace_path(scope) is not None:
                    reads.traced.setdefault(id(function), []).append(node)
                elif function is None or function.name != "__init__":
                    reads.host.append(function.name if function is not None else "")
        return self._reads[attribute]

    def _may_be_passed_by(
        self,
        attribute: str,
        statement: ast.stmt,
        own: list[ast.Attribute] | None,
        scope: Scope,
        deep: int = 2,
    ) -> bool:
        """Whether a call may pass an assignment by and still come to what reads the attribute.

        `own` are the reads, where all are in the function itself.
        """
        inner: ast.AST = statement
        for outer in self.module.ancestors(statement):
            if isinstance(outer, ast.If) and not _sets_in_all(outer, attribute) and not _asks_for_mode(outer):
                arm = outer.body if inner in outer.body else outer.orelse
                if own is None or not all(self._stands_in(arm, read) for read in own):
                    return True
            if isinstance(outer, FunctionNode):
                before = self.module.before(inner) if isinstance(inner, ast.stmt) else []
                if own is None and any(map(_leaves, before)):
                    return True
                break
            inner = outer
        if own is not None or not deep:
            return False
        return any(
            self._may_be_passed_by(attribute, self.module.statement(call), None, place, deep - 1)
            for call, place in self._callers(scope)
        )

    def _callers(self, scope: Scope) -> list[tuple[ast.Call, Scope]]:
        """The traced calls of a method by others of its class."""
        method = method_around(scope)
        if method is None or method is not scope.function:
            return []
        if method.name not in self._calls:
            found = self._calls[method.name] = {}
            for call, place in self.module.index.calls.get(method.name, ()):
                caller = method_around(place)
                if caller is None or caller.name == method.name or self.module.trace_path(place) is None:
                    continue
                owner = getattr(getattr(call, "func", None), "value", None)
                if isinstance(call, ast.Call) and getattr(owner, "id", "") == "self":
                    found.setdefault(id(caller.owner), []).append((call, place))
        return self._calls[method.name].get(id(method.owner), [])

    def _stands_in(self, block: list[ast.stmt], node: ast.AST) -> bool:
        return any(outer is statement for outer in self.module.ancestors(node) for statement in block)


def handed_by_hooks(module: ProjectFile) -> dict[int, set[str]]:
    """The functions of a file that are hooks of modules, by identity, with the names of their values."""
    found: dict[int, set[str]] = {}
    for registered, place, owner in registered_hooks(module):
        for reference in references(registered, place, module.names):
            for name in module.project.callees(reference, owner):
                hook = module.functions.get(name)
                if hook is not None:
                    found[id(hook)] = _derived(hook, positional(hook)[1:])
    return found


def registered_hooks(module: ParsedFile) -> Iterator[tuple[ast.expr, Scope, str | None]]:
    """The hooks that a file registers with modules, each with its scope and the class that does so."""
    for registers in HOOKS:
        for call, place in module.index.calls.get(registers, ()):
            if isinstance(call, ast.Call) and call.args:
                method = method_around(place)
                owner = method.owner if method is not None else None
                yield call.args[0], place, f"{module.name}.{owner.qualname}" if owner is not None else None


def _derived(function: Scope, parameters: list[str]) -> set[str]:
    """Parameters, with the variables that are made of them."""
    names = set(parameters)
    for name, bindings in function.bindings.items():
        if any(binding.value is not None and mentions(binding.value, names) for binding in bindings):
            names.add(name)
    return names


def mentions(node: ast.expr, names: set[str]) -> bool:
    """Whether the expression contains one of the names."""
    return any(isinstance(inner, ast.Name) and inner.id in names for inner in ast.walk(node))


def _reads_itself(statement: ast.stmt, attribute: str) -> bool:
    """Whether a statement takes what an attribute holds and puts it back: `self.x = self.x.to(x.device)`."""
    return isinstance(statement, ast.Assign) and is_put_back(statement.value, attribute)


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return)


def _asks_for_mode(branch: ast.If) -> bool:
    """Whether a branch asks whether the module is trained, which stays what it is."""
    return ast.unparse(branch.test) in ("self.training", "not self.training")


def _sets_in_all(branch: ast.If, attribute: str) -> bool:
    """Whether all arms of a branch assign to an attribute, or leave by an exception."""
    return all(
        arm
        and (
            isinstance(arm[-1], ast.Raise)
            or any(
                isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
                for one in arm
                for node in ast.walk(one)
            )
        )
        for arm in (branch.body, branch.orelse)
    )
