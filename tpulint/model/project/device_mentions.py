"""Where a file names types of CUDA, the default type of tensors, or a device by its number."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.knowledge.cuda_api import TENSOR_DTYPES
from tpulint.knowledge.tracing import DEVICE_NUMBER
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import Scope


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
