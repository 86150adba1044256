"""Whether a check for CUDA may be opened to torchax: alone, or only together with others that stay.

A check is opened only with all that it guards, and with every other check that guards a part of the same
work: where one branch makes CUDA events and a later one reads them, both are opened, or both stay.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tpulint.knowledge.cuda_api import cuda_call
from tpulint.model.devices.doors import holds_device
from tpulint.model.devices.guarded import Guard, function_around, guard_of
from tpulint.model.devices.literals import is_cuda_string
from tpulint.model.devices.places import is_parameter
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.typed_file import TypedFile

#: Parts of `torch.cuda` that other fixes replace once the code is reached without CUDA.
_FIXED = (
    *(f"torch.cuda.{name}" for name in ("amp.", "nvtx.", "Event", "Stream", "stream", "current_stream")),
    *("torch.cuda.streams.", "torch.backends.", "torch.nn.", "torch.distributed."),
)


class _Test(NamedTuple):
    """A check for CUDA in a file, with the function that it stands in and what it guards."""

    node: ast.expr
    function: ast.AST
    guard: Guard


def decision(module: TypedFile, node: ast.expr, scope: Scope, *, chooses: bool = True) -> str | None:
    """How a message goes on that says why a check has no fix; "" if it has one, None if it is not reported.

    With `chooses`, it may decide where the program runs; one of a tensor's device follows that decision.
    """
    guard = guard_of(module, node, scope)
    if guard.stays:
        if not chooses or guard.device is None or guard.call is None or guard.kernel is not None:
            return None
        return _still_on_cpu(guard.device, guard.call)
    uses = [guard_of(module, use, place) for use, place in _uses_of_flag(module, node, scope)]
    for use in uses:
        needed = use.kernel or (
            use.call if use.call is not None and not _is_fixed(module, use.call, scope) else None
        )
        if needed is not None:
            device = next((one.device for one in uses if one.device is not None), None)
            if device is None:
                return None
            return _still_on_cpu(device, needed)
    return _shared_with_what_stays(module, node, scope, guard)


def _still_on_cpu(device: ast.AST, needed: ast.AST) -> str:
    return (
        f", so the program still runs on the CPU: line {_row(device)}; no automatic fix, because "
        f"`{_text(needed)}` in line {_row(needed)} works only with CUDA"
    )


def _is_fixed(module: ParsedFile, part: ast.AST, scope: Scope) -> bool:
    """Whether another rule replaces a function of CUDA where it is reached without CUDA."""
    name = module.names.qualified(part, scope) or ""
    known = cuda_call(name)
    return name.startswith(_FIXED) or (known is not None and bool(known[1].removable or known[1].instead))


def _uses_of_flag(module: ParsedFile, node: ast.expr, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
    """The places that read the variable to which a check is assigned, such as `use_cuda`."""
    statement = module.statement(node)
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return
    target = statement.targets[0]
    if isinstance(target, ast.Name):
        owner = module.names.lookup(target.id, scope)
        for read in module.loads.get(target.id, ()):
            place = _scope_of(module, read)
            if module.names.lookup(target.id, place) == owner:
                yield read, place
    elif isinstance(target, ast.Attribute):
        for taken, place in module.index.taken.get(target.attr, ()):
            if isinstance(taken, ast.Attribute) and isinstance(taken.ctx, ast.Load):
                yield taken, place


def _scope_of(module: ParsedFile, node: ast.AST) -> Scope:
    for outer in module.ancestors(node):
        found = module.index.function(outer) if isinstance(outer, FunctionNode) else None
        if found is not None:
            return found
    return module.index.module


def _shared_with_what_stays(module: TypedFile, node: ast.expr, scope: Scope, guard: Guard) -> str:
    """Why a check stays that guards a part of the same work as another one that stays; "" without one."""
    function = function_around(module, node)
    for other in _tests(module):
        if other.node is node or (other.guard.call is None and other.guard.kernel is None):
            continue
        for name in sorted(_shared(guard, other.guard, is_one_function=other.function is function)):
            if holds_device(module, ast.parse(name, mode="eval").body, scope):
                continue
            if _is_bound_before(module, name, scope, (module.statement(node), module.statement(other.node))):
                continue
            needed = other.guard.call or other.guard.kernel
            assert needed is not None
            return (
                f"; no automatic fix, because the check in line {other.node.lineno} has to stay: it guards "
                f"`{_text(needed)}`, which works only with CUDA, and both use `{name}`"
            )
    return ""


def _is_bound_before(module: ParsedFile, name: str, scope: Scope, checks: tuple[ast.stmt, ast.stmt]) -> bool:
    """Whether a name has a value without either of two checks, as a parameter has; None is no such value."""
    found = module.names.lookup(name, scope) if "." not in name else None
    for binding in found[1] if found is not None else ():
        if binding.value is None:
            if found is not None and is_parameter(found[0], name):
                return True
        elif not isinstance(binding.value, ast.Constant):
            around = {id(outer) for outer in module.ancestors(binding.value)}
            if around.isdisjoint(map(id, checks)):
                return True
    return False


def _tests(module: TypedFile) -> tuple[_Test, ...]:
    """All checks for CUDA of a file, each with what it guards; looked for once."""
    known = module.answers.get(_tests)
    if known is None:
        known = module.answers[_tests] = tuple(
            _Test(node, function_around(module, node), guard_of(module, node, scope))
            for node, scope in _found(module)
        )
    found: tuple[_Test, ...] = known
    return found


def _found(module: ParsedFile) -> Iterator[tuple[ast.expr, Scope]]:
    index = module.index
    for node, scope in index.calls.get("is_available", ()):
        assert isinstance(node, ast.Call)
        if module.names.qualified(node.func, scope) == "torch.cuda.is_available":
            yield node, scope
            yield from _uses_of_flag(module, node, scope)
    for node, scope in index.nodes[ast.Compare]:
        assert isinstance(node, ast.Compare)
        if any(map(is_cuda_string, (node.left, *node.comparators))):
            yield node, scope
    for node, scope in (*index.taken.get("is_cuda", ()), *index.calls.get("startswith", ())):
        if isinstance(node, ast.Attribute) or (
            isinstance(node, ast.Call) and any(map(is_cuda_string, node.args[:1]))
        ):
            yield node, scope


def _shared(one: Guard, other: Guard, *, is_one_function: bool) -> set[str]:
    """What one guard binds in the code that it guards, and such code of the other reads, or the reverse.

    Plain names count within a function, attributes of `self` everywhere.
    """
    found = (_names(one, ast.Store) & _names(other, ast.Load)) | (
        _names(other, ast.Store) & _names(one, ast.Load)
    )
    return found if is_one_function else {name for name in found if "." in name}


def _names(guard: Guard, context: type[ast.expr_context]) -> set[str]:
    return {
        part.id if isinstance(part, ast.Name) else f"self.{part.attr}"
        for part in guard.reached
        if (isinstance(part, ast.Name) and isinstance(part.ctx, context))
        or (
            isinstance(part, ast.Attribute)
            and isinstance(part.ctx, context)
            and isinstance(part.value, ast.Name)
            and part.value.id == "self"
        )
    }


def _row(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _text(node: ast.AST) -> str:
    """A short piece of code, on one line."""
    text = " ".join(ast.unparse(node).split())
    return text if len(text) <= 40 else f"{text[:37]}..."
