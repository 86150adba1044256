"""What functions of one file tell each other: kinds of arguments to parameters, of results to calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from tpulint.knowledge.tracing import is_device_word
from tpulint.model.names.references import is_none_by_default, method_around, positional
from tpulint.model.names.scopes import FunctionNode, Scope, parameters
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import NONE, STATIC, UNKNOWN, Kind, Several, Static, Tensor, joined
from tpulint.model.values.typed_file import TypedFile

#: How often one function is walked anew for what calls hand to it, and how deep such walks nest.
_TIMES, _DEEP = 4, 3
#: Decorators that leave alone what a function takes and gives.
_TRANSPARENT = frozenset(
    {
        *("builtins.staticmethod", "builtins.classmethod"),
        *("torch.no_grad", "torch.inference_mode", "torch.compile", "torch.jit.script", "torch.jit.ignore"),
    }
)


def callers(module: ProjectFile, scope: Scope) -> Iterator[Scope]:
    """The traced functions of the file that call a function of it which leaves parameters undeclared."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef):
        return
    if any(a.annotation is None for a in _plain(node)) or steps_through(module, scope):
        for _, place in _calls(module, scope):
            function = place.function
            if function is not None and function is not scope and module.trace_path(function) is not None:
                yield function


def stepped_through(module: ProjectFile, scope: Scope, parameter: str) -> str | None:
    """The attribute of a method's class that a parameter is named for: `timesteps`, of a `timestep`."""
    if scope.owner is None:
        return None
    attribute = f"{parameter.rpartition('_')[2]}s"
    classes = module.project.mro(f"{module.name}.{scope.owner.qualname}")
    return attribute if any((cls, attribute) in module.assignments for cls in classes) else None


def steps_through(module: ProjectFile, scope: Scope) -> bool:
    """Whether a method takes an element of what its own class keeps."""
    node = scope.node
    return isinstance(node, ast.FunctionDef) and any(
        stepped_through(module, scope, a.arg) for a in _plain(node)
    )


def handed_kind(module: TypedFile, scope: Scope, parameter: str) -> Kind:
    """What the file's calls of a function hand to a parameter; `UNKNOWN` unless all of them tell."""
    kinds = _handed_kinds(module, scope, parameter)
    return UNKNOWN if UNKNOWN in kinds else _abroad(joined(tuple(kinds)))


def _handed_kinds(module: TypedFile, scope: Scope, parameter: str) -> list[Kind]:
    node = scope.node
    if not isinstance(node, ast.FunctionDef):
        return [UNKNOWN]
    names = [argument.arg for argument in _plain(node)]
    if scope.owner is not None and names[:1] in (["self"], ["cls"]):
        del names[0]
    kinds: list[Kind] = []
    for call, place in _calls(module, scope):
        argument = _argument(call, names, parameter)
        kinds.append(module.kind_so_far(argument, place) if argument is not None else UNKNOWN)
    return kinds


def _plain(node: ast.FunctionDef) -> list[ast.arg]:
    return [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]


def _calls(module: ParsedFile, scope: Scope) -> Iterator[tuple[ast.Call, Scope]]:
    for call, place in module.index.calls.get(scope.name, ()):
        if not isinstance(call, ast.Call):
            continue
        if scope.owner is None:
            if module.names.qualified(call.func, place) == f"{module.name}.{scope.qualname}":
                yield call, place
        elif isinstance(call.func, ast.Attribute) and getattr(call.func.value, "id", "") == "self":
            method = method_around(place)
            if method is not None and method.owner is scope.owner:
                yield call, place


def _argument(call: ast.Call, names: list[str], parameter: str) -> ast.expr | None:
    for keyword in call.keywords:
        if keyword.arg == parameter:
            return keyword.value
    position = names.index(parameter) if parameter in names else len(names)
    before = call.args[: position + 1]
    if len(before) <= position or any(isinstance(argument, ast.Starred) for argument in before):
        return None
    return before[position]


def returned_in_file(module: TypedFile, function: Scope) -> Kind:
    """What the returns of a function of the file give; `UNKNOWN` for what is decorated or yields."""
    node = function.node
    if not isinstance(node, FunctionNode) or isinstance(node, ast.AsyncFunctionDef):
        return UNKNOWN
    if isinstance(node, ast.FunctionDef) and not _is_plain(module, function, node):
        return UNKNOWN
    flow = module.flow(function)
    if flow is None or flow.yields:
        return UNKNOWN
    returned = joined(tuple(flow.returned))
    if isinstance(returned, Tensor) and not returned.certain:
        undeclared = [a.arg for a in parameters(node) if a.annotation is None]
        handed = [_handed_kinds(module, function, name) for name in undeclared if name in flow.initial]
        if any({isinstance(kind, Tensor) for kind in kinds} == {True, False} for kinds in handed):
            return UNKNOWN  # only some calls hand over a tensor, and so only some give one
    return _abroad(returned)


def _is_plain(module: ParsedFile, function: Scope, node: ast.FunctionDef) -> bool:
    """Whether no decorator changes what a function takes and gives."""
    outer = function.parent
    called = [d.func if isinstance(d, ast.Call) else d for d in node.decorator_list]
    return outer is not None and all(module.names.qualified(d, outer) in _TRANSPARENT for d in called)


class Walk(NamedTuple):
    """What one call of a function comes to: what it gives, and which host tensors meet the device's in it."""

    returned: Kind
    mixed: frozenset[int]


class Walks:
    """Functions of one file walked anew for what calls hand to them, few times each: time stays linear."""

    def __init__(self, module: TypedFile) -> None:
        self.module = module
        self._known: dict[int, dict[tuple[tuple[str, Kind], ...], Walk | None]] = {}
        self._defaults: dict[int, Mapping[int, Kind]] = {}
        self._asked_for: dict[int, frozenset[str]] = {}
        self._depth = 0

    def of_call(
        self, function: Scope, call: ast.Call, arguments: list[Kind], keywords: Mapping[str | None, Kind]
    ) -> Walk | None:
        """What a call comes to; None where the text does not tell what is handed to which parameter."""
        given = _given(self.module, function, call, arguments, keywords)
        if given is None:
            return None
        known = self._known.setdefault(id(function), {})
        key = tuple(given.items())
        if key not in known and len(known) < _TIMES and self._depth < _DEEP:
            known[key] = None  # while it is under way
            self._depth += 1
            flow = self.module.flow_for(function, given)
            self._depth -= 1
            if not flow.yields:
                unsure = self._leaves_tensors_open(function, given)
                returned = UNKNOWN if unsure else _abroad(joined(tuple(flow.returned)))
                known[key] = Walk(returned, frozenset(flow.mixed))
        return known.get(key)

    def _leaves_tensors_open(self, function: Scope, given: Mapping[str, Kind]) -> bool:
        """Whether a parameter that is declared a tensor is handed what nobody knows."""
        declared = self.module.flow(function)
        if declared is None:
            return True
        return any(
            given.get(name) == UNKNOWN for name, kind in declared.initial.items() if isinstance(kind, Tensor)
        )

    def lacks_device(self, function: Scope, call: ast.Call) -> bool:
        """Whether a call leaves out a device that the function takes, so that it works on the host."""
        devices = self._devices(function)
        return bool(devices) and devices.isdisjoint(keyword.arg or "" for keyword in call.keywords)

    def _devices(self, function: Scope) -> frozenset[str]:
        """The parameters of a function that sound like devices and are None by default."""
        known = self._asked_for.get(id(function))
        if known is None:
            assert isinstance(function.node, FunctionNode)
            names = [a.arg for a in parameters(function.node) if is_device_word(a.arg)]
            found = frozenset(name for name in names if is_none_by_default(name, function))
            known = self._asked_for[id(function)] = found
        return known

    def by_default(self, function: Scope) -> Mapping[int, Kind]:
        """The kinds of a function's expressions where calls leave at None the devices that are by default."""
        known = self._defaults.get(id(function))
        if known is None:
            given: dict[str, Kind] = dict.fromkeys(self._devices(function), NONE)
            known = self._defaults[id(function)] = self.module.flow_for(function, given).kinds
        return known


def _given(
    module: ParsedFile,
    function: Scope,
    call: ast.Call,
    arguments: list[Kind],
    keywords: Mapping[str | None, Kind],
) -> dict[str, Kind] | None:
    """What a call hands to each parameter; those that it leaves at None hold that."""
    node = function.node
    if not isinstance(node, ast.FunctionDef) or not _is_plain(module, function, node):
        return None
    if None in keywords or any(isinstance(argument, ast.Starred) for argument in call.args):
        return None
    names = positional(function)
    if len(arguments) > len(names) or not {*keywords} <= {argument.arg for argument in _plain(node)}:
        return None
    handed = {**dict(zip(names, arguments, strict=False)), **{str(n): kind for n, kind in keywords.items()}}
    given: dict[str, Kind] = {}
    for argument in _plain(node):
        name = argument.arg
        if name in handed:
            kind = _abroad(handed[name])
            given[name] = replace(kind, root=name) if isinstance(kind, Tensor) else kind
        elif is_none_by_default(name, function):
            given[name] = NONE
    return given


def _abroad(kind: Kind) -> Kind:
    """A kind as another function sees it: the names and constants of the one that it comes from are gone."""
    if isinstance(kind, Tensor):
        return replace(kind, root="")
    if isinstance(kind, Several):
        items = tuple(map(_abroad, kind.items)) if kind.items is not None else None
        return Several(_abroad(kind.element), items)
    if isinstance(kind, Static) and kind.value is not None:
        return STATIC
    return kind
