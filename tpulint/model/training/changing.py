"""What a traced function would freeze or lose: state that changes between calls, and what is done beside."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from typing import NamedTuple

from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope, ScopeKind
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.effects import effects, place
from tpulint.model.training.called import own_function

_SETS_UP = (
    "__init__",
    "__post_init__",
    "init",
    "_init",
    "build",
    "_build",
    "setup",
    "_setup",
    "configure",
    "create",
)
_KEEPS = frozenset(
    {"append", "extend", "update", "insert", "add", "pop", "clear", "remove", "write", "log", "step"}
)
_HOST_RANDOM = ("random.", "numpy.random.")
#: What makes a generator of random numbers, which goes on from call to call.
_GENERATORS = frozenset(
    {"random.Random", "numpy.random.RandomState", "numpy.random.default_rng", "numpy.random.Generator"}
)


class _Reasons(NamedTuple):
    """Why a function must be executed each time, and what it does that the mark does not see."""

    anew: str | None
    unseen: str | None


class Changing:
    """Answers for one file."""

    def __init__(self, module: ProjectFile) -> None:
        self._module = module
        self._attributes: dict[int, frozenset[str]] = {}
        self._reasons: dict[int, _Reasons] = {}
        self._called: dict[int, list[Scope]] = {}

    def attributes(self, scope: Scope) -> frozenset[str]:
        """Attributes of `self` that methods assign which do not set the instance up, as `self.x`."""
        method = method_around(scope)
        owner = method.owner if method is not None else None
        if owner is None:
            return frozenset()
        if id(owner) not in self._attributes:
            self._attributes[id(owner)] = self._attributes_of(owner)
        return self._attributes[id(owner)]

    def _attributes_of(self, owner: Scope) -> frozenset[str]:
        module = self._module
        classes = module.project.mro(f"{module.name}.{owner.qualname}")
        found = set()
        for (cls, attribute), assigned in module.assignments.items():
            setters = {scope.function.name for _, scope in assigned if scope.function is not None}
            if cls in classes and not all(name.startswith(_SETS_UP) for name in setters):
                found.add(f"self.{attribute}")
        changed = {
            name
            for function in owner.children
            if function.kind is ScopeKind.FUNCTION and not function.name.startswith(_SETS_UP)
            for node in ast.walk(function.node)
            if isinstance(node, ast.AugAssign) and (name := place(node.target)) is not None
        }
        return frozenset(found | {name for name in changed if name.startswith("self.")})

    def unsteady(self, statements: Iterable[ast.stmt], scope: Scope) -> str | None:
        """Why statements must be executed each time, not once while tracing; None where they need not."""
        statements = list(statements)
        calls = (node for one in statements for node in ast.walk(one) if isinstance(node, ast.Call))
        drawn = next((why for call in calls if (why := self._draws(call, scope)) is not None), None)
        own = self._own_calls(statements, scope)
        return _simulated(statements) or drawn or self._first_reason(own)

    def unsteady_function(self, function: Scope) -> str | None:
        """Why a function must be executed each time."""
        return self._first_reason([function])

    def unseen(self, statements: Iterable[ast.stmt], scope: Scope) -> str | None:
        """What statements do, themselves or by what they call, that the mark does not see."""
        statements = list(statements)
        own = self._own_calls(statements, scope)
        return _simulated(statements) or self._first_reason(own, is_marked=True)

    def _first_reason(self, waiting: list[Scope], *, is_marked: bool = False) -> str | None:
        seen: set[int] = set()
        while waiting:
            function = waiting.pop(0)
            if id(function) in seen:
                continue
            seen.add(id(function))
            reasons = self._why(function)
            why = reasons.unseen if is_marked else reasons.anew
            if why is not None:
                return f"`{function.name}` {why}"
            waiting = self._calls_in(function) + waiting
        return None

    def _calls_in(self, function: Scope) -> list[Scope]:
        known = self._called.get(id(function))
        if known is None:
            body = getattr(function.node, "body", [])
            known = self._own_calls(body if isinstance(body, list) else [body], function)
            self._called[id(function)] = known
        return known

    def _own_calls(self, nodes: Iterable[ast.AST], scope: Scope) -> list[Scope]:
        """The functions of this file that some nodes call."""
        found = [
            own_function(self._module, node.func, scope)
            for outer in nodes
            for node in ast.walk(outer)
            if isinstance(node, ast.Call)
        ]
        return [function for function in found if function is not None]

    def _why(self, function: Scope) -> _Reasons:
        if id(function) not in self._reasons:
            kept = self._kept(function)
            self._reasons[id(function)] = _Reasons(self._reason(function) or kept, kept)
        return self._reasons[id(function)]

    def _reason(self, function: Scope) -> str | None:
        found = effects(
            getattr(function.node, "body", []) if isinstance(function.node, ast.FunctionDef) else []
        )
        state = sorted(name for name in found.writes if name.startswith("self."))
        if state:
            return f"sets `{state[0]}`"
        changing = sorted(self.attributes(function) & set(found.reads))
        if changing:
            return f"reads `{changing[0]}`, which changes"
        if any(scope.kind is ScopeKind.MODULE for scope in function.declared.values()):
            return "sets a global"
        for node in ast.walk(function.node):
            why = self._draws(node, function) if isinstance(node, ast.Call) else None
            # What is drawn only if asked for may never be: whether it was is seen while tracing.
            if why is not None and not self._is_conditional(node, function):
                return why
        return None

    def _kept(self, function: Scope) -> str | None:
        """What a function calls that keeps something, such as a list or a writer."""
        found = effects(
            getattr(function.node, "body", []) if isinstance(function.node, ast.FunctionDef) else []
        )
        for node in ast.walk(function.node):
            if (why := _simulates(node)) is not None:
                return why
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Call)
                and isinstance(node.value.func, ast.Attribute)
                and node.value.func.attr in _KEEPS
                and (root := place(node.value.func.value)) is not None
                and root not in found.writes
            ):
                return f"calls `{ast.unparse(node.value.func)}`"
        return None

    def _is_conditional(self, node: ast.AST, function: Scope) -> bool:
        """Whether a node stands within an `if` of a function."""
        inner = node
        for outer in self._module.ancestors(node):
            if outer is function.node:
                return False
            if isinstance(outer, ast.If | ast.IfExp) and inner is not outer.test:
                return True
            inner = outer
        return False

    def _draws(self, call: ast.Call, scope: Scope) -> str | None:
        """Of what a call draws random numbers on the host, if it does."""
        name = self._module.names.qualified(call.func, scope) or ""
        if name.startswith(_HOST_RANDOM) and name not in _GENERATORS:
            return f"draws from `{name.rpartition('.')[0]}`"
        generators = [word.value for word in call.keywords if word.arg == "generator"]
        if isinstance(call.func, ast.Attribute) and self._is_generator(call.func.value, scope):
            generators.append(call.func.value)
        return f"draws from `{ast.unparse(generators[0])}`" if generators else None

    def _is_generator(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a name or an attribute of `self` is a generator of Python or NumPy, where it is made."""
        made: list[tuple[ast.expr | None, Scope]] = []
        method = method_around(scope)
        if isinstance(node, ast.Name) and (found := self._module.names.lookup(node.id, scope)) is not None:
            made = [(binding.value, found[0]) for binding in found[1]]
        elif (path := place(node)) is not None and method is not None and method.owner is not None:
            cls = f"{self._module.name}.{method.owner.qualname}"
            made += self._module.assignments.get((cls, path.removeprefix("self.")), [])
        names = (
            self._module.names.qualified(value.func, at) for value, at in made if isinstance(value, ast.Call)
        )
        return any(name in _GENERATORS for name in names)


def _simulated(statements: Iterable[ast.stmt]) -> str | None:
    """What one of some statements takes a step of, if any does."""
    nodes = (node for one in statements for node in ast.walk(one))
    return next((why for node in nodes if (why := _simulates(node)) is not None), None)


def _simulates(node: ast.AST) -> str | None:
    """What a statement takes a step of, if any, as `state, reward, done, info = env.step(action)` does."""
    match node:
        case ast.Assign(targets=[ast.Tuple(elts=[_, _, _, _, *_])], value=ast.Call(func=called)):
            is_step = isinstance(called, ast.Attribute) and called.attr == "step"
            return f"calls `{ast.unparse(called)}`, which advances a simulation" if is_step else None
        case _:
            return None
