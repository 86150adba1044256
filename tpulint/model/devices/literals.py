"""Texts that name a device of CUDA's."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.knowledge.tracing import DEVICE_NUMBER, UNFINISHED_DEVICE

if TYPE_CHECKING:
    from tpulint.model.names.index import Index
    from tpulint.model.names.qualified import Names
    from tpulint.model.names.scopes import Scope

CUDA = re.compile(r"cuda(:\d+)?\Z")


def is_cuda_string(node: ast.AST) -> bool:
    """Whether a node is a literal such as `"cuda"` or `"cuda:0"`."""
    return (
        isinstance(node, ast.Constant) and isinstance(node.value, str) and CUDA.match(node.value) is not None
    )


def starts_cuda(text: str) -> bool:
    """Whether a string names a CUDA device, or only lacks its index, such as `"cuda:"`."""
    return CUDA.match(text) is not None or UNFINISHED_DEVICE.match(text) is not None


def default_types(names: Names, calls: Iterable[tuple[ast.AST, Scope]]) -> Iterator[str]:
    """The types, or their names, that calls of `set_default_tensor_type` make the default."""
    for call, scope in calls:
        if isinstance(call, ast.Call) and len(call.args) == 1:
            given = call.args[0]
            for one in (given.body, given.orelse) if isinstance(given, ast.IfExp) else (given,):
                yield str(one.value if isinstance(one, ast.Constant) else names.qualified(one, scope))


def cuda_types(index: Index, names: Names) -> Iterator[Scope]:
    """Where a type such as `torch.cuda.FloatTensor` is named for more than a question or a default."""
    asked = {
        id(part)
        for name in ("isinstance", "set_default_tensor_type")
        for call, _ in index.calls.get(name, ())
        for part in ast.walk(call)
    }
    for name in TENSOR_DTYPES:
        for node, scope in index.taken.get(name, ()):
            if id(node) not in asked and names.qualified(node, scope) == f"torch.cuda.{name}":
                yield scope
        for node, scope in index.texts.get(f"torch.cuda.{name}", ()):
            if id(node) not in asked:
                yield scope


def numbered_devices(index: Index, names: Names) -> Iterator[Scope]:
    """Where something is put on a device by its number, as `.to(rank)` does, going by what that is called."""
    for call, scope in (*index.calls.get("to", ()), *index.calls.get("device", ())):
        if isinstance(call, ast.Call) and any(map(_is_number, call.args[:1])):
            qualified = names.qualified(call.func, scope)
            if qualified == "torch.device" or (qualified is None and not _is_made(call.func, scope, names)):
                yield scope
    for call, scope in index.passing.get("device", ()):
        if isinstance(call, ast.Call) and any(
            w.arg == "device" and _is_number(w.value) for w in call.keywords
        ):
            yield scope


def _is_made(method: ast.expr, scope: Scope, names: Names) -> bool:
    """Whether a method is one of an object that a plain call of the project's own makes at once."""
    made = (
        method.value.func
        if isinstance(method, ast.Attribute) and isinstance(method.value, ast.Call)
        else None
    )
    qualified = names.qualified(made, scope) if made is not None else None
    return qualified is not None and not qualified.startswith("torch.")


def _is_number(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return type(node.value) is int
    if isinstance(node, ast.IfExp):
        return _is_number(node.body) or _is_number(node.orelse)
    if isinstance(node, ast.Subscript):
        node = node.value  # one of `gpu_ids`
    return DEVICE_NUMBER.match(getattr(node, "attr", "") or getattr(node, "id", "")) is not None


def _lacks_index(node: ast.AST) -> bool:
    match node:
        case ast.Constant(value=str() as text):
            return UNFINISHED_DEVICE.match(text) is not None and not is_cuda_string(node)
    return False


def is_formatted_cuda(node: ast.AST) -> bool:
    """Whether the expression builds the name of a CUDA device, as `f"cuda:{rank}"` does."""
    match node:
        case ast.JoinedStr(values=[text]):
            return is_cuda_string(text)
        case ast.JoinedStr(values=[text, ast.FormattedValue()]):
            return _lacks_index(text)
        case (
            ast.BinOp(left=text, op=ast.Add() | ast.Mod())
            | ast.Call(func=ast.Attribute(value=text, attr="format"))
        ):
            return _lacks_index(text)
    return False


def is_cuda_location(node: ast.AST | None) -> bool:
    """Whether this is `lambda storage, location: storage.cuda()`, a location for `torch.load`."""
    match node:
        case ast.Lambda(
            args=ast.arguments(args=[storage, _]),
            body=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cuda"))
            | ast.IfExp(
                body=ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr="cuda")), orelse=ast.Name()
            ),
        ):
            return storage.arg == name
    return False
