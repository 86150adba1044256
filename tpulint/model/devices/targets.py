"""What the value of an expression is handed to, as places of `devices.flow`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.knowledge.configuration import DEFAULT_GIVEN_TO, NAMESPACE
from tpulint.knowledge.tracing import DEVICE_STRING
from tpulint.model.devices.given import given_device
from tpulint.model.devices.places import ONE_OF, is_enumeration, last_name, places, text_of, variable
from tpulint.model.names.references import defaults
from tpulint.model.names.scopes import Scope
from tpulint.model.project.device_flow import SINK
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile


def targets(module: ProjectFile, node: ast.expr, scope: Scope) -> Iterator[str]:
    """What the value of an expression is handed to."""
    inner: ast.AST = node
    outer = module.parent(node)
    listed = False
    while outer is not None:
        match outer:
            case ast.IfExp() if outer.test is inner:
                return
            case ast.IfExp() | ast.BoolOp() | ast.keyword() | ast.Attribute(attr="value"):
                pass
            case ast.List() | ast.Tuple() | ast.Set():
                if isinstance(outer, ast.Tuple) and (target := _unpacked(module, outer, inner)) is not None:
                    yield from _stored(module, target, scope)
                    return
                listed = True
            case ast.ListComp(elt=made) | ast.SetComp(elt=made) | ast.GeneratorExp(elt=made) if made is inner:
                listed = True
            case ast.Dict() if inner in outer.keys:
                if not _clash(outer.keys):
                    yield from _looked_up(module, outer, scope)
                return
            case ast.Dict():
                key = next((k for k, v in zip(outer.keys, outer.values, strict=True) if v is inner), None)
                if key is not None and not listed and (text := text_of(key)) is not None:
                    yield f".{text}"
                listed = True
            case ast.Call():
                found, passed = _into_call(module, outer, inner, scope, listed=listed)
                yield from found
                if not passed:
                    return
            case _:
                yield from _into(module, outer, inner, scope)
                return
        inner, outer = outer, module.parent(outer)


def _looked_up(module: ProjectFile, mapping: ast.Dict, scope: Scope) -> Iterator[str]:
    """What a mapping's keys are compared with: what is looked up in it, at once or by its name."""
    outer = module.parent(mapping)
    call = module.parent(outer) if isinstance(outer, ast.Attribute) and outer.attr == "get" else None
    match call or outer:
        case ast.Subscript(slice=key, value=value) if value is mapping:
            yield from places(module, _whole(key), scope)
        case ast.Call(args=[key, *_]):
            yield from places(module, _whole(key), scope)
        case _:
            yield from (f"[{target}]" for target in targets(module, mapping, scope))


def _clash(texts: Iterable[ast.expr | None]) -> bool:
    """Whether several of some literals name devices that torchax has but one of."""
    named = [one.value for one in texts if isinstance(one, ast.Constant) and isinstance(one.value, str)]
    return sum(DEVICE_STRING.match(one) is not None for one in named) > 1


def _whole(device: ast.expr) -> ast.expr:
    """A device, for its type."""
    return device.value if isinstance(device, ast.Attribute) and device.attr == "type" else device


def _unpacked(module: ParsedFile, values: ast.Tuple, inner: ast.AST) -> ast.expr | None:
    """The target that gets one of several values, as in `batch, device = 32, "cuda"`."""
    match module.parent(values):
        case ast.Assign(targets=[ast.Tuple(elts=names)]) if len(names) == len(values.elts):
            return next(name for name, value in zip(names, values.elts, strict=True) if value is inner)
    return None


def _into(module: ParsedFile, outer: ast.AST, inner: ast.AST, scope: Scope) -> Iterator[str]:
    """The places in which a statement or a signature puts a value."""
    match outer:
        case ast.Assign():
            for target in outer.targets:
                yield from _stored(module, target, scope)
        case ast.AnnAssign() | ast.NamedExpr():
            yield from _stored(module, outer.target, scope)
        case ast.For(target=ast.Name(id=name)) if outer.iter is inner:
            yield variable(module, name, scope)
        case ast.Return():
            function = scope.function
            if function is not None:
                yield f"R {function.name}"
        case ast.arguments():
            child = next((c for c in scope.children if getattr(c.node, "args", None) is outer), None)
            for name, default in defaults(outer):
                if default is inner and child is not None:
                    yield f"P {module.name}.{child.qualname} {name}"


def _stored(module: ParsedFile, target: ast.expr, scope: Scope) -> Iterator[str]:
    if isinstance(target, ast.Name):
        values = (one.value for of_name in scope.bindings.values() for one in of_name)
        if not is_enumeration(scope) or not _clash(values):
            yield variable(module, target.id, scope)
    elif isinstance(target, ast.Attribute):
        yield f".{target.attr}"
    elif isinstance(target, ast.Subscript):
        key = text_of(target.slice)
        yield from places(module, target.value, scope) if key is None else (f".{key}",)


def _into_call(
    module: ProjectFile, call: ast.Call, inner: ast.AST, scope: Scope, *, listed: bool
) -> tuple[list[str], bool]:
    """What a call does with an argument: the places that it gets to, and whether the call's value has it."""
    word = inner.arg if isinstance(inner, ast.keyword) else None
    value = inner.value if isinstance(inner, ast.keyword) else inner
    position = call.args.index(value) if value in call.args else None
    if inner is call.func or (word is None and position is None):
        return [], False
    last = last_name(call.func)
    qualified = module.names.qualified(call.func, scope)
    if last == "add_argument":
        place = option(call)
        stands = word == ("choices" if listed else "default")
        return ([place] if stands and place is not None else []), False
    if last in ("option", "argument") and (word == "type" if listed else word == "default"):
        return _decorated(module, call, scope), False
    if last == "Choice":
        return [], listed
    if qualified in ONE_OF and position == 0:
        return [], True
    if listed:
        return [], False
    if any(value is device for device in given_device(module, call, scope)):
        return [SINK], qualified == "torch.device"
    if qualified in ("torch.device", "builtins.str") and position == 0:
        return [], True
    if last in DEFAULT_GIVEN_TO and (position == 0 or word == "default"):
        return [], True
    if qualified in ("os.environ.get", "os.getenv"):
        return [], position == 1
    named = ("builtins.getattr", "builtins.setattr")
    key = text_of(call.args[1 if qualified in named else 0]) if len(call.args) > 1 else None
    if key is not None and qualified in named and position == 2:
        return [f".{key}"], qualified == "builtins.getattr"
    if key is not None and last in ("get", "pop", "setdefault") and position == 1:
        return [f".{key}"], True
    if qualified is not None and qualified.partition(".")[0] != "builtins" and _is_foreign(module, qualified):
        return ([f".{word}"] if word is not None and NAMESPACE.match(qualified) else []), False
    found = [f"K {last} {word if word is not None else position}"]
    if word is not None and (last[:1].isupper() or last in ("dict", "replace", "set_defaults", "update")):
        found.append(f".{word}")
    return found, False


def _is_foreign(module: ProjectFile, qualified: str) -> bool:
    """Whether a name belongs to a package that is no part of the project, once that is known."""
    return bool(module.project.modules) and module.project.home(module.project.resolve(qualified)) is None


def _decorated(module: ParsedFile, call: ast.Call, scope: Scope) -> list[str]:
    """The parameter that an option of click gives to the function that it decorates."""
    outer = module.parent(call)
    named = next((text for argument in call.args if (text := text_of(argument)) and text[:2] == "--"), None)
    if not isinstance(outer, ast.FunctionDef) or named is None:
        return []
    name = next((t for a in call.args if (t := text_of(a)) and t.isidentifier()), None)
    own = name or named.partition("/")[0].lstrip("-").replace("-", "_")
    child = next((child for child in scope.children if child.node is outer), None)
    return [f"P {module.name}.{child.qualname} {own}"] if child is not None else []


def option(call: ast.Call) -> str | None:
    """The place in which an argument parser puts an option."""
    for keyword in call.keywords:
        if keyword.arg == "dest":
            dest = text_of(keyword.value)
            return f".{dest}" if dest is not None else None
    names = [text for argument in call.args if (text := text_of(argument)) is not None]
    chosen = next((name for name in names if name.startswith("--")), names[0] if names else None)
    return f".{chosen.lstrip('-').replace('-', '_')}" if chosen is not None else None
