"""Image grid or image file created from device tensors.

## What it does

The rule reports `torchvision.utils.save_image` and `make_grid` in programs that put tensors on a CUDA or
torchax device, unless the images are known to be CPU tensors.
The rule does not report calls with a list of tensors.

## Why it matters on TPU

`save_image` and `make_grid` write into a view of a new tensor, which torchax does not support.
`save_image` and `make_grid` therefore raise `AttributeError: 'View' object has no attribute '_elem'`.

## Fix safety

The fix is unsafe, because the fixed program copies the images to the host before it calls `save_image` or
`make_grid`:

- The program then waits until the device has computed the images.
- The grid that `make_grid` returns is then a CPU tensor, which torchax cannot combine with device tensors.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Rule, Several, Tensor, Unknown
from tpulint.rules_api.syntax import effects

rule = Rule(
    "TPU708",
    "image grid or image file created from device tensors",
    module=__name__,
    former=("grid-of-device-tensors",),
    fix=Applicability.UNSAFE,
)

_FUNCTIONS = frozenset({"torchvision.utils.save_image", "torchvision.utils.make_grid"})


@rule.on(ast.Call, named={"save_image", "make_grid"})
def grid(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in _FUNCTIONS or not call.args or not ctx.program.serves_device:
        return
    pictures = call.args[0]
    kind = ctx.types.of(pictures)
    if not isinstance(kind, Tensor | Unknown) or isinstance(kind, Several) or _is_host(pictures, kind):
        return
    if isinstance(pictures, ast.Subscript) and any(map(_is_copied, ctx.names.assigned_values(pictures))):
        return  # `images[k] = images[k].cpu()`, in this function or in one that calls it
    values = ctx.names.assigned_values(pictures) or [pictures]
    if all(map(_is_made_of_copies, values)) or _is_copied_above(pictures, ctx):
        return  # what is computed on the host
    grids = [ctx.names.qualified(value.func) for value in values if isinstance(value, ast.Call)]
    if isinstance(pictures, ast.Name) and grids and _FUNCTIONS.issuperset(grids):
        return  # it is on the host, or reported where it is made
    if isinstance(pictures, ast.List | ast.Tuple | ast.ListComp | ast.GeneratorExp):
        return
    message = f"`{name.rpartition('.')[2]}` raises for tensors on the torchax device"
    edit = ctx.rewrite.replace(pictures, f"{ctx.rewrite.operand(pictures)}.cpu()")
    fix = ctx.rewrite.fix(
        "copy the images to the CPU with `.cpu()`", edit, applicability=Applicability.UNSAFE
    )
    yield ctx.finding(pictures, message, fix)


def _is_host(node: ast.expr, kind: object) -> bool:
    """Whether the images are on the CPU, or are copied there with `.cpu()`."""
    return (isinstance(kind, Tensor) and kind.is_host) or _is_copied(node)


def _is_copied_above(pictures: ast.expr, ctx: Context) -> bool:
    """Whether the last assignment to the name in this block is a copy to the CPU."""
    statement = ctx.statement(pictures)
    block = ctx.block(statement)
    for above in reversed(block[: block.index(statement)]):
        if ast.unparse(pictures) in effects([above]).writes:
            return isinstance(above, ast.Assign) and _is_copied(above.value)
    return False


def _is_made_of_copies(node: ast.expr) -> bool:
    """Whether the images are computed from a copy on the CPU."""
    given = node.args if isinstance(node, ast.Call) else []
    lists = [one for one in given if isinstance(one, ast.List | ast.Tuple)]
    return any(map(_is_copied, [*given, *(element for one in lists for element in one.elts)]))


def _is_copied(node: ast.expr) -> bool:
    """Whether the expression is a copy to the CPU."""
    while isinstance(node, ast.Call | ast.Attribute | ast.Subscript):
        if isinstance(node, ast.Attribute) and node.attr == "cpu":
            return True
        node = node.func if isinstance(node, ast.Call) else node.value
    return False
