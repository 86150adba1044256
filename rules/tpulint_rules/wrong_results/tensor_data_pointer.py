"""`data_ptr()` of a tensor, which is always 0 on torchax.

## What it does

In programs that move tensors to a CUDA or torchax device, the rule reports `data_ptr()` of a tensor, of its
`data`, and of its `storage()` or `untyped_storage()`.
Examples are `a.data_ptr() == b.data_ptr()` and `seen.add(p.data_ptr())`.

The rule does not report:

- checks of the alignment, such as `x.data_ptr() % 16`, because the address 0 counts as aligned;
- `data_ptr()` of tensors and of their `untyped_storage()` in programs with the runtime
  torchax-compat, in which both have addresses.
  `storage()` of a device tensor raises there.
  The fix of TPU611 (`backward-on-torchax`) adds the runtime to a program.

## Why it matters on TPU

PyTorch does not know the memory of a torchax tensor.
`data_ptr()` therefore returns 0 for every torchax tensor, without an error, and all tensors seem to share
their memory:

- A loop that skips parameters whose address it has already seen processes only the first parameter.
- All weights of a model seem to be tied.

## Fix safety

The fix is unsafe, because two tensors that share memory can then count as different.
The fix uses `a is b` and `id(a)`, which compare tensor objects, not memory:

- If two modules share a weight, the weight is one tensor object, so the result of the comparison is the same.
- Views of one tensor share memory, but are different objects.
- The values that `state_dict()` returns for a shared weight share memory, but are different objects, too.

## Without a fix

If the code computes with an address, or passes it to other code, such as a kernel, use the tensor itself
instead of its address.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Scope, Tensor, Unknown
from tpulint.rules_api.syntax import calls_looped_over

rule = Rule(
    "TPU620",
    "`data_ptr()` of a tensor, which is always 0 on torchax",
    module=__name__,
    former=("tensor-address",),
    fix=Applicability.UNSAFE,
)

_STORAGES = frozenset({"storage", "untyped_storage"})
#: Expressions of what stays the object that it is; what is made in place is gone when the next one is made.
_NAMED = (ast.Name, ast.Attribute)
#: What gives the tensors of a module.
_OF_MODULES = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "state_dict"})


@rule.on(ast.Call, named={"data_ptr"})
def address(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(call)
    if not _is_taken(call, ctx) or not (ctx.program.serves_device or ctx.trace.path is not None):
        return
    if ctx.devices.only_with_cuda(call) or ctx.program.runtime_handles("addresses of tensors", _owner(call)):
        return
    message = "`data_ptr()` is 0 for every torchax tensor, so all tensors seem to share their memory"
    if not isinstance(outer, ast.Compare) or not _compares(outer):
        yield ctx.finding(call, message, _ids(ctx))
    elif call is outer.left:  # the other one is told with it
        yield ctx.finding(outer, message, _identity(outer, ctx))


def _owner(call: ast.Call) -> str:
    """The method that gives what the address is asked of, `storage` or `untyped_storage`, or `data_ptr`."""
    assert isinstance(call.func, ast.Attribute)
    held = call.func.value
    name = held.func.attr if isinstance(held, ast.Call) and isinstance(held.func, ast.Attribute) else ""
    return name if name in _STORAGES else "data_ptr"


def _is_taken(call: ast.Call, ctx: Context) -> bool:
    """Whether the call reads the address of a tensor that may be on the device, not its alignment (`% n`)."""
    tensor, outer = _tensor(call), ctx.parent(call)
    if tensor is None or (isinstance(outer, ast.BinOp) and isinstance(outer.op, ast.Mod)):
        return False
    kind = ctx.types.of(tensor)
    if isinstance(kind, Tensor):
        return not kind.is_host
    if not isinstance(kind, Unknown) or not isinstance(tensor, ast.Name):
        return False
    return bool(calls_looped_over(tensor, ctx.ancestors(tensor), _OF_MODULES))


def _tensor(node: ast.AST) -> ast.expr | None:
    """The tensor whose address a call returns; None for other calls."""
    match node:
        case ast.Call(func=ast.Attribute(value=held, attr="data_ptr"), args=[], keywords=[]):
            pass
        case _:
            return None
    match held:
        case ast.Call(func=ast.Attribute(value=inner, attr=name), args=[], keywords=[]) if name in _STORAGES:
            held = inner
        case _:
            pass
    return held.value if isinstance(held, ast.Attribute) and held.attr == "data" else held


def _compares(outer: ast.AST | None) -> bool:
    """Whether the comparison tests if two addresses are the same."""
    match outer:
        case ast.Compare(left=left, ops=[ast.Eq() | ast.NotEq()], comparators=[right]):
            return _tensor(left) is not None and _tensor(right) is not None
    return False


def _identity(outer: ast.Compare, ctx: Context) -> Fix | None:
    left, right = _tensor(outer.left), _tensor(outer.comparators[0])
    if not (isinstance(left, _NAMED) and isinstance(right, _NAMED)):
        return None
    word = "is" if isinstance(outer.ops[0], ast.Eq) else "is not"
    edit = ctx.rewrite.replace(outer, f"{ctx.text(left)} {word} {ctx.text(right)}")
    title = f"compare the tensor objects with `{word}` instead of their `data_ptr()`"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _ids(ctx: Context) -> Fix | None:
    """The fix that uses `id` for all addresses of the function, if each is a key or an element."""
    edits = []
    for call, at in ctx.once(_by_function)[ctx.scope.function]:
        if _compares(ctx.parent(call)):
            continue
        tensor = _tensor(call)
        if not isinstance(tensor, _NAMED) or not _is_taken(call, at) or not _is_kept(call, ctx):
            return None
        edits.append(ctx.rewrite.replace(call, f"id({ctx.text(tensor)})"))
    if ctx.names.lookup("id") is not None:
        return None
    title = "replace `data_ptr()` with `id(...)`, which is different for each tensor object"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _by_function(ctx: Context) -> dict[Scope | None, list[tuple[ast.Call, Context]]]:
    found: dict[Scope | None, list[tuple[ast.Call, Context]]] = {}
    for call, at in ctx.calls("data_ptr"):
        found.setdefault(at.scope.function, []).append((call, at))
    return found


def _is_kept(call: ast.Call, ctx: Context) -> bool:
    """Whether the address is a key or element of a collection, or is looked up in one."""
    match ctx.parent(call):
        case ast.Call(func=ast.Attribute(attr="add" | "append" | "get" | "setdefault" | "pop")):
            return True
        case ast.Compare(ops=[ast.In() | ast.NotIn()], left=left):
            return left is call
        case ast.Subscript(slice=index):
            return index is call
        case ast.Dict(keys=keys):
            return any(key is call for key in keys)
        case ast.DictComp(key=key):
            return key is call
        case ast.SetComp(elt=element) | ast.Set(elts=[element]):
            return element is call
    return False
