"""Copy of a tensor to the host in traced code.

## What it does

Reports the following copies of a tensor to CPU memory in traced code.
Traced code is code that JAX traces to compile it, such as a model's `forward`.

- `.cpu()`, `.numpy()` and `.to("cpu")`.
- `.to(device)`, if `device` is known to be the CPU.
- `.type(torch.FloatTensor)` and the other types of CPU tensors.
- NumPy functions that are called with a tensor.
- `.to(self.steps.device)`, if every assignment to `self.steps` in the class creates a CPU tensor. An
  assignment such as `self.steps = torch.arange(n, device=device)` in a method `set_steps(self, n,
  device=None)` also counts, because the tensor is on the CPU if the caller passes no device.

A copy is not reported if the tensor already is on the CPU.
Copies in code that is not traced are not reported, either.

## Why it matters on TPU

A copy to the host needs the tensor's values, which do not exist while JAX traces the code.

- In jitted code, a copy to the host raises `jax.errors.TracerArrayConversionError: The numpy.ndarray
  conversion method __array__() was called on traced array`.
- In code that is not jitted, each copy to the host waits for the device.
- The copy is a CPU tensor, and torchax cannot combine CPU tensors with device tensors.
  torchax raises `AssertionError: Expect a Tensor or a View but got <class 'torch.Tensor'>; usually this means
  there is a mixed math between XLATensor and torch.Tensor`.

## Fix safety

The fix is unsafe: it removes `.cpu()` or `.to("cpu")`, so the tensor stays on the device.
tpulint offers the fix only if it knows that torchax implements each operation of the function on the copied
tensor.
Otherwise the program may compute on the CPU on purpose, for example with `torch.geqrf`, which torchax does
not implement, and the copy stays.

For `.type(torch.FloatTensor)`, the fix passes the dtype: `.type(torch.float32)`.

## Without a fix

- Replace each NumPy function with the corresponding function of torch.
- Or return the tensor, and copy it to the host outside of the traced function.
- If the traced function itself needs NumPy, call the NumPy function on the host with `jax.pure_callback`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.operators import RAISES
from tpulint.knowledge.tensors import ELEMENTWISE, NUMPY_OF_VALUES, REDUCTIONS
from tpulint.rules_api import (
    Applicability,
    Context,
    Device,
    Finding,
    Fix,
    Kind,
    Rule,
    Static,
    Tensor,
    Unknown,
)
from tpulint.rules_api.syntax import loads

rule = Rule(
    "TPU305", "copy of a tensor to the host in traced code", module=__name__, fix=Applicability.UNSAFE
)

_HANDLED = "values of tensors in Python code"

#: Functions and methods of torch that compute the same on torchax.
_WORK = (
    ELEMENTWISE
    | REDUCTIONS
    | {
        *("matmul", "mm", "bmm", "cat", "stack", "where", "maximum", "minimum", "view", "reshape", "permute"),
        *("transpose", "squeeze", "unsqueeze", "flatten", "expand", "repeat", "t", "index_select", "gather"),
        *("nn.functional.mse_loss", "nn.functional.l1_loss", "nn.functional.cross_entropy"),
    }
) - {"cpu", "cuda", "numpy"}

#: Types of tensors on the CPU, with the dtypes of their elements.
_HOST_TYPES = {
    "torch.Tensor": "torch.get_default_dtype()",
    "torch.FloatTensor": "torch.float32",
    "torch.DoubleTensor": "torch.float64",
    "torch.HalfTensor": "torch.float16",
    "torch.BFloat16Tensor": "torch.bfloat16",
    "torch.LongTensor": "torch.int64",
    "torch.IntTensor": "torch.int32",
    "torch.ShortTensor": "torch.int16",
    "torch.CharTensor": "torch.int8",
    "torch.ByteTensor": "torch.uint8",
    "torch.BoolTensor": "torch.bool",
}

_COPIES = "copies a tensor to the host, but tensors have no values while JAX traces the code"


@rule.on(ast.Call, named={"cpu", "numpy"}, traced=True, handled=_HANDLED)
def copied(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or call.args or call.keywords:
        return
    receiver = ctx.types.of(call.func.value)
    unknown = (
        isinstance(receiver, Unknown) and call.func.attr == "numpy"
    )  # nothing else of a parameter has it
    surely = receiver.is_traced or (unknown and ctx.names.is_parameter(call.func.value))
    if not surely or ctx.names.qualified(call.func) is not None:
        return
    if not ctx.types.is_reached(call):
        return  # `if x.device.type == "mps":` and the like
    message = f"`.{call.func.attr}()` {_COPIES}"
    fix = _left_out(call, ctx) if call.func.attr == "cpu" else None
    yield ctx.finding(call, message + _purpose(call, ctx), fix)


@rule.on(ast.Call, named={"to"}, traced=True, handled=_HANDLED)
def moved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    place = next((k.value for k in call.keywords if k.arg == "device"), call.args[0] if call.args else None)
    if place is None:
        return
    message = f"`.to({ctx.text(place)})` {_COPIES}"
    if not _is_host(ctx.types.of(place)):
        holder = place.value if isinstance(place, ast.Attribute) and place.attr == "device" else place
        if not ctx.devices.starts_on_host(holder):
            return
        message += f" (`{ctx.text(holder)}` is on the CPU by default)"
    alone = len(call.args) + len(call.keywords) == 1
    yield ctx.finding(call, message + _purpose(call, ctx), _left_out(call, ctx) if alone else None)


@rule.on(ast.Call, named={"type"}, traced=True, handled=_HANDLED)
def converted(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_traced:
        return
    match call.args:
        case [ast.Constant(value=str() as text)]:
            name = text
        case [wanted]:
            name = ctx.names.qualified(wanted) or ""
        case _:
            return
    dtype = _HOST_TYPES.get(name)
    if dtype is None:
        return
    message = f"`.type({ctx.text(call.args[0])})` {_COPIES}"
    imports = ctx.rewrite.imports("import torch")
    fix = None
    if imports is not None:
        title = f"convert the tensor on the device with `.type({dtype})`"
        edit = ctx.rewrite.replace(call.args[0], dtype)
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named=NUMPY_OF_VALUES, traced=True, handled=_HANDLED)
def handed_to_numpy(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func) or ""
    if not name.startswith("numpy.") or not any(ctx.types.of(argument).is_traced for argument in call.args):
        return
    called = ctx.text(call.func)
    yield ctx.finding(call, f"`{called}` {_COPIES}")


def _is_host(kind: Kind) -> bool:
    """Whether the target of the copy is the CPU (`"cpu"`, or a CPU tensor)."""
    if isinstance(kind, Tensor):
        return kind.is_host
    return kind in (Device("cpu"), Static("cpu"))


def _purpose(call: ast.Call, ctx: Context) -> str:
    """Why the copy may be meant: an operator that torchax lacks works on it."""
    inner: ast.AST | None = call
    while inner is not None and not isinstance(inner, ast.stmt):
        inner = ctx.parent(inner)
        if isinstance(inner, ast.Call):
            called = ctx.names.qualified(inner.func)
            if called is None and isinstance(inner.func, ast.Attribute):
                called = f"torch.Tensor.{inner.func.attr}"
            if called in RAISES:
                return f"; the copy stays, because torchax does not implement `{ctx.text(inner.func)}`"
    return ""


def _left_out(call: ast.Call, ctx: Context) -> Fix | None:
    """The fix that removes the copy; None if the result is used on the host, or may be."""
    assert isinstance(call.func, ast.Attribute)
    if not _works_on_device(call, ctx):
        return None
    edit = ctx.rewrite.reduce(call, call.func.value)
    name = ".cpu()" if call.func.attr == "cpu" else ".to(...)"
    title = f"remove `{name}` and keep the tensor on the device"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _works_on_device(node: ast.expr, ctx: Context, seen: frozenset[str] = frozenset()) -> bool:
    """Whether all that the function computes with a value is known to work with torchax's tensors."""
    inner = node
    while True:
        outer = ctx.parent(inner)
        match outer:
            case ast.Attribute(attr=attribute):
                whole = ctx.parent(outer)
                if not isinstance(whole, ast.Call) or whole.func is not outer or attribute not in _WORK:
                    return attribute in ("shape", "dtype", "ndim")
                inner = whole
            case ast.Call(func=function):
                name = ctx.names.qualified(function) or ""
                if inner not in outer.args or name.partition("torch.")[2] not in _WORK:
                    return False
                inner = outer
            case ast.BinOp() | ast.UnaryOp() | ast.Compare() | ast.Subscript():
                inner = outer
            case ast.Assign(targets=[ast.Name(id=name)]) if inner is not node or seen:
                return name in seen or _all_work(name, ctx, seen | {name})
            case ast.Return():
                return inner is not node or bool(seen)
            case _:
                return False


def _all_work(name: str, ctx: Context, seen: frozenset[str]) -> bool:
    """Whether that holds for all reads of a variable that is bound once."""
    function = ctx.scope.function
    if function is None or len(function.bindings.get(name, ())) != 1:
        return False
    return all(_works_on_device(read, ctx, seen) for read in loads(function.node, name))
