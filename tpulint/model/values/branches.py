"""The branches of an `if` as pairs of values, of which `torch.where` can select one."""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from tpulint.knowledge.tensors import ELEMENTWISE, REDUCTIONS
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.bound import binders
from tpulint.model.values.assignments import plain_assignments
from tpulint.model.values.kinds import Data, Kind, Tensor
from tpulint.model.values.typed_file import TypedFile

#: Factories whose results have the same shape, dtype and device if their arguments are the same.
_FILLED = frozenset({"torch.zeros", "torch.ones", "torch.full"})
#: Functions and methods, by their last names, that draw no numbers, change nothing, and check no values.
_COMPUTING = frozenset(
    name
    for name in (
        *(ELEMENTWISE - {"dropout", "rand_like", "randn_like", "empty_like"}),
        *REDUCTIONS,
        *("arange", "eye", "full", "linspace", "ones", "scalar_tensor", "tensor", "zeros"),
        *("dim", "element_size", "numel", "size"),
        *("bmm", "cat", "cumsum", "einsum", "matmul", "maximum", "minimum", "mm", "stack", "where"),
        *("chunk", "expand", "expand_as", "flatten", "flip", "movedim", "permute", "repeat", "reshape"),
        *("roll", "split", "squeeze", "t", "transpose", "unbind", "unsqueeze", "view", "view_as"),
    )
    if not name.endswith("_")
)
_BUILTINS = frozenset(f"builtins.{name}" for name in ("abs", "float", "int", "len", "max", "min", "round"))
#: Expressions without effects, where their parts have none.
_PLAIN = (
    *(ast.Name, ast.Constant, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.Call),
    *(ast.BinOp, ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.keyword),
    *(ast.expr_context, ast.operator, ast.unaryop, ast.boolop, ast.cmpop),
)


class Condition(NamedTuple):
    """A condition in two parts: what Python evaluates while JAX traces the code, and the tensor after it.

    `first` is the source of the first part, "" if there is none; `is_and` says that both parts have to hold,
    rather than one of them. `tensor` is the source of the second part as one boolean tensor.
    """

    first: str
    is_and: bool
    tensor: str


class Selection(NamedTuple):
    """A name, and what the branches of an `if` assign to it; None for a branch that does not assign it."""

    name: str
    then: ast.expr | None
    other: ast.expr | None


def selections(module: TypedFile, node: ast.If, scope: Scope) -> list[Selection] | None:
    """The assignments of both branches, in an order in which `torch.where` can replace them one by one.

    In this order, each expression reads what it reads in its own branch, if that branch is selected.

    Returns:
        None if a branch has other statements than plain assignments of one tensor to one name, if an
        expression may have an effect or raise, if shapes or dtypes may differ, or if there is no such order.
    """
    then, other = plain_assignments(node.body), plain_assignments(node.orelse)
    names = _in_order([then, other]) if then is not None and other is not None else None
    if not names or then is None or other is None:
        return None
    found = [Selection(name, then.get(name), other.get(name)) for name in names]
    kept = [one.name for one in found if one.then is None or one.other is None]
    if any(binders(kept, node, scope, module.answers)):
        return None
    return found if all(_is_selectable(module, one, node, scope) for one in found) else None


def is_selectable(module: TypedFile, then: ast.expr, other: ast.expr, scope: Scope) -> bool:
    """Whether both expressions only compute tensors, of one shape and, as far as known, of one dtype."""
    if not (_only_computes(module, then, scope) and _only_computes(module, other, scope)):
        return False
    return _agree(module.kind(then, scope), module.kind(other, scope)) or _made_alike(
        module, then, other, scope
    )


def _is_selectable(module: TypedFile, one: Selection, node: ast.If, scope: Scope) -> bool:
    if one.then is not None and one.other is not None:
        return is_selectable(module, one.then, one.other, scope)
    value = one.then or one.other
    flow = module.flow(scope.function or scope)
    former = flow.former.get(id(node), {}).get(one.name) if flow is not None else None
    if value is None or former is None:
        return False
    return _only_computes(module, value, scope) and _agree(module.kind(value, scope), former)


def _agree(one: Kind, other: Kind) -> bool:
    """Whether two values are tensors of one shape, neither on the host, and not known to differ in dtype."""
    if not isinstance(one, Tensor) or not isinstance(other, Tensor) or one.is_host or other.is_host:
        return False
    dtypes = {one.dtype, other.dtype} - {""}
    return bool(one.root) and one.root == other.root and len(dtypes) <= 1


def _made_alike(module: TypedFile, one: ast.expr, other: ast.expr, scope: Scope) -> bool:
    """Whether `torch.zeros` or the like make both, with the same sizes, dtype and device."""
    made = [_factory(module, value, scope) for value in (one, other)]
    return made[0] is not None and made[0] == made[1]


def _factory(
    module: TypedFile, value: ast.expr, scope: Scope
) -> tuple[list[str], dict[str | None, str]] | None:
    """The sizes and the keyword arguments of a factory; None where one is missing that decides."""
    name = module.names.qualified(value.func, scope) if isinstance(value, ast.Call) else None
    kind = module.kind(value, scope)
    if not isinstance(value, ast.Call) or name not in _FILLED or not kind.is_traced:
        return None
    keywords = {word.arg: ast.dump(word.value) for word in value.keywords if word.arg != "fill_value"}
    sizes = value.args
    if name == "torch.full":
        sizes = sizes[:1]
        if "dtype" not in keywords:
            return None  # that of the number
    match sizes:
        case [ast.Tuple() | ast.List() as sequence]:
            sizes = sequence.elts
    return [ast.dump(size) for size in sizes], keywords


def _only_computes(module: TypedFile, value: ast.expr, scope: Scope) -> bool:
    """Whether an expression has no effect, and raises no error that depends on the values of tensors."""
    return all(_is_plain(module, node, scope) for node in ast.walk(value))


def _is_plain(module: TypedFile, node: ast.AST, scope: Scope) -> bool:
    match node:
        case ast.Constant(value=str() | bytes()) if node.end_lineno != node.lineno:
            return False  # its rows cannot be indented
        case ast.Subscript(slice=index):
            parts = (part for part in ast.walk(index) if isinstance(part, ast.expr))
            return not any(isinstance(module.kind(part, scope), Data | Tensor) for part in parts)
        case ast.Call(func=function):
            name = module.names.qualified(function, scope)
            if name is not None:
                is_torch = name.startswith("torch.") and name.rpartition(".")[2] in _COMPUTING
                writes = any(word.arg == "out" for word in node.keywords)
                return (is_torch or name in _BUILTINS) and not writes
            if not isinstance(function, ast.Attribute) or function.attr not in _COMPUTING:
                return False
            return isinstance(module.kind(function.value, scope), Tensor)
        case _:
            return isinstance(node, _PLAIN)


def _in_order(branches: Sequence[Mapping[str, ast.expr]]) -> list[str] | None:
    """All names that the branches assign, each after those that have to be assigned before it, if possible.

    Two assignments of one branch keep their order if one reads what the other one assigns.
    """
    waiting = list(dict.fromkeys(name for branch in branches for name in branch))
    before: dict[str, set[str]] = {name: set() for name in waiting}
    for branch in branches:
        reads = {name: _names(value) for name, value in branch.items()}
        names = list(branch)
        for number, later in enumerate(names):
            for earlier in names[:number]:
                if earlier in reads[later] or later in reads[earlier]:
                    before[later].add(earlier)
    found: list[str] = []
    while waiting:
        free = next((name for name in waiting if before[name] <= set(found)), None)
        if free is None:
            return None
        found.append(free)
        waiting.remove(free)
    return found


def _names(value: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(value) if isinstance(node, ast.Name)}
