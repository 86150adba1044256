"""The strings that a setting, such as the backend of a process group, may have on a TPU host."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.devices.places import last_name
from tpulint.model.devices.targets import option
from tpulint.model.names.references import default_of
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.tracing.guards import CUDA, asks

#: Expressions that name the operating system, with what they are on Linux, the system of TPU hosts.
_SYSTEMS = {"os.name": "posix", "sys.platform": "linux", "platform.system": "Linux"}
#: Functions of torch that are false on a TPU host.
_ABSENT = frozenset(f"torch.distributed.{part}is_nccl_available" for part in ("", "distributed_c10d."))
#: Methods that change how a string is written, not what it names.
_RESPELLING = frozenset({"lower", "strip", "upper"})


def settings(module: ProjectFile, node: ast.expr, scope: Scope) -> frozenset[str | None]:
    """All strings that an expression may be on a TPU host, as far as the file says; None for another one.

    A branch that only CUDA or another operating system reaches does not count.
    """
    return frozenset(_Settings(module).of(node, scope))


class _Settings:
    """Follows one expression to the strings that it may be."""

    def __init__(self, module: ProjectFile) -> None:
        self.module = module
        self.seen: set[int] = set()

    def of(self, node: ast.expr, scope: Scope) -> Iterator[str | None]:
        if id(node) in self.seen:
            return
        self.seen.add(id(node))
        match node:
            case ast.Constant(value=str() as text):
                yield text
            case ast.IfExp():
                truth = on_tpu_host(self.module, node.test, scope)
                for branch, wanted in ((node.body, True), (node.orelse, False)):
                    if truth in (None, wanted):
                        left_out = _left_out(node.test, branch, is_body=wanted)
                        yield from (text for text in self.of(branch, scope) if text not in left_out)
            case ast.BoolOp(op=ast.Or()):
                for part in node.values:
                    yield from self.of(part, scope)
            case ast.Name():
                yield from self._named(node, scope)
            case ast.Attribute(attr=name):
                yield from self._held(name, self.module.assigned.get(ast.unparse(node), []), scope)
            case ast.Subscript(slice=ast.Constant(value=str() as key)):
                yield from self._held(key, self.module.assigned.get(ast.unparse(node), []), scope)
            case ast.Call():
                yield from self._called(node, scope)
            case _:
                yield None

    def _named(self, node: ast.Name, scope: Scope) -> Iterator[str | None]:
        found = self.module.names.lookup(node.id, scope)
        if found is None:
            yield None
            return
        owner, bindings = found
        values = [binding.value for binding in bindings if binding.value is not None]
        reached = [value for value in values if self._reaches(value, owner) is not False]
        chosen = [value for value in reached if self._reaches(value, owner)]
        for value in chosen[-1:] or reached:
            yield from self.of(value, owner)
        if chosen or len(values) == len(bindings):
            return
        default = default_of(node.id, owner) if owner.kind is ScopeKind.FUNCTION else None
        passed = [*self.module.handed(node.id, owner)] if owner.kind is ScopeKind.FUNCTION else []
        for value, place in passed:
            yield from self.of(value, place)
        if default is not None and owner.parent is not None:
            yield from self.of(default, owner.parent)
        elif not passed:
            yield None

    def _reaches(self, value: ast.expr, scope: Scope) -> bool | None:
        """Whether the statement with a value is reached on a TPU host; None where no condition decides."""
        outcomes: list[bool | None] = []
        inner: ast.AST = value
        for outer in self.module.ancestors(value):
            if isinstance(outer, FunctionNode):
                break
            if isinstance(outer, ast.If) and inner is not outer.test:
                truth = on_tpu_host(self.module, outer.test, scope)
                is_body = any(inner is statement for statement in outer.body)
                outcomes.append(None if truth is None else truth is is_body)
            inner = outer
        if False in outcomes:
            return False
        return True if outcomes and None not in outcomes else None

    def _held(self, name: str, assigned: list[ast.expr], scope: Scope) -> Iterator[str | None]:
        """What an option of the command line, a field of a class or a key of a mapping may be."""
        found = [(value, scope) for value in assigned]
        index = self.module.index
        for call, place in index.calls.get("add_argument", ()):
            if isinstance(call, ast.Call) and option(call) == f".{name}":
                found += [(word.value, place) for word in call.keywords if word.arg == "default"]
        for cls in index.classes:
            values = (binding.value for binding in cls.bindings.get(name, ()))
            found += [(value, cls) for value in values if value is not None]
        for attribute, value, place in index.attributes:
            if attribute == name:
                found.append((value, place))
        for key, place in index.texts.get(name, ()):
            outer = self.module.parent(key)
            if isinstance(outer, ast.Dict) and key in outer.keys:
                found.append((outer.values[outer.keys.index(key)], place))
        for call, place in index.passing.get(name, ()):
            if isinstance(call, ast.Call) and _keeps(call):
                found += [(word.value, place) for word in call.keywords if word.arg == name]
        for value, place in found:
            yield from self.of(value, place)
        if not found:
            yield None

    def _called(self, call: ast.Call, scope: Scope) -> Iterator[str | None]:
        qualified = self.module.names.qualified(call.func, scope) or ""
        method = call.func.attr if isinstance(call.func, ast.Attribute) else ""
        if qualified in ("os.environ.get", "os.getenv") or (method == "get" and not qualified):
            key = call.args[0].value if call.args and isinstance(call.args[0], ast.Constant) else None
            for default in call.args[1:]:
                yield from self.of(default, scope)
            if len(call.args) < 2 and isinstance(key, str) and not qualified:
                yield from self._held(key, [], scope)
            elif len(call.args) < 2:
                yield None
        elif qualified == "builtins.getattr" and len(call.args) == 3:
            yield from self.of(call.args[2], scope)
        elif method in _RESPELLING and isinstance(call.func, ast.Attribute):
            yield from self.of(call.func.value, scope)
        else:
            functions = [one for one in self.module.index.functions if self._is(one, qualified)]
            returned = [(node.value, one) for one in functions for node in _returns(one.node)]
            for value, place in returned:
                if value is not None and self._reaches(value, place) is not False:
                    yield from self.of(value, place)
            if not returned:
                yield None

    def _is(self, function: Scope, qualified: str) -> bool:
        return qualified == f"{self.module.name}.{function.qualname}"


def _left_out(test: ast.expr, branch: ast.expr, *, is_body: bool) -> list[str]:
    """The strings that an expression is not, as a branch of a condition that compares it with them."""
    match test:
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            differs = isinstance(operator, ast.NotEq | ast.NotIn)
            if differs is is_body and ast.unparse(left) == ast.unparse(branch):
                return _texts(right)
    return []


def _keeps(call: ast.Call) -> bool:
    """Whether a call makes an object or a mapping that keeps its keyword arguments."""
    last = last_name(call.func)
    return last[:1].isupper() or last in ("dict", "replace", "set_defaults", "update")


def _returns(function: ast.AST) -> Iterator[ast.Return]:
    """The `return` statements of a function, those of functions within it left out."""
    waiting = [*ast.iter_child_nodes(function)]
    while waiting:
        node = waiting.pop(0)
        if isinstance(node, ast.Return):
            yield node
        elif not isinstance(node, FunctionNode | ast.ClassDef):
            waiting.extend(ast.iter_child_nodes(node))


def on_tpu_host(module: ProjectFile, test: ast.expr, scope: Scope) -> bool | None:
    """How a condition on CUDA or the operating system comes out on a TPU host; None for other conditions."""
    match test:
        case ast.UnaryOp(op=ast.Not()):
            inner = on_tpu_host(module, test.operand, scope)
            return None if inner is None else not inner
        case ast.BoolOp():
            parts = [on_tpu_host(module, value, scope) for value in test.values]
            decisive = isinstance(test.op, ast.Or)
            if any(part is decisive for part in parts):
                return decisive
            return None if any(part is None for part in parts) else not decisive
        case ast.Compare(left=left, ops=[operator], comparators=[right]):
            system = _system(module, left, scope)
            named = _texts(right)
            if system is not None and named:
                if isinstance(operator, ast.Eq | ast.In):
                    return system in named
                if isinstance(operator, ast.NotEq | ast.NotIn):
                    return system not in named
        case ast.Call(func=ast.Attribute(attr="startswith", value=start), args=[one]):
            system = _system(module, start, scope)
            if system is not None:
                return any(system.startswith(text) for text in _texts(one))
        case ast.Call() if module.names.qualified(test.func, scope) in _ABSENT:
            return False
    if asks(CUDA, module, test, scope, truth=True):
        return False
    return True if asks(CUDA, module, test, scope, truth=False) else None


def _system(module: ParsedFile, node: ast.expr, scope: Scope) -> str | None:
    """What an expression that names the operating system is on a TPU host."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _RESPELLING:
        inner = _system(module, node.func.value, scope)
        return inner.lower() if inner is not None and node.func.attr == "lower" else inner
    named = node.func if isinstance(node, ast.Call) else node
    return _SYSTEMS.get(module.names.qualified(named, scope) or "")


def _texts(node: ast.expr) -> list[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return [part.value for part in parts if isinstance(part, ast.Constant) and isinstance(part.value, str)]
