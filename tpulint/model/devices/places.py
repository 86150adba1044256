"""Where the value of an expression may come from, as a place of `devices.flow`."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.knowledge.configuration import DEFAULT_GIVEN_TO
from tpulint.knowledge.tracing import DEVICE_STRING
from tpulint.model.devices.literals import CUDA, is_formatted_cuda
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind
from tpulint.model.project.definitions import is_of_enumerations
from tpulint.model.project.device_flow import ASKED, GIVEN, LITERAL, OFF, TEXT, UNKNOWN
from tpulint.model.syntax.parsed_file import ParsedFile

_ASKING = ("torch.cuda.is_available", "torch.cuda.device_count")
_SERVED = ("torch.accelerator.", "jax.")
#: Functions whose result is what they are given, or what that is one of, or one of it.
ONE_OF = frozenset(
    {*(f"builtins.{name}" for name in ("list", "tuple", "set", "sorted", "reversed", "iter", "next"))}
    | {"itertools.cycle", "random.choice", "collections.deque"}
)
_KEEPING = frozenset({"torch.device", "builtins.str", "builtins.bool", "builtins.int"}) | ONE_OF


def places(module: ParsedFile, node: ast.expr, scope: Scope) -> Iterator[str]:
    """Where the value of an expression may come from."""
    match node:
        case ast.JoinedStr() | ast.BinOp() | ast.Call() if is_formatted_cuda(node):
            yield LITERAL
        case ast.Constant(value=str() as text):
            if DEVICE_STRING.match(text):
                yield LITERAL
            else:
                yield GIVEN if re.match(r"(cpu|mps|xpu|npu|meta|auto)\b|\Z", text) else UNKNOWN
        case ast.Constant(value=value):
            if value is not None:
                yield GIVEN if value else OFF
        case ast.Name():
            yield from named(module, node.id, scope)
        case ast.Attribute():
            qualified = module.names.qualified(node, scope)
            if node.attr == "value":
                yield from places(module, node.value, scope)  # of a member of an enumeration
            if qualified is None:
                yield f".{node.attr}"
            else:
                yield UNKNOWN if qualified.startswith("torch.") else f"G {qualified}"
        case ast.Subscript() if (key := text_of(node.slice)) is not None:
            if module.names.qualified(node.value, scope) == "os.environ":
                yield TEXT
            else:
                yield f".{key}"
        case ast.Subscript():
            yield from places(module, node.value, scope)  # one of what it holds
        case ast.List() | ast.Tuple() | ast.Set():
            for part in node.elts:
                yield from places(module, part, scope)
        case ast.Dict():
            for part in node.values:
                yield from places(module, part, scope)
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            inside = next((child for child in scope.children if child.node is node), scope)
            yield from places(module, node.elt, inside)
        case ast.IfExp():
            yield from places(module, node.body, scope)
            yield from places(module, node.orelse, scope)
        case ast.BoolOp():
            for part in node.values:
                yield from places(module, part, scope)
        case ast.UnaryOp(op=ast.Not()) | ast.UnaryOp(op=ast.USub()):
            yield from places(module, node.operand, scope)
        case ast.NamedExpr():
            yield from places(module, node.value, scope)
        case ast.Compare():
            yield from _compared(module, node, scope)
        case ast.Call():
            yield from _called(module, node, scope)
        case _:
            yield UNKNOWN


def _compared(module: ParsedFile, node: ast.Compare, scope: Scope) -> Iterator[str]:
    sides = (node.left, *node.comparators)
    texts = [text for side in sides if (text := text_of(side)) is not None]
    if any(CUDA.match(text) for text in texts):
        yield ASKED
    elif "jax" in texts:
        yield GIVEN
    else:
        for side in sides:
            yield from places(module, side, scope)


def _called(module: ParsedFile, call: ast.Call, scope: Scope) -> Iterator[str]:
    qualified = module.names.qualified(call.func, scope)
    last = last_name(call.func)
    key = text_of(call.args[1 if qualified == "builtins.getattr" else 0]) if call.args else None
    if qualified in _ASKING:
        yield ASKED
    elif qualified is not None and qualified.startswith(_SERVED):
        yield GIVEN
    elif qualified in _KEEPING and call.args:
        yield from places(module, call.args[0], scope)
    elif qualified in ("os.environ.get", "os.getenv"):
        yield TEXT
        for default in call.args[1:]:
            yield from places(module, default, scope)
    elif key is not None and (qualified == "builtins.getattr" or last in ("get", "pop", "setdefault")):
        yield f".{key}"
        for default in call.args[2 if qualified == "builtins.getattr" else 1 :]:
            yield from places(module, default, scope)
    elif last in DEFAULT_GIVEN_TO:
        for keyword in call.keywords:
            if keyword.arg == "default":
                yield from places(module, keyword.value, scope)
        yield from (place for argument in call.args[:1] for place in places(module, argument, scope))
    elif last == "startswith" and call.args and isinstance(call.func, ast.Attribute):
        yield from _compared(module, ast.Compare(call.func.value, [ast.Eq()], [call.args[0]]), scope)
    else:
        yield f"R {last}" if last else UNKNOWN


def named(module: ParsedFile, name: str, scope: Scope) -> Iterator[str]:
    """Where the value of a plain name may come from: itself, a star import, or what is looped over."""
    yield variable(module, name, scope)
    found = module.names.lookup(name, scope)
    if found is None:
        yield from (f"G {star}.{name}" for star in module.index.module.stars)
        return
    several = found[0].loops.get(name) or found[0].unpacked.get(name)
    if isinstance(several, ast.Name):
        yield variable(module, several.id, found[0])
    elif isinstance(several, ast.Attribute):
        yield from places(module, several, found[0])
    elif isinstance(several, ast.List | ast.Tuple | ast.Set | ast.Dict):
        held = several.values if isinstance(several, ast.Dict) else several.elts
        parts = (part for part in held if not isinstance(part, ast.Name))  # a name may be its own
        yield from (place for part in parts for place in places(module, part, found[0]))


def variable(module: ParsedFile, name: str, scope: Scope) -> str:
    """The place of a plain name."""
    found = module.names.lookup(name, scope)
    if found is None:
        return UNKNOWN
    owner, bindings = found
    if owner.kind is ScopeKind.CLASS:
        return f"E {module.name}.{owner.qualname}" if is_enumeration(owner) else f".{name}"
    if owner.kind is ScopeKind.MODULE:
        target = next((binding.target for binding in bindings if binding.target is not None), None)
        return f"G {target or f'{module.name}.{name}'}"
    parameter = any(
        binding.value is None and binding.node is None and binding.target is None for binding in bindings
    ) and is_parameter(owner, name)
    if parameter and name == "self" and owner.owner is not None and is_enumeration(owner.owner):
        return f"E {module.name}.{owner.owner.qualname}"
    return f"{'P' if parameter else 'L'} {module.name}.{owner.qualname} {name}"


def is_parameter(scope: Scope, name: str) -> bool:
    """Whether a name is a parameter of a function, by its scope."""
    node = scope.node
    if not isinstance(node, FunctionNode):
        return False
    return any(a.arg == name for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))


def is_enumeration(scope: Scope) -> bool:
    """Whether a scope is that of a class whose members have values, as `class Device(str, Enum)`."""
    node = scope.node
    return isinstance(node, ast.ClassDef) and any(map(is_of_enumerations, map(last_name, node.bases)))


def last_name(node: ast.AST) -> str:
    """A plain name, or the last part of a dotted one."""
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def text_of(node: ast.AST) -> str | None:
    """The text that a literal is."""
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
