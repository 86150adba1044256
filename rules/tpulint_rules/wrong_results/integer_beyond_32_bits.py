"""Integer of more than 32 bits in an operation on the device.

## What it does

JAX has only 32-bit integers unless `jax_enable_x64` is set.
In code that moves tensors to a CUDA or torchax device, the rule reports integers that do not fit into 32
bits:

- in arithmetic, comparisons and bit operations with an integer tensor of the device:
  `ids * 2654435761`, `ids < 10**10`, `ids.masked_fill(mask, torch.iinfo(torch.int64).max)`, `ids[0] = 2**40`;
- in tensors that are created on the device, or on the CPU and moved to the device in the same expression:
  `torch.full((3,), 2**40, device=device)`, `torch.tensor(time.time_ns()).to(device)`.

The rule also reports shifts of integer tensors by 31 bits or more, and hashes such as
`(x * 73856093 + y) % size`, where the product with a large integer usually needs more than 32 bits before `%`
reduces it.

The integer may be a literal, the result of an expression of literals, a variable that is assigned only once,
`torch.iinfo(torch.int64).max`, `sys.maxsize`, or a time such as `time.time_ns()` or
`int(time.time() * 1000)`.

The rule reports integers beside float tensors only in programs without the runtime
torchax-compat, in which such an operation raises, too.
Beside tensors whose dtype tpulint cannot infer, the rule reports integers in all programs.
The rule does not report files that mention `jax_enable_x64`.

## Why it matters on TPU

- `ids + 2**40`, `ids < 10**10` and `ids[0] = 2**40` raise `OverflowError`.
- `ids * 2654435761`, and bit operations with such an integer, raise `OverflowError`. In programs with the
  runtime, these operations raise no error: the result has only the lower 32 bits.
- `torch.full((3,), 2**40, device=device)`, `torch.arange(2**31, ...)`, `ids << 32`, and a tensor that is
  moved to the device raise no error. The elements have only the lower 32 bits: `2**40` becomes 0.

## Fix safety

For an integer beside a float tensor, the fix is safe: it converts the integer to a float, as PyTorch does.

For all other integers, the fix adds `jax.config.update("jax_enable_x64", True)` after the imports of a
script. The fix is unsafe, because all integer tensors of the program then have 64 bits, which is slow on a
TPU.
The rule offers no such fix in a file that other files import.

## Without a fix

Do one of the following:

- Call `jax.config.update("jax_enable_x64", True)` at the start of the program, before any tensor is created.
- Compute with float tensors, if float precision is enough: `ids.float() * 2654435761.0`.
- Compute hashes and times on the CPU, and move only results that fit into 32 bits.
- As a filler for integer tensors, use `torch.iinfo(torch.int32).max`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tensors import READS
from tpulint.rules_api import Applicability, Context, Device, Finding, Fix, FunctionNode, Rule, Tensor

rule = Rule(
    "TPU622",
    "integer of more than 32 bits in an operation on the device",
    module=__name__,
    fix=Applicability.SAFE,
)

_OPTION = "jax_enable_x64"
_BITS = 31
_FIRST = 2**_BITS
#: Operations that take a number beside a tensor.
_BESIDE = frozenset(
    {
        *("add", "sub", "subtract", "mul", "multiply", "div", "divide", "floor_divide", "remainder", "fmod"),
        *("eq", "ne", "lt", "le", "gt", "ge", "greater", "less", "where", "fill", "index_fill"),
        "masked_fill",
        *("clamp", "clip", "clamp_min", "clamp_max", "bitwise_and", "bitwise_or", "bitwise_xor", "rsub"),
        *("full_like", "new_full", "new_tensor", "scatter", "randint_like"),
    }
)
#: Functions that make a tensor of numbers that they are given.
_FACTORIES = frozenset(f"torch.{name}" for name in ("tensor", "as_tensor", "full", "arange", "randint"))
_FLOATS = frozenset(
    f"torch.{name}" for name in ("float", "float32", "float16", "half", "bfloat16", "float64")
)
_INTEGERS = frozenset(f"torch.{name}" for name in ("int64", "long", "int32", "int", "int16", "uint8", "bool"))
#: Functions and methods whose results are integers, and those that keep the dtype of what they take.
_OF_INTEGERS = frozenset(
    {
        *("long", "int", "randint", "randperm", "argmax", "argmin", "argsort"),
        *("bincount", "nonzero", "searchsorted"),
    }
)
_KEEP = frozenset(
    {
        *("to", "cuda", "clone", "contiguous", "detach", "view", "reshape", "flatten"),
        *("squeeze", "unsqueeze"),
        *("sum", "cumsum", "prod", "abs", "t", "clamp", "zeros_like", "ones_like", "full_like"),
    }
)
#: What stands for the dtype of a variable that was asked for before.
_ITSELF = "itself"
_LIMITS = frozenset({"torch.iinfo", "numpy.iinfo"})
_LONG = frozenset({"torch.int64", "torch.long", "numpy.int64"})
_TIMES = ("time_ns", "perf_counter_ns", "monotonic_ns")
#: Any time in nanoseconds of this century, and in seconds.
_NOW = 2**60
_NOW_IN_SECONDS = 2**30
_BITWISE = (ast.BitAnd, ast.BitOr, ast.BitXor, ast.LShift, ast.RShift)
_LINEAR = (ast.Mult, ast.Add, ast.Sub, ast.BitXor, ast.BitOr, ast.BitAnd)
#: No larger powers and shifts are computed.
_MOST_BITS = 256


@rule.on(ast.Module)
def operations(_: ast.Module, ctx: Context) -> Iterator[Finding]:
    if _OPTION not in ctx.source.text:
        yield from _integers(ctx)
        yield from _shifts(ctx)


def _integers(ctx: Context) -> Iterator[Finding]:
    seen: set[int] = set()
    for seed, at in _seeds(ctx):
        node, value = _whole(seed, at)
        if value is None or id(node) in seen:
            continue
        seen.add(id(node))
        for use, place in _uses(node, at):
            if _serves(place):
                yield from _judged(use, value, place)


def _shifts(ctx: Context) -> Iterator[Finding]:
    for node, scope in ctx.names.large_integers():
        if not isinstance(node, ast.BinOp) or not isinstance(node.op, ast.LShift):
            continue
        at = ctx.at(scope)
        bits = _value(node.right, at)
        if bits is not None and bits >= _BITS and _serves(at) and _is_integer(node.left, at):
            message = f"JAX has 32-bit integers, so the result of this shift by {bits} bits is 0 or negative"
            yield _found(node, message, at)


def _serves(ctx: Context) -> bool:
    return ctx.program.serves_device or ctx.trace.path is not None


def _seeds(ctx: Context) -> Iterator[tuple[ast.expr, Context]]:
    """Expressions that may be, or be a part of, large integers."""
    for node, scope in ctx.names.large_integers():
        yield node, ctx.at(scope)
    for name in ("iinfo", *_TIMES):
        for call, at in ctx.calls(name):
            outer = ctx.parent(call)
            yield (outer if isinstance(outer, ast.Attribute) else call), at
    for call, at in ctx.calls("time"):
        product = ctx.parent(call)
        whole = ctx.parent(product) if isinstance(product, ast.BinOp) else None
        if isinstance(whole, ast.Call):
            yield whole, at
    for node, scope in ctx.names.attributes("maxsize"):
        yield node, ctx.at(scope)


def _whole(node: ast.expr, ctx: Context) -> tuple[ast.expr, int | None]:
    """The largest expression of constants around an expression, with its value."""
    value = _value(node, ctx)
    outer = ctx.parent(node)
    while value is not None and isinstance(outer, ast.BinOp | ast.UnaryOp):
        larger = _value(outer, ctx)
        if larger is None:
            break
        node, value, outer = outer, larger, ctx.parent(outer)
    return node, value


def _value(node: ast.expr, ctx: Context) -> int | None:
    """The integer that an expression of constants is."""
    match node:
        case ast.Constant(value=value) if type(value) is int:
            return value
        case ast.UnaryOp(op=ast.USub()):
            inner = _value(node.operand, ctx)
            return None if inner is None else -inner
        case ast.BinOp(left=left, op=op, right=right):
            one, other = _value(left, ctx), _value(right, ctx)
            return None if one is None or other is None else _computed(one, op, other)
        case ast.Attribute(value=ast.Call(func=function, args=[dtype]), attr="max" | "min"):
            if ctx.names.qualified(function) in _LIMITS and ctx.names.qualified(dtype) in _LONG:
                return 2**63 - 1 if node.attr == "max" else -(2**63)
        case ast.Attribute(attr="maxsize") if ctx.names.qualified(node) == "sys.maxsize":
            return 2**63 - 1
        case ast.Call(func=function) if ctx.names.qualified(function) in {f"time.{name}" for name in _TIMES}:
            return _NOW
        case ast.Call(func=ast.Name(id="int" | "round"), args=[ast.BinOp(op=ast.Mult()) as product]):
            return _time(product, ctx)
    return None


def _time(product: ast.BinOp, ctx: Context) -> int | None:
    """The present time in parts of a second, such as `time.time() * 1000`."""
    match product.left, product.right:
        case (ast.Call(func=function), ast.Constant(value=int() | float() as parts)) | (
            ast.Constant(value=int() | float() as parts),
            ast.Call(func=function),
        ) if ctx.names.qualified(function) == "time.time":
            return int(_NOW_IN_SECONDS * parts)
    return None


def _computed(one: int, op: ast.operator, other: int) -> int | None:
    match op:
        case ast.Add():
            return one + other
        case ast.Sub():
            return one - other
        case ast.Mult():
            return one * other
        case ast.FloorDiv() if other:
            return one // other
        case ast.Mod() if other:
            return one % other
        case ast.Pow() if 0 <= other <= _MOST_BITS and one.bit_length() * other <= _MOST_BITS:
            return int(one**other)
        case ast.LShift() if 0 <= other <= _MOST_BITS:
            return one << other
    return None


def _uses(node: ast.expr, ctx: Context) -> Iterator[tuple[ast.expr, Context]]:
    """The expression itself, and where it is the only value of a variable, all places that read this."""
    yield node, ctx
    match ctx.parent(node):
        case ast.Assign(targets=[ast.Name(id=name) as target]) if ctx.names.assigned_values(target) == [node]:
            for read in ctx.names.loads(name):
                place = _place(read, ctx)
                if place.names.assigned_values(read) == [node]:
                    yield read, place


def _place(node: ast.expr, ctx: Context) -> Context:
    for outer in ctx.ancestors(node):
        if isinstance(outer, FunctionNode):
            scope = ctx.names.function(outer)
            if scope is not None:
                return ctx.at(scope)
    return ctx.at(ctx.names.module_scope)


def _judged(node: ast.expr, value: int, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    if -_FIRST <= value < _FIRST:
        if isinstance(outer, ast.BinOp) and _is_hash(node, outer, value, ctx):
            message = (
                f"the product with `{ctx.text(node)}` usually needs more than 32 bits, and JAX keeps the "
                "lower 32 bits before `%`, so the result differs"
            )
            yield _found(node, message, ctx)
        return
    tensors = list(_beside(node, ctx))
    if any(_is_on_device(one, ctx, set()) for one in tensors):
        dtypes = {_dtype(one, ctx, set()) for one in tensors}
        in_bits = isinstance(outer, ast.BinOp | ast.AugAssign) and isinstance(outer.op, _BITWISE)
        is_integer = "int" in dtypes and "float" not in dtypes
        if is_integer or in_bits:
            yield _found(node, _message(node, ctx), ctx)
        elif not _is_filler(node, ctx) and not (
            dtypes == {"float"} and ctx.program.runtime_handles("integers beyond 32 bits beside floats")
        ):
            text = ctx.text(node)
            message = (
                f"`{text}` does not fit into the 32-bit integers of JAX, so the operation raises "
                "`OverflowError`"
            )
            yield ctx.finding(node, message, _as_float(node, ctx) if dtypes == {"float"} else None)
    elif not tensors and _is_made_on_device(node, ctx):
        yield _found(node, _message(node, ctx), ctx)


def _message(node: ast.expr, ctx: Context) -> str:
    return (
        f"`{ctx.text(node)}` does not fit into the 32-bit integers of JAX, so the operation raises "
        "`OverflowError`, or uses only the lower 32 bits"
    )


def _is_hash(node: ast.expr, outer: ast.BinOp, value: int, ctx: Context) -> bool:
    """Whether `%` reduces a product of an integer tensor with a large integer, or is by this integer."""
    if isinstance(outer.op, ast.Mod) and outer.right is node:
        factors = (
            _value(side, ctx) or 0
            for part in ast.walk(outer.left)
            if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Mult)
            for side in (part.left, part.right)
        )
        is_wide = any(abs(factor) * value >= _FIRST for factor in factors)
        return is_wide and bool(value & (value - 1)) and _is_integer(outer.left, ctx)
    if not isinstance(outer.op, ast.Mult):
        return False
    other = outer.left if outer.right is node else outer.right
    if not _is_integer(other, ctx):
        return False
    inner: ast.AST = outer
    around = ctx.parent(outer)
    while isinstance(around, ast.BinOp) and isinstance(around.op, _LINEAR):
        inner, around = around, ctx.parent(around)
    if not isinstance(around, ast.BinOp) or not isinstance(around.op, ast.Mod) or around.left is not inner:
        return False
    size = _value(around.right, ctx)
    return size is None or bool(size & (size - 1))


def _is_integer(node: ast.expr, ctx: Context) -> bool:
    """Whether an expression is an integer tensor of the device."""
    return _is_on_device(node, ctx, set()) and _dtype(node, ctx, set()) == "int"


def _is_on_device(node: ast.expr, ctx: Context, seen: set[str]) -> bool:
    """Whether an expression is a tensor, and not known to be on the CPU."""
    kind = ctx.types.of(node)
    if isinstance(kind, Tensor):
        return kind.certain and not kind.is_host
    match node:
        case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return _is_on_device(inner, ctx, seen)
        case ast.BinOp(left=left, right=right):
            return _is_on_device(left, ctx, seen) or _is_on_device(right, ctx, seen)
        case ast.Name(id=name) if name not in seen:
            seen.add(name)
            values = ctx.names.assigned_values(node)
            return bool(values) and _is_on_device(values[0], ctx, seen)
        case ast.Call(func=ast.Attribute(value=owner, attr=name)) if ctx.names.qualified(node.func) is None:
            if name == "to":
                return any(_is_device(one, ctx) for one in node.args) or _is_on_device(owner, ctx, seen)
            return name == "cuda" or (name not in READS and _is_on_device(owner, ctx, seen))
    return False


def _is_device(node: ast.expr, ctx: Context) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and not node.value.startswith("cpu")
    return isinstance(kind := ctx.types.of(node), Device) and kind != Device("cpu")


def _dtype(node: ast.expr, ctx: Context, seen: set[str]) -> str:
    """What the file shows of the elements: "int" or "float"; else "".

    A variable that is computed from itself, as in a loop, has the dtype of its other values.
    """
    kind = ctx.types.of(node)
    if isinstance(kind, Tensor) and kind.dtype:
        return "int" if kind.dtype == "bool" else kind.dtype
    match node:
        case ast.Constant(value=value):
            return {int: "int", bool: "int", float: "float"}.get(type(value), "")
        case ast.Subscript(value=inner) | ast.UnaryOp(operand=inner):
            return _dtype(inner, ctx, seen)
        case ast.BinOp(left=left, op=op, right=right):
            sides = {_dtype(left, ctx, seen), _dtype(right, ctx, seen)} - {_ITSELF}
            return "float" if "float" in sides or isinstance(op, ast.Div) else _only(sides)
        case ast.Name(id=name):
            if name in seen:
                return _ITSELF
            seen.add(name)
            return _only({_dtype(value, ctx, seen) for value in ctx.names.assigned_values(node)} - {_ITSELF})
        case ast.Call():
            return _made_dtype(node, ctx, seen)
    return ""


def _only(dtypes: set[str]) -> str:
    return dtypes.pop() if len(dtypes) == 1 else ""


def _made_dtype(call: ast.Call, ctx: Context, seen: set[str]) -> str:
    qualified = ctx.names.qualified(call.func)
    name = (qualified or "").removeprefix("torch.")
    if qualified is None and isinstance(call.func, ast.Attribute):
        name = call.func.attr
    for given in (*call.args, *(word.value for word in call.keywords)):
        dtype = ctx.names.qualified(given)
        if dtype in _FLOATS or dtype in _INTEGERS:
            return "float" if dtype in _FLOATS else "int"
    if name in _OF_INTEGERS:
        return "int"
    if name in ("float", "double", "half", "bfloat16"):
        return "float"
    if qualified is None and isinstance(call.func, ast.Attribute):
        return _dtype(call.func.value, ctx, seen) if name in _KEEP else ""
    if qualified is not None and qualified.startswith("torch.") and call.args:
        if name == "arange":
            return "int" if all(_dtype(one, ctx, seen) == "int" for one in call.args) else ""
        return _dtype(call.args[0], ctx, seen) if name in _KEEP else ""
    return ""


def _beside(node: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """The operands that an expression meets in its operation."""
    outer = ctx.parent(node)
    match outer:
        case ast.BinOp():
            yield outer.left if outer.right is node else outer.right
        case ast.AugAssign():
            yield outer.target
        case ast.Compare():
            yield from (one for one in (outer.left, *outer.comparators) if one is not node)
        case ast.Assign(targets=[ast.Subscript(value=written)]):
            yield written
        case ast.keyword():
            call = ctx.parent(outer)
            if isinstance(call, ast.Call):
                yield from _operands(call, node, ctx)
        case ast.Call():
            yield from _operands(outer, node, ctx)


def _operands(call: ast.Call, node: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """The other operands of an operation that a call is."""
    qualified = ctx.names.qualified(call.func)
    name = (qualified or "").removeprefix("torch.")
    if qualified is None and isinstance(call.func, ast.Attribute):
        name = call.func.attr
    if name.rstrip("_") not in _BESIDE or any(_is_float(word.value, ctx) for word in call.keywords):
        return
    if qualified is None and isinstance(call.func, ast.Attribute):
        yield call.func.value
    elif qualified is not None and qualified.startswith("torch."):
        yield from (one for one in call.args if one is not node)


def _is_float(node: ast.expr, ctx: Context) -> bool:
    return ctx.names.qualified(node) in _FLOATS


def _is_filler(node: ast.expr, ctx: Context) -> bool:
    """Whether torchax converts the integer itself, as in `full_like` of a float tensor."""
    call = ctx.parent(node)
    name = call.func.attr if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else ""
    return name.rstrip("_") in {"fill", "full_like", "new_full", "new_tensor", "where"}


def _is_made_on_device(node: ast.expr, ctx: Context) -> bool:
    """Whether an integer becomes an element or a bound of an integer tensor on the device."""
    call = ctx.parent(node)
    while isinstance(call, ast.List | ast.Tuple | ast.keyword):
        call = ctx.parent(call)
    if not isinstance(call, ast.Call) or ctx.names.qualified(call.func) not in _FACTORIES:
        return False
    if any(_is_float(word.value, ctx) for word in call.keywords) or any(
        isinstance(one, ast.Constant) and type(one.value) is float for one in ast.walk(call)
    ):
        return False
    if any(word.arg == "device" for word in call.keywords):
        return ctx.devices.may_be_made_on_device(call)
    kind = ctx.types.of(call)
    if isinstance(kind, Tensor) and kind.certain and not kind.is_host:
        return True
    taken = ctx.parent(call)
    if not isinstance(taken, ast.Attribute) or taken.attr not in ("to", "cuda"):
        return False
    moved = ctx.parent(taken)
    if not isinstance(moved, ast.Call) or moved.func is not taken:
        return False
    if any(_is_float(one, ctx) for one in (*moved.args, *(word.value for word in moved.keywords))):
        return False
    return taken.attr == "cuda" or any(_is_device(one, ctx) for one in moved.args)


def _found(node: ast.expr, message: str, ctx: Context) -> Finding:
    remedy = "set `jax_enable_x64`, use float tensors, or compute on the CPU"
    return ctx.finding(node, f"{message}; {remedy}", _enabled(ctx))


def _as_float(node: ast.expr, ctx: Context) -> Fix:
    text = ctx.text(node)
    number = f"{text}.0" if isinstance(node, ast.Constant) and text.isdigit() else f"float({text})"
    return ctx.rewrite.fix(f"write `{text}` as the float `{number}`", ctx.rewrite.replace(node, number))


def _enabled(ctx: Context) -> Fix | None:
    imports = None if ctx.program.is_imported else ctx.rewrite.imports("import jax")
    if imports is None:
        return None
    line = f'jax.config.update("{_OPTION}", True)'
    edit = ctx.rewrite.insert_below_imports(line)
    title = f"add `{line}`, which enables 64-bit types in JAX"
    return ctx.rewrite.fix(title, *imports, edit, applicability=Applicability.UNSAFE)
