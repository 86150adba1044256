"""What a function has started to compute and not waited for: the names to hand to `jax.block_until_ready`."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tpulint.knowledge.tensors import READS, TENSOR_ATTRIBUTES
from tpulint.model.names.scopes import Scope, ScopeKind
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import Several, Tensor, Unknown
from tpulint.model.values.typed_file import TypedFile


def pending(
    module: TypedFile, body: list[ast.stmt], end: ast.stmt, scope: Scope, waits: Callable[[ast.stmt], bool]
) -> list[str]:
    """Names that get a tensor between the last statement that waits, or the body's start, and `end`."""
    names: dict[str, None] = {}
    for before in statements(body):
        if before is end:
            break
        if waits(before):
            names.clear()
        elif isinstance(before, ast.Assign | ast.AugAssign | ast.AnnAssign):
            targets = before.targets if isinstance(before, ast.Assign) else [before.target]
            for target in targets:
                names.update(dict.fromkeys(_computed(module, target, before.value, scope)))
    return list(names)


def body_around(module: ParsedFile, scope: Scope) -> list[ast.stmt]:
    """The statements of the function around a scope, or of the file."""
    around: Scope | None = scope
    while around is not None:
        body = getattr(around.node, "body", None)
        if around.kind in (ScopeKind.FUNCTION, ScopeKind.MODULE) and isinstance(body, list):
            return body
        around = around.parent
    return module.source.tree.body


def statements(body: list[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements in the order of the text, without those of functions inside."""
    for statement in body:
        yield statement
        if not isinstance(statement, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            for block in ("body", "orelse", "finalbody"):
                yield from statements(getattr(statement, block, []))


def _computed(module: TypedFile, target: ast.expr, value: ast.expr | None, scope: Scope) -> Iterator[str]:
    if isinstance(target, ast.Tuple | ast.List):
        for element in target.elts:
            yield from _computed(module, element, value, scope)
    elif (
        isinstance(target, ast.Name) and value is not None and not _serves_otherwise(module, target.id, scope)
    ):
        kind = module.kind(value, scope)
        unknown = isinstance(kind, Unknown | Several)
        if isinstance(kind, Tensor) or (unknown and _may_compute(module, value, scope)):
            yield target.id


def _may_compute(module: ProjectFile, value: ast.expr, scope: Scope) -> bool:
    """Whether an expression of unknown kind could have started work on the device."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.MatMult)
    if not isinstance(value, ast.Call):
        return False
    if isinstance(value.func, ast.Attribute) and value.func.attr in READS:
        return False
    name = module.names.qualified(value.func, scope)
    if name == "torch.load":
        return False  # a checkpoint, or another thing that was read to the host
    if name is not None:
        return name.startswith("torch.") or module.project.function(module.project.resolve(name)) is not None
    return isinstance(value.func, ast.Name | ast.Attribute)


def _serves_otherwise(module: ParsedFile, name: str, scope: Scope) -> bool:
    """Whether a name is used as what is no tensor: called, or for attributes that tensors lack."""
    owner = scope.function or module.index.module
    if not owner.evidence.get(name, set()) <= TENSOR_ATTRIBUTES:
        return True
    calls = (call for call, place in module.index.nodes[ast.Call] if (place.function or place) is owner)
    return any(
        isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == name
        for call in calls
    )
