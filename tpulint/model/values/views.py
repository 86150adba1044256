"""What an expression is a view of, and what is read after a write through it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tpulint.knowledge.views import COPIED, COPIED_ATTRIBUTES, MAY_COPY, REORDERS, WRITES
from tpulint.model.names.index import within
from tpulint.model.names.scopes import FunctionNode, Scope, parameters
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.kinds import Several, Static
from tpulint.model.values.typed_file import TypedFile

_DEPTH = 8
#: Methods that return the slice that they are called on.
_KEEP_SLICES = WRITES | {"contiguous"}
#: Methods that give a tensor all its elements.
_ANEW = frozenset({"copy_", "zero_", "fill_"})
_METADATA = frozenset({"shape", "dtype", "device", "ndim", "size", "dim", "numel", "stride", "is_cuda"})
_TAKE_METADATA = frozenset(
    {"zeros_like", "ones_like", "empty_like", "full_like", "rand_like", "randn_like", "view_as", "expand_as"}
)


class Copied(NamedTuple):
    """A view of a tensor which torchax copies, so that a write to the view does not change the tensor.

    `base` is the name or attribute of the tensor, `view` the expression that torchax copies, the one nearest
    to the tensor, and `made` the statement with the view.
    """

    base: ast.expr
    view: ast.expr
    made: ast.stmt


class Definition(NamedTuple):
    """The one statement that gives a name its value at a place; `iterated` for what a `for` runs over."""

    statement: ast.stmt
    value: ast.expr
    iterated: bool


def lost_write(module: TypedFile, node: ast.expr, scope: Scope) -> Copied | None:
    """The view through which a write does not change the tensor on torchax, although that is read later."""
    write = module.statement(node)
    for found in copied(module, node, scope):
        if module.kind(found.base, scope).is_traced and read_after(module, found, write, scope):
            return found
    return None


def value_of(module: ParsedFile, name: ast.Name) -> ast.expr | None:
    """The expression that was assigned to a name last; None if it is not certain."""
    found = definition(module, name.id, module.statement(name))
    return found.value if found is not None and not found.iterated else None


def is_shared(module: ParsedFile, name: ast.Name, scope: Scope) -> bool:
    """Whether a tensor may have another name; only a result of arithmetic certainly has none."""
    function = scope.function
    value = value_of(module, name)
    if function is None or not isinstance(value, ast.BinOp):
        return True
    for node in ast.walk(function.node):
        if isinstance(node, ast.Name) and node.id == name.id and isinstance(node.ctx, ast.Load):
            outer = module.parent(node)
            if isinstance(outer, ast.Call) and (module.names.qualified(outer.func, scope) or "").startswith(
                "torch."
            ):
                continue
            if not isinstance(outer, ast.Attribute | ast.BinOp | ast.Compare | ast.Subscript | ast.Return):
                return True
            if isinstance(outer, ast.Attribute) and outer.attr in COPIED | COPIED_ATTRIBUTES:
                return True
            if (
                isinstance(outer, ast.Subscript)
                and outer.slice is not node
                and isinstance(outer.ctx, ast.Load)
            ):
                return True
    return False


def is_slice(module: TypedFile, node: ast.expr, scope: Scope) -> bool:
    """Whether the expression is known to be a basic slice of a device tensor, such as `x[:, 0]`."""
    for _ in range(_DEPTH):
        if isinstance(node, ast.Subscript):
            return module.kind(node.value, scope).is_traced and is_basic(module, node.slice, scope)
        if isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _KEEP_SLICES:
            assert isinstance(node.func, ast.Attribute)
            node = node.func.value
            continue
        if not isinstance(node, ast.Name) or not _may_be_slice(module, node, scope):
            return False
        value = value_of(module, node)
        if value is None:
            return False
        node = value
    return False


def _may_be_slice(module: ParsedFile, name: ast.Name, scope: Scope) -> bool:
    """A quick look: whether something is bound to a name that is a slice, or may be one."""
    found = module.names.lookup(name.id, scope)
    owner, bindings = found if found is not None else (scope, [])
    if any(binding.target is not None or binding.node is not None for binding in bindings):
        return False  # a module, function or class, as in annotations
    unknown = sum(binding.value is None for binding in bindings)
    if unknown > (isinstance(owner.node, FunctionNode) and _is_parameter(name.id, owner.node)):
        return True
    return any(
        isinstance(value, ast.Subscript | ast.Name)
        or (isinstance(value, ast.Call) and getattr(value.func, "attr", "") in _KEEP_SLICES)
        for value in (binding.value for binding in bindings)
    )


def _is_parameter(name: str, node: FunctionNode) -> bool:
    return any(argument.arg == name for argument in parameters(node))


def is_basic(module: TypedFile, index: ast.expr, scope: Scope) -> bool:
    """Whether an index certainly consists of integers, slices, `None` and `...`."""
    for part in index.elts if isinstance(index, ast.Tuple) else [index]:
        plain = part.operand if isinstance(part, ast.UnaryOp) else part
        if isinstance(plain, ast.Slice) or (
            isinstance(plain, ast.Constant) and not isinstance(plain.value, bool | str)
        ):
            continue
        kind = module.kind(plain, scope) if isinstance(plain, ast.Name | ast.BinOp) else None
        if not isinstance(kind, Static) or isinstance(kind.value, str) or _is_key(module, plain, scope):
            return False
    return True


def _is_key(module: ParsedFile, node: ast.expr, scope: Scope) -> bool:
    """Whether an index is a parameter for a text, or runs over texts or over the keys of a mapping."""
    if not isinstance(node, ast.Name):
        return False
    if scope.function is not None and isinstance(scope.function.node, FunctionNode):
        for parameter in parameters(scope.function.node):
            if parameter.arg == node.id and isinstance(parameter.annotation, ast.Name):
                return parameter.annotation.id == "str"
    found = definition(module, node.id, module.statement(node))
    match found.value if found is not None and found.iterated else None:
        case ast.Tuple(elts=several) | ast.List(elts=several) | ast.Set(elts=several):
            return any(isinstance(one, ast.Constant) and isinstance(one.value, str) for one in several)
        case ast.Call(func=ast.Attribute(attr="keys" | "items" | "split")):
            return True
    return False


def copied(module: TypedFile, node: ast.expr, scope: Scope) -> Iterator[Copied]:
    """The tensors that `node` is a view of in torch, while on torchax it is of a copy."""
    statement = module.statement(node)
    view: ast.expr | None = None
    reordered = False
    flat = False
    for _ in range(_DEPTH):
        step, name = _step(module, node, scope)
        if step is not None:
            if name in COPIED or name in COPIED_ATTRIBUTES:
                view = node
                flat = flat or name in MAY_COPY
                reordered = name in REORDERS
            if flat and (reordered or name == "[]"):
                return  # a copy in torch as well
            node = step
            continue
        if view is not None and (isinstance(node, ast.Name) or _is_own(node)):
            yield Copied(node, view, statement)
        found = definition(module, node.id, statement) if isinstance(node, ast.Name) else None
        if found is None:
            return
        statement, node = found.statement, found.value
        if found.iterated:
            kind = module.kind(node, scope)
            if kind.is_traced:
                view = node
            elif not isinstance(kind, Several):
                return


def _step(module: TypedFile, node: ast.expr, scope: Scope) -> tuple[ast.expr | None, str]:
    """The tensor that an expression is a view of, by what; "[]" for a basic slice, "" for the same tensor."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr=name)):
            called = module.names.qualified(node.func, scope)
            if called is not None:
                torch = called == f"torch.{name}" and name in COPIED | COPIED_ATTRIBUTES and node.args
                return (node.args[0], name) if torch else (None, "")
            if module.kind(inner, scope).is_traced and not (
                name == "view" and _is_dtype(module, node, scope)
            ):
                if name in COPIED:
                    return inner, name
                if name in WRITES or name == "requires_grad_":
                    return inner, ""
        case ast.Attribute(value=inner, attr=name) if module.kind(inner, scope).is_traced:
            if name in COPIED_ATTRIBUTES:
                return inner, name
            if name == "data":
                return inner, ""
        case ast.Subscript(value=inner):
            kind = module.kind(inner, scope)
            if isinstance(kind, Several):
                return inner, ""
            if kind.is_traced and is_basic(module, node.slice, scope):
                return inner, "[]"
        case _:
            pass
    return None, ""


def _is_dtype(module: ParsedFile, call: ast.Call, scope: Scope) -> bool:
    name = module.names.qualified(call.args[0], scope) if call.args else None
    return name is not None and name.startswith("torch.")


def _is_own(node: ast.expr) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self"


def definition(module: ParsedFile, name: str, statement: ast.stmt) -> Definition | None:
    """What gives a name its value at a statement of a function, if that is one place for certain."""
    current = statement
    while True:
        outer = module.parent(current)
        if outer is None:
            return None
        for before in reversed(module.before(current)):
            if isinstance(before, ast.AugAssign):
                continue  # the same tensor
            if name in _stored(before):
                return _bound_by(before, name)
        if isinstance(outer, FunctionNode) or not isinstance(outer, ast.stmt | ast.ExceptHandler):
            return None
        if isinstance(outer, ast.For) and name in _names(outer.target):
            inside = [node for part in outer.body for node in _bindings(part) if node.id == name]
            return _looped_over(outer, name) if not inside else None
        if isinstance(outer, ast.With) and any(name in _stored(item) for item in outer.items):
            return None
        if isinstance(outer, ast.For | ast.While) and name in _stored(outer):
            return None  # of another round, maybe
        if isinstance(outer, ast.ExceptHandler):
            outer = module.parent(outer)
            if not isinstance(outer, ast.stmt):
                return None
        if isinstance(outer, ast.Try) and name in _stored(outer):
            return None
        current = outer


def _bound_by(statement: ast.stmt, name: str) -> Definition | None:
    match statement:
        case ast.Assign(targets=[ast.Name()], value=value):
            return Definition(statement, value, iterated=False)
        case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value) if not isinstance(value, ast.Tuple):
            if any(isinstance(element, ast.Name) and element.id == name for element in elements):
                return Definition(statement, value, iterated=False)
        case _:
            pass
    return None


def _looped_over(loop: ast.For, name: str) -> Definition | None:
    """What a name of a loop's target runs over, through `enumerate` and `zip`."""
    match loop.target, loop.iter:
        case ast.Name(), ast.Call(func=ast.Name()):
            return None
        case ast.Name(), value:
            return Definition(loop, value, iterated=True)
        case ast.Tuple(elts=[_, ast.Name(id=second)]), ast.Call(
            func=ast.Name(id="enumerate"), args=[value, *_]
        ) if second == name:
            return Definition(loop, value, iterated=True)
        case ast.Tuple(elts=elements), ast.Call(func=ast.Name(id="zip"), args=values):
            for element, value in zip(elements, values, strict=False):
                if isinstance(element, ast.Name) and element.id == name:
                    return Definition(loop, value, iterated=True)
        case _:
            pass
    return None


def after(outer: ast.AST, inner: ast.AST) -> list[ast.stmt]:
    """The statements of a block that come after one of them."""
    for block in vars(outer).values():
        if isinstance(block, list):
            for position, item in enumerate(block):
                if item is inner:
                    return block[position + 1 :]
    return []


def _bindings(node: ast.AST) -> Iterator[ast.Name]:
    """Where names are bound anew; `name += 1` changes a tensor that keeps its name."""
    nodes = within(node)
    augmented = {id(inner.target) for inner in nodes if isinstance(inner, ast.AugAssign)}
    for inner in nodes:
        if isinstance(inner, ast.Name) and not isinstance(inner.ctx, ast.Load) and id(inner) not in augmented:
            yield inner


def _stored(node: ast.AST) -> set[str]:
    return {name.id for name in _bindings(node)}


def _names(target: ast.expr) -> set[str]:
    return {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}


def read_after(module: ParsedFile, found: Copied, write: ast.stmt, scope: Scope) -> bool:
    """Whether the tensor is read after the write, under the same name."""
    if isinstance(write, ast.Return | ast.Raise):
        return False
    around = scope.function.node if scope.function is not None else module.source.tree
    if not isinstance(found.base, ast.Name):
        return not _assigned_again(around, found.base, write)
    name, end = found.base.id, _end(write)
    start = (found.made.lineno, found.made.col_offset)
    bound = [
        _start(node)
        for node in (
            *(node for node in _bindings(around) if node.id == name),
            *_overwritten(around, name, end),
        )
    ]
    for node in within(around):
        if not isinstance(node, ast.Name) or node.id != name or _start(node) < end:
            continue
        if any(start <= place <= _start(node) for place in bound):
            continue
        if _reads_elements(module, node) and _follows(module, write, node):
            return True
    return False


def _overwritten(function: ast.AST, name: str, end: tuple[int, int]) -> Iterator[ast.Name]:
    """Where a tensor gets all its elements anew after a place."""
    for node in ast.walk(function):
        match node:
            case ast.Call(func=ast.Attribute(value=ast.Name() as base, attr=attr)) if attr in _ANEW:
                pass
            case _:
                continue
        if base.id == name and _start(base) >= end:
            yield base


def _reads_elements(module: ParsedFile, node: ast.Name) -> bool:
    outer = module.parent(node)
    if isinstance(outer, ast.Attribute):
        return outer.attr not in _METADATA
    if isinstance(outer, ast.Call):
        if isinstance(outer.func, ast.Name):
            return outer.func.id not in ("len", "isinstance", "type", "id")
        return not (isinstance(outer.func, ast.Attribute) and outer.func.attr in _TAKE_METADATA)
    if isinstance(outer, ast.Compare):
        return not any(isinstance(op, ast.Is | ast.IsNot) for op in outer.ops)
    return not isinstance(outer, ast.Delete)


def _follows(module: ParsedFile, write: ast.stmt, node: ast.AST) -> bool:
    """Whether control can come from a statement to a node behind it, without another round of a loop."""
    around = {id(node), *map(id, module.ancestors(node))}
    inner: ast.AST = write
    for outer in module.ancestors(write):
        for later in after(outer, inner):
            if id(later) in around:
                return True
            if isinstance(later, ast.Return | ast.Raise):
                return False
        if id(outer) in around:
            return not isinstance(outer, ast.If)  # it stands in the other branch
        inner = outer
    return True


def _assigned_again(function: ast.AST, attribute: ast.expr, write: ast.stmt) -> bool:
    """Whether an attribute is bound anew after a write, or gets all its elements."""
    text = _without_context(attribute)
    for node in ast.walk(function):
        match node:
            case ast.Attribute(ctx=ast.Store()):
                again: ast.expr = node
            case ast.Call(func=ast.Attribute(value=ast.Attribute() as again, attr=name)) if name in _ANEW:
                pass
            case _:
                continue
        if _without_context(again) == text and _start(node) > _end(write):
            return True
    return False


def _without_context(node: ast.expr) -> str:
    return ast.dump(node).replace("Store()", "").replace("Load()", "")


def _start(node: ast.expr | ast.stmt) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.stmt) -> tuple[int, int]:
    return node.end_lineno or node.lineno, node.end_col_offset or 0
