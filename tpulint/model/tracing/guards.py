"""Places that are reached only where there is something, such as CUDA, which a TPU host does not have."""

from __future__ import annotations

import ast
from dataclasses import dataclass

from tpulint.model.devices.doors import is_served_flag
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.handlers import LEAVES, holds
from tpulint.model.syntax.parsed_file import ParsedFile


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a condition may ask for: the words by which it is known, and the number that means none of it.

    `flags` says that a name with such a word is enough, whatever it was set by.
    """

    words: tuple[str, ...]
    none: int
    flags: bool = True


CUDA = Wanted(("cuda", "cudnn", "nvidia", "rocm"), 0)
PROCESSES = Wanted(("dist", "ddp", "fsdp", "initialized", "nproc", "num_process", "parallel", "world"), 1)
#: A flag such as `args.distributed` may be set by a launcher of one process, and so may `WORLD_SIZE` in the
#: environment: where a fix takes the process group, only its own answers say that there are several.
SEVERAL = Wanted(("initialized", "get_world_size", "process_count"), 1, flags=False)

#: Environment variables that choose among GPUs, and do not say that there is one.
_VISIBLE = frozenset({"cuda_device_order", "cuda_visible_devices"})


def only_with(wanted: Wanted, module: ProjectFile, node: ast.AST, scope: Scope) -> bool:
    """Whether a condition around a node, or one before it that leaves, asks for something."""
    inner = node
    for outer in module.ancestors(node):
        if isinstance(outer, ast.If | ast.IfExp | ast.While):
            if holds(outer.body, inner):
                if wanted is CUDA and _asks_any_accelerator(module, outer.test, scope):
                    return False
                if asks(wanted, module, outer.test, scope, truth=True):
                    return True
            if holds(outer.orelse, inner) and asks(wanted, module, outer.test, scope, truth=False):
                return True
        elif isinstance(outer, ast.BoolOp):
            before = outer.values[: outer.values.index(inner)] if inner in outer.values else []
            truth = isinstance(outer.op, ast.And)
            if any(asks(wanted, module, value, scope, truth=truth) for value in before):
                return True
        if isinstance(inner, ast.stmt) and any(
            _leaves_without(wanted, module, before, scope) for before in module.before(inner)
        ):
            return True
        if isinstance(outer, FunctionNode):
            return False
        inner = outer
    return False


def asks(
    wanted: Wanted, module: ProjectFile, test: ast.expr, scope: Scope, *, truth: bool, depth: int = 2
) -> bool:
    """Whether a condition that comes out so means that there is what is wanted.

    Its words decide: this only ever keeps a rule silent.
    """
    match test:
        case ast.UnaryOp(op=ast.Not()):
            return asks(wanted, module, test.operand, scope, truth=not truth, depth=depth)
        case ast.BoolOp():
            parts = (asks(wanted, module, value, scope, truth=truth, depth=depth) for value in test.values)
            return any(parts) if isinstance(test.op, ast.And) == truth else all(parts)
        case ast.Compare() if any(isinstance(part, ast.Name) and part.id == "jax" for part in ast.walk(test)):
            return False  # it asks JAX where there is no CUDA
        case ast.Compare(left=ast.BinOp(op=ast.Mod())):
            return False  # `batch % world_size == 0` is about what is divided
        case ast.Compare(ops=[ast.NotEq() | ast.NotIn() | ast.Is() | ast.Lt() | ast.LtE()]):
            return not truth and _names(wanted, module, test, scope)
        case ast.Compare(ops=[ast.Eq()], comparators=[ast.Constant(value=number)]) if number == wanted.none:
            return not truth and _names(wanted, module, test, scope)
        case ast.Attribute() if not wanted.flags or _is_set_without_cuda(module, test, scope):
            return False
        case ast.Name(id=name) if depth:
            found = module.names.lookup(name, scope)
            values = [binding.value for binding in found[1]] if found is not None else []
            is_served = bool(values) and all(_asks_any_accelerator(module, value, scope) for value in values)
            if truth and wanted.flags and not is_served and _names(wanted, module, test, scope):
                return True
            return bool(values) and all(
                value is not None and asks(wanted, module, value, scope, truth=truth, depth=depth - 1)
                for value in values
            )
        case _:
            return truth and _names(wanted, module, test, scope)


def _asks_any_accelerator(module: ParsedFile, value: ast.expr | None, scope: Scope) -> bool:
    """Whether a flag is set by whether there is a device of any kind, beside other conditions."""
    return value is not None and any(
        isinstance(part, ast.Call)
        and module.names.qualified(part.func, scope) == "torch.accelerator.is_available"
        for part in ast.walk(value)
    )


def _is_set_without_cuda(module: ParsedFile, flag: ast.Attribute, scope: Scope) -> bool:
    """Whether a flag is true without CUDA, too, as `torch.backends.cudnn.enabled` is."""
    return flag.attr == "enabled" and module.names.qualified(flag, scope) == "torch.backends.cudnn.enabled"


def _names(wanted: Wanted, module: ProjectFile, node: ast.expr, scope: Scope) -> bool:
    for part in ast.walk(node):
        text = (
            part.id
            if isinstance(part, ast.Name)
            else part.attr
            if isinstance(part, ast.Attribute)
            else part.value
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
            else ""
        ).lower()
        if not wanted.flags and isinstance(part, ast.Name) and _is_answer(wanted, module, part, scope):
            return True
        if any(word in text for word in wanted.words) and text not in _VISIBLE:
            flag = part if wanted is CUDA and isinstance(part, ast.Name | ast.Attribute) else None
            if flag is None or not is_served_flag(module, flag, scope):
                return True
    return False


def _is_answer(wanted: Wanted, module: ParsedFile, name: ast.Name, scope: Scope) -> bool:
    """Whether a variable holds what calls with such a word return, or the number that means none."""
    found = module.names.lookup(name.id, scope)
    values = [binding.value for binding in found[1]] if found is not None else []
    calls = [value for value in values if isinstance(value, ast.Call)]
    others = [value for value in values if not isinstance(value, ast.Call)]
    return (
        bool(calls)
        and all(any(word in ast.unparse(call.func).lower() for word in wanted.words) for call in calls)
        and all(isinstance(one, ast.Constant) and one.value == wanted.none for one in others)
    )


def _leaves_without(wanted: Wanted, module: ProjectFile, statement: ast.stmt, scope: Scope) -> bool:
    """Whether a statement leaves the block unless there is what is wanted."""
    if isinstance(statement, ast.Assert):
        return asks(wanted, module, statement.test, scope, truth=True)
    return (
        isinstance(statement, ast.If)
        and isinstance(statement.body[-1], LEAVES)
        and not (wanted is CUDA and _asks_any_accelerator(module, statement.test, scope))
        and asks(wanted, module, statement.test, scope, truth=False)
    )
