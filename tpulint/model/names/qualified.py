"""Qualified names: what an identifier or a dotted expression refers to."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Callable, Collection, Iterator

from tpulint.model.names.index import Index
from tpulint.model.names.scopes import Binding, Scope, ScopeKind

_BUILTINS = frozenset(dir(builtins))
_DEPTH = 8
#: No qualified name: none has been looked for.
_UNKNOWN = "?"


class Names:
    """Resolves names of one module; the only place that does.

    Project-wide re-exports are followed later, by `ProjectFacts.resolve`.
    """

    def __init__(self, index: Index, module: str) -> None:
        self.index = index
        self.module = module
        self._memo: dict[tuple[int, str], str | None] = {}
        self._followed: Callable[[str], str] = str
        self._defined: Callable[[str], bool] = str.isspace  # no name is

    def enter(self, followed: Callable[[str], str], defined: Callable[[str], bool]) -> None:
        """Follow what star imports bring from now on: `torch` of `from utils import *` is torch itself."""
        if self.index.module.stars:
            self._followed, self._defined = followed, defined
            self._memo.clear()

    def qualified(self, node: ast.AST, scope: Scope, depth: int = 0) -> str | None:
        """The qualified name of a plain or dotted name, or None where it has none.

        A name with several meanings has none, unless they are the alternatives of a guarded import.
        """
        tail = ""
        while node.__class__ is ast.Attribute:
            tail = f".{node.attr}{tail}"
            node = node.value
        if node.__class__ is not ast.Name:
            return None
        base = self.plain(node.id, scope, depth)
        return f"{base}{tail}" if base is not None and tail else base

    def calls_of(self, wanted: Collection[str]) -> Iterator[tuple[ast.Call, Scope]]:
        """The calls of functions with some qualified names, by their last names or other names for these."""
        lasts = {name.rpartition(".")[2] for name in wanted}
        for last in sorted(lasts.union(*(self.index.aliases.get(last, ()) for last in lasts))):
            for call, scope in self.index.calls.get(last, ()):
                if isinstance(call, ast.Call) and self.qualified(call.func, scope) in wanted:
                    yield call, scope

    def lookup(self, name: str, scope: Scope) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name as seen from `scope`, with its bindings."""
        current: Scope | None = scope
        while current is not None:
            current = current.declared.get(name, current)
            bound = current.bindings.get(name)
            if bound and (current is scope or current.kind is not ScopeKind.CLASS):
                return current, bound
            current = current.parent
        return None

    def plain(self, name: str, scope: Scope, depth: int = 0) -> str | None:
        """The qualified name of a plain name."""
        memo, key = self._memo, (id(scope), name)
        found = memo.get(key, _UNKNOWN)
        if found is _UNKNOWN:
            memo[key] = None  # a name that is defined by itself has no qualified name
            found = memo[key] = self._resolve(name, scope, depth)
        return found

    def _resolve(self, name: str, scope: Scope, depth: int) -> str | None:
        found = self.lookup(name, scope)
        if found is None:
            return f"builtins.{name}" if name in _BUILTINS else self._starred(name)
        owner, bindings = found
        targets: dict[str, None] = {}
        imports = 0
        for binding in bindings:
            if binding.target is not None:
                targets[binding.target] = None
                imports += 1
            elif binding.node is not None:
                targets[f"{self.module}.{_join(owner, name)}"] = None
            elif isinstance(binding.value, ast.Constant) and (
                binding.value.value is None or binding.value.value is False  # not 0, which is equal to it
            ):
                continue  # the other half of `try: import x / except ImportError: x = None`
            elif isinstance(binding.value, ast.Attribute | ast.Name) and depth < _DEPTH:
                target = self.qualified(binding.value, owner, depth + 1)
                if target is None:
                    return None
                targets[target] = None
            else:
                return None
        if len(targets) == 1 or (targets and imports):
            return next(iter(targets))
        return None

    def _starred(self, name: str) -> str | None:
        """What a star import brings under a name: of several the last one that is seen to have it."""
        stars = self.index.module.stars
        if name == "torch" and stars:
            return name  # which is seen before the files of the project are put together, too
        if len(stars) == 1:
            return self._followed(f"{stars[0]}.{name}")
        for known in (f"{star}.{name}" for star in reversed(stars)):
            target = self._followed(known)
            if target != known or self._defined(target):
                return target
        return None


def dotted(node: ast.AST) -> str | None:
    """A plain or dotted name as text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head is not None else None
    return None


def _join(scope: Scope, name: str) -> str:
    return name if scope.kind is ScopeKind.MODULE else f"{scope.qualname}.{name}"
