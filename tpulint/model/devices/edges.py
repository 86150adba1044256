"""What a file hands on of devices, and of flags that ask for them; see `devices.flow` for the places."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from tpulint.knowledge.configuration import DEFAULT_GIVEN_TO, TEXT_READERS
from tpulint.knowledge.tracing import DEVICE_STRING, is_device_word
from tpulint.model.devices.flow import ASKED, GIVEN, LITERAL, OFF, SINK, TEXT, UNKNOWN, Edge
from tpulint.model.devices.literals import CUDA, is_formatted_cuda
from tpulint.model.names.references import default_of, defaults, positional
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind

if TYPE_CHECKING:
    from tpulint.model.module import Module

_ASKING = ("torch.cuda.is_available", "torch.cuda.device_count")
#: What torch calls functions and methods that are given a device by position.
_DOORS = ("to", "device", "set_default_device")
_SERVED = ("torch.accelerator.", "jax.")


def device_edges(module: Module) -> tuple[Edge, ...]:
    """All that a file hands on."""
    return tuple(sorted(_Edges(module).found)) if _concerns(module) else ()


def _concerns(module: Module) -> bool:
    index = module.index
    return bool(index.named) or any(map(is_device_word, (*index.taken, *index.calls, *index.texts)))


class _Edges:
    """Collects one file's edges: from torch's doors and from what bears a telling name."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.found: set[Edge] = set()
        self.at_doors: set[str] = set()
        self._doors()
        for node, scope in self._leaves():
            for target in targets(module, node, scope):
                for source in places(module, node, scope):
                    self.found.add((target, source))
        self._variables()
        self._stores()
        self._parameters()
        self._options()

    def _add(self, target: str, value: ast.expr, scope: Scope) -> None:
        self.found |= {(target, source) for source in places(self.module, value, scope)}

    def _doors(self) -> None:
        index = self.module.index
        doors = [place for name in _DOORS for place in index.calls.get(name, ())]
        passing = [place for name in ("device", "**") for place in index.passing.get(name, ())]
        for node, scope in dict.fromkeys([*doors, *passing]):
            assert isinstance(node, ast.Call)
            function = scope.function
            owner = f"{self.module.name}.{function.qualname}" if function is not None else self.module.name
            for argument in given_device(self.module, node, scope):
                self._add(SINK, argument, scope)
                self._add(f"D {owner}", argument, scope)
        self.at_doors = {source for _, source in self.found}
        #: The same without what they are names of, for a first look.
        self.names_at_doors = {re.split(r"[ .]", source)[-1] for source in self.at_doors}

    def _leaves(self) -> Iterator[tuple[ast.expr, Scope]]:
        index = self.module.index
        for node, scope in index.named:
            assert isinstance(node, ast.Name)
            yield node, scope
        for name, found in index.taken.items():
            if is_device_word(name):
                for node, scope in found:
                    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load):
                        yield node, scope
        for text, found in index.texts.items():
            if DEVICE_STRING.match(text):
                for node, scope in found:
                    assert isinstance(node, ast.Constant)
                    yield node, scope

    def _variables(self) -> None:
        index = self.module.index
        for scope in (index.module, *index.classes, *index.functions):
            for name, bindings in scope.bindings.items():
                values = [binding.value for binding in bindings if binding.value is not None]
                if not values or not (self._may_matter(name) or len(values) < len(bindings)):
                    continue
                place = variable(self.module, name, scope)
                if is_device_word(name) or place in self.at_doors:
                    for value in values:
                        self._add(place, value, scope)

    def _may_matter(self, name: str) -> bool:
        return name in self.names_at_doors or is_device_word(name)

    def _stores(self) -> None:
        index = self.module.index
        stored: list[tuple[str, ast.AST, Scope]] = [
            (name, node, scope)
            for name, found in index.taken.items()
            if is_device_word(name) or f".{name}" in self.at_doors
            for node, scope in found
            if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store)
        ]
        for node, scope in index.nodes[ast.Subscript]:
            assert isinstance(node, ast.Subscript)
            key = _text(node.slice)
            if isinstance(node.ctx, ast.Store) and key is not None and is_device_word(key):
                stored.append((key, node, scope))
        for name, node, scope in stored:
            outer = self.module.parent(node)
            if isinstance(outer, ast.Assign | ast.AnnAssign) and outer.value is not None:
                self._add(f".{name}", outer.value, scope)
            elif outer is not None:
                self.found.add((f".{name}", UNKNOWN))

    def _parameters(self) -> None:
        for scope in self.module.index.functions:
            node = scope.node
            assert isinstance(node, FunctionNode)
            arguments = (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs)
            names = [a.arg for a in arguments if self._may_matter(a.arg)]
            called = _called_as(scope) if names else ()
            by_place = positional(scope) if names else ()
            for name in names:
                place = f"P {self.module.name}.{scope.qualname} {name}"
                if not is_device_word(name) and place not in self.at_doors:
                    continue
                for last in called:
                    self.found |= {(place, f"K {last} {name}"), (place, f"K {last} **{name}")}
                    if name in by_place:
                        self.found.add((place, f"K {last} {by_place.index(name)}"))
                default = default_of(name, scope)
                if default is not None and scope.parent is not None:
                    self._add(place, default, scope.parent)
            if _is_property(scope) and is_device_word(scope.name):
                self.found.add((f".{scope.name}", f"R {scope.name}"))

    def _options(self) -> None:
        """Flags of a command line, which are the user's to choose."""
        for node, scope in self.module.index.calls.get("add_argument", ()):
            assert isinstance(node, ast.Call)
            words = {keyword.arg: keyword.value for keyword in node.keywords}
            place = option(node)
            if place is not None and is_device_word(place):
                if "default" in words:
                    self._add(place, words["default"], scope)
                self.found.add((place, GIVEN))
        for node, _ in self.module.index.passing.get("**", ()):
            assert isinstance(node, ast.Call)
            self.found.add((f"K {_last(node.func)} **", UNKNOWN))


def given_device(module: Module, call: ast.Call, scope: Scope) -> Iterator[ast.expr]:
    """The arguments of a call that torch may take as a device, going by names alone."""
    last = _last(call.func)
    if last not in _DOORS and not any(keyword.arg in ("device", None) for keyword in call.keywords):
        return
    qualified = module.names.qualified(call.func, scope)
    # A scaler for `jax` is enabled, and fails then; one for `cuda` disables itself.
    of_torch = qualified is not None and qualified.startswith("torch.") and last != "GradScaler"
    method = qualified is None and isinstance(call.func, ast.Attribute)
    if qualified in ("torch.device", "torch.set_default_device") or (method and last == "to"):
        yield from call.args[:1]
    if of_torch or (method and (last == "to" or last.startswith("new_"))):
        for keyword in call.keywords:
            if keyword.arg == "device":
                yield keyword.value
            elif keyword.arg is None:
                yield ast.Attribute(keyword.value, "device", ast.Load())


def places(module: Module, node: ast.expr, scope: Scope) -> Iterator[str]:
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
            yield variable(module, node.id, scope)
        case ast.Attribute():
            qualified = module.names.qualified(node, scope)
            if qualified is not None and not qualified.startswith("torch."):
                yield f"G {qualified}"
            yield f".{node.attr}" if qualified is None or qualified[0].isupper() else UNKNOWN
        case ast.Subscript() if (key := _text(node.slice)) is not None:
            if module.names.qualified(node.value, scope) == "os.environ":
                yield TEXT
            else:
                yield f".{key}"
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


def _compared(module: Module, node: ast.Compare, scope: Scope) -> Iterator[str]:
    sides = (node.left, *node.comparators)
    texts = [text for side in sides if (text := _text(side)) is not None]
    if any(CUDA.match(text) for text in texts):
        yield ASKED
    elif "jax" in texts:
        yield GIVEN
    else:
        for side in sides:
            yield from places(module, side, scope)


def _called(module: Module, call: ast.Call, scope: Scope) -> Iterator[str]:
    qualified = module.names.qualified(call.func, scope)
    last = _last(call.func)
    key = _text(call.args[1 if qualified == "builtins.getattr" else 0]) if call.args else None
    if qualified in _ASKING:
        yield ASKED
    elif qualified is not None and qualified.startswith(_SERVED):
        yield GIVEN
    elif qualified in ("torch.device", "builtins.str", "builtins.bool", "builtins.int") and call.args:
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


def variable(module: Module, name: str, scope: Scope) -> str:
    """The place of a plain name."""
    found = module.names.lookup(name, scope)
    if found is None:
        return UNKNOWN
    owner, bindings = found
    if owner.kind is ScopeKind.CLASS:
        return f".{name}"
    if owner.kind is ScopeKind.MODULE:
        target = next((binding.target for binding in bindings if binding.target is not None), None)
        return f"G {target or f'{module.name}.{name}'}"
    parameter = any(
        binding.value is None and binding.node is None and binding.target is None for binding in bindings
    ) and _is_parameter(owner, name)
    return f"{'P' if parameter else 'L'} {module.name}.{owner.qualname} {name}"


def _is_parameter(scope: Scope, name: str) -> bool:
    node = scope.node
    if not isinstance(node, FunctionNode):
        return False
    return any(a.arg == name for a in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs))


def targets(module: Module, node: ast.expr, scope: Scope) -> Iterator[str]:
    """What the value of an expression is handed to."""
    inner: ast.AST = node
    outer = module.parent(node)
    listed = False
    while outer is not None:
        match outer:
            case ast.IfExp() if outer.test is inner:
                return
            case ast.IfExp() | ast.BoolOp() | ast.keyword():
                pass
            case ast.List() | ast.Tuple() | ast.Set():
                listed = True
            case ast.Call():
                found, passed = _into_call(module, outer, inner, scope, listed=listed)
                yield from found
                if not passed:
                    return
            case _:
                if not listed:
                    yield from _into(module, outer, inner, scope)
                return
        inner, outer = outer, module.parent(outer)


def _into(module: Module, outer: ast.AST, inner: ast.AST, scope: Scope) -> Iterator[str]:
    """The places in which a statement, a signature or a display of a mapping puts a value."""
    match outer:
        case ast.Assign():
            for target in outer.targets:
                yield from _stored(module, target, scope)
        case ast.AnnAssign() | ast.NamedExpr():
            yield from _stored(module, outer.target, scope)
        case ast.Dict():
            for key, value in zip(outer.keys, outer.values, strict=True):
                if value is inner and key is not None and (text := _text(key)) is not None:
                    yield f".{text}"
        case ast.Return():
            function = scope.function
            if function is not None:
                yield f"R {function.name}"
        case ast.arguments():
            child = next((c for c in scope.children if getattr(c.node, "args", None) is outer), None)
            for name, default in defaults(outer):
                if default is inner and child is not None:
                    yield f"P {module.name}.{child.qualname} {name}"


def _stored(module: Module, target: ast.expr, scope: Scope) -> Iterator[str]:
    if isinstance(target, ast.Name):
        yield variable(module, target.id, scope)
    elif isinstance(target, ast.Attribute):
        yield f".{target.attr}"
    elif isinstance(target, ast.Subscript) and (key := _text(target.slice)) is not None:
        yield f".{key}"


def _into_call(
    module: Module, call: ast.Call, inner: ast.AST, scope: Scope, *, listed: bool
) -> tuple[list[str], bool]:
    """What a call does with an argument: the places that it gets to, and whether the call's value has it."""
    word = inner.arg if isinstance(inner, ast.keyword) else None
    value = inner.value if isinstance(inner, ast.keyword) else inner
    position = call.args.index(value) if value in call.args else None
    if inner is call.func or (word is None and position is None):
        return [], False
    last = _last(call.func)
    qualified = module.names.qualified(call.func, scope)
    if last == "add_argument":
        place = option(call)
        stands = word == ("choices" if listed else "default")
        return ([place] if stands and place is not None else []), False
    if last in ("option", "argument") and (word == "type" if listed else word == "default"):
        return _decorated(module, call, scope), False
    if last == "Choice":
        return [], listed
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
    key = _text(call.args[1 if qualified == "builtins.getattr" else 0]) if call.args else None
    if key is not None and qualified == "builtins.getattr" and position == 2:
        return [f".{key}"], True
    if key is not None and last in ("get", "pop", "setdefault") and position == 1:
        return [f".{key}"], True
    if qualified is not None and qualified.partition(".")[0] != "builtins" and _is_foreign(module, qualified):
        return [], False
    found = [f"K {last} {word if word is not None else position}"]
    if word is not None and (last[:1].isupper() or last in ("dict", "replace", "set_defaults", "update")):
        found.append(f".{word}")
    return found, False


def _is_foreign(module: Module, qualified: str) -> bool:
    """Whether a name belongs to a package that is no part of the project, once that is known."""
    return bool(module.project.modules) and module.project.home(module.project.resolve(qualified)) is None


def _decorated(module: Module, call: ast.Call, scope: Scope) -> list[str]:
    """The parameter that an option of click gives to the function that it decorates."""
    outer = module.parent(call)
    named = next((text for argument in call.args if (text := _text(argument)) and text[:2] == "--"), None)
    if not isinstance(outer, ast.FunctionDef) or named is None:
        return []
    name = next((t for a in call.args if (t := _text(a)) and t.isidentifier()), None)
    own = name or named.partition("/")[0].lstrip("-").replace("-", "_")
    child = next((child for child in scope.children if child.node is outer), None)
    return [f"P {module.name}.{child.qualname} {own}"] if child is not None else []


def option(call: ast.Call) -> str | None:
    """The place in which an argument parser puts an option."""
    for keyword in call.keywords:
        if keyword.arg == "dest":
            dest = _text(keyword.value)
            return f".{dest}" if dest is not None else None
    names = [text for argument in call.args if (text := _text(argument)) is not None]
    chosen = next((name for name in names if name.startswith("--")), names[0] if names else None)
    return f".{chosen.lstrip('-').replace('-', '_')}" if chosen is not None else None


def reads_text(module: Module) -> bool:
    """Whether a file reads configurations, such as JSON and YAML, into mappings."""
    return any(
        module.names.qualified(node.func, scope) in TEXT_READERS
        for last in {name.rpartition(".")[2] for name in TEXT_READERS}
        for node, scope in module.index.calls.get(last, ())
        if isinstance(node, ast.Call)
    )


def _called_as(scope: Scope) -> tuple[str, ...]:
    if scope.name == "__init__" and scope.owner is not None:
        return (scope.owner.name, "__init__", "cls")
    return (scope.name,)


def _is_property(scope: Scope) -> bool:
    decorators = getattr(scope.node, "decorator_list", ())
    return any(_last(decorator) in ("property", "cached_property") for decorator in decorators)


def _last(node: ast.AST) -> str:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else ""


def _text(node: ast.AST) -> str | None:
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else None
