"""Tensor created on the device from a list of mixed number types.

## What it does

The rule reports calls of `torch.tensor`, `torch.as_tensor` and `torch.asarray` with `device=` and without
`dtype=`, if the data is a literal list or tuple of one of these forms:

- The first number is an integer, and another element is a float.
- The first element is a bool, and another element is a number.

The rule does not report tensors that are created on the CPU, such as `torch.tensor([1, 2.5]).to(device)`.

## Why it matters on TPU

When torchax creates a tensor from a list, torchax takes the dtype of the tensor from the first element:

- On torchax, `torch.tensor([1, 2.5], device=device)` is `[1, 2]`, without an error.
- On torchax, `torch.tensor([True, 2], device=device)` is `[True, True]`, without an error.
- If the list contains an infinity or a NaN, the call raises
  `OverflowError: cannot convert float infinity to integer`.

## Fix safety

The fix is safe: it writes the first number in the type that PyTorch uses for all elements.
For example, the fix replaces `[1, 2.5]` with `[1.0, 2.5]`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule(
    "TPU615",
    "tensor created on the device from a list of mixed number types",
    module=__name__,
    former=("number-list-of-two-types",),
    fix=Applicability.SAFE,
)

_FACTORIES = frozenset({"torch.tensor", "torch.as_tensor", "torch.asarray"})
#: What torch takes for all, where several are there, is the last of them.
_TYPES: tuple[type[float], ...] = (bool, int, float)


@rule.on(ast.Call, named={"tensor", "as_tensor", "asarray"})
def tensor(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _FACTORIES or not _is_on_device(call, ctx) or not call.args:
        return
    numbers = list(_numbers(call.args[0]))
    if not numbers or not isinstance(numbers[0], ast.Constant):
        return
    first = numbers[0].value
    kinds = {kind for number in numbers if (kind := _type(number, ctx)) is not None}
    wanted = max(kinds, key=_TYPES.index, default=bool)
    if not isinstance(first, int) or type(first) is wanted:
        return
    became = "`bool`" if isinstance(first, bool) else "integers"
    message = (
        f"torchax infers the dtype of this tensor from the first element, `{first}`, "
        f"and converts the other elements to {became}"
    )
    yield ctx.finding(call, message, _fix(numbers[0], first, wanted, ctx))


def _is_on_device(call: ast.Call, ctx: Context) -> bool:
    """Whether the call passes `device=` with a device that may be the TPU, and no `dtype=`."""
    if any(item.arg in ("dtype", None) for item in call.keywords) or len(call.args) != 1:
        return False
    if not ctx.devices.may_be_made_on_device(call):
        return False
    device = next(item.value for item in call.keywords if item.arg == "device")
    return isinstance(device, ast.Constant) or ctx.trace.path is not None or ctx.program.serves_device


def _numbers(node: ast.expr) -> Iterator[ast.expr]:
    """The elements of a nested literal, in order."""
    if isinstance(node, ast.List | ast.Tuple):
        for element in node.elts:
            yield from _numbers(element)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
        yield from _numbers(node.operand)
    else:
        yield node


def _type(node: ast.expr, ctx: Context) -> type[float] | None:
    """The Python type of an element that is a literal, a call of `float`, or a name such as `math.pi`."""
    if isinstance(node, ast.Constant):
        return next((kind for kind in _TYPES if type(node.value) is kind), None)
    if isinstance(node, ast.Call) and ctx.names.qualified(node.func) == "builtins.float":
        return float
    return float if ctx.names.qualified(node) in ("math.inf", "math.pi", "math.nan", "torch.inf") else None


def _fix(first: ast.Constant, number: int, wanted: type[float], ctx: Context) -> Fix:
    text = str(wanted(number))
    return ctx.rewrite.fix(
        f"write the first element `{first.value!r}` as `{text}`", ctx.rewrite.replace(first, text)
    )
