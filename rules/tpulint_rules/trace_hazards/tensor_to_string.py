"""Tensor formatted as a string, or printed in traced code.

## What it does

Reports:

- in any code, a device tensor with a format specification, as in `f"{loss:.3f}"` and `"{:.3f}".format(loss)`;
- in traced code, `print` and functions of `logging` with a tensor.

Traced code is code that JAX traces to compile it, such as a model's `forward`.
The rule does not report code that prints shapes, dtypes or devices, because JAX knows shapes, dtypes and
devices while it traces the code.
In traced code, messages of `raise` and `assert` are not reported.
In code that is not traced, `"%.3f" % loss` works with device tensors and is not reported.

## Why it matters on TPU

- A format specification raises `TypeError: unsupported format string passed to Tensor.__format__`, whether or
  not the code is jitted.
  In a training script, this error typically happens after the first epoch, when the script prints the losses.
- `print` and `logging` in traced code raise no error, but they run only once, while JAX traces the code.
  In traced code, `print` and `logging` show `Tensor(<class
  'jax._src.interpreters.partial_eval.DynamicJaxprTracer'> JitTracer(float32[]))`.

## Fix safety

- Outside of traced code, the fix is safe: it formats `loss.item()`, which is the value that PyTorch itself
  formats.
  If the value may already be a Python number, such as a sum that starts with 0, the fix formats
  `float(loss)`, which gives the same string.
- In traced code, the fix for `print` is unsafe.
  The fix replaces `print(...)` with a call of `jax.debug.print` through `torchax.interop.call_jax`.
  `jax.debug.print` prints the values at each call of the function.
  The output of `jax.debug.print` appears when the device runs the operation, not in the order of the program.
  The fixed code needs JAX.

## Without a fix

Return the tensor, and print or log its `.item()` outside of the traced function.
"""

from __future__ import annotations

import ast
import itertools
import string
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule, Tensor

rule = Rule(
    "TPU306",
    "tensor formatted as a string, or printed in traced code",
    module=__name__,
    former=("tensor-in-text",),
    fix=Applicability.SAFE,
)

_LEVELS = frozenset({"debug", "info", "warning", "warn", "error", "critical", "exception", "log"})

_FORMAT = "a format specification such as `:.3f` raises `TypeError` for torchax tensors and JAX tracers"
_OF_FLOATS = ("e", "E", "f", "F", "g", "G", "%")
_NO_FORMAT = "a format specification such as `:.3f` raises `TypeError` for a torchax tensor"


@rule.on(ast.FormattedValue, where=lambda node: node.format_spec is not None)
def formatted(node: ast.FormattedValue, ctx: Context) -> Iterator[Finding]:
    if node.conversion != -1:
        return
    if ctx.trace.path is None:
        if _is_on_device(node.value, ctx):
            assert isinstance(node.format_spec, ast.JoinedStr)
            last = node.format_spec.values[-1] if node.format_spec.values else None
            spec = str(last.value) if isinstance(last, ast.Constant) else ""
            yield _with_number(node.value, {node.value: spec}, ctx)
        return
    if not ctx.types.of(node.value).is_traced or _only_on_failure(node, ctx):
        return
    if any(isinstance(outer, ast.Call) and _prints(outer, ctx) for outer in ctx.ancestors(node)):
        return
    yield ctx.finding(node.value, _FORMAT)


@rule.on(ast.Call, named={"format"})
def format_method(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    match call.func:
        case ast.Attribute(value=ast.Constant(value=str(text))) if ":" in text:
            given = _with_format(text, call)
        case _:
            return
    if ctx.trace.path is None:
        if tensors := {argument: spec for argument, spec in given.items() if _is_on_device(argument, ctx)}:
            yield _with_number(call, tensors, ctx)
    elif any(ctx.types.of(argument).is_traced for argument in given) and not _only_on_failure(call, ctx):
        yield ctx.finding(call, _FORMAT)


def _with_format(text: str, call: ast.Call) -> dict[ast.expr, str]:
    """The arguments that have a format specification in the string, each with that specification."""
    numbers = itertools.count()
    named = {keyword.arg: keyword.value for keyword in call.keywords if keyword.arg}
    named |= {str(number): value for number, value in enumerate(call.args)}
    try:
        fields = [
            (name, spec, how) for _, name, spec, how in string.Formatter().parse(text) if name is not None
        ]
    except ValueError:
        return {}
    given = [(name or str(next(numbers)), spec) for name, spec, how in fields if not how]
    return {named[name]: spec for name, spec in given if spec and name in named}


def _is_on_device(node: ast.expr, ctx: Context) -> bool:
    """Whether the value is known to be a tensor that may be on the device."""
    kind = ctx.types.of(node)
    return (
        isinstance(kind, Tensor)
        and not kind.is_host
        and ctx.program.serves_device
        and not ctx.devices.only_with_cuda(node)
    )


def _with_number(node: ast.expr, tensors: dict[ast.expr, str], ctx: Context) -> Finding:
    """The finding; its fix formats the scalar, as torch formats zero-dimensional tensors only."""
    edits = []
    for tensor, spec in tensors.items():
        if not ctx.is_located(tensor):
            return ctx.finding(node, _NO_FORMAT)
        if ctx.types.of(tensor).is_tensor:
            edits.append(ctx.rewrite.replace(tensor, f"{ctx.rewrite.operand(tensor)}.item()"))
        elif spec.endswith(_OF_FLOATS):
            edits.append(ctx.rewrite.replace(tensor, f"float({ctx.text(tensor)})"))
        else:
            return ctx.finding(node, _NO_FORMAT)
    # Not `finding`, which gives what is in an f-string no fix: this one brings no quotes.
    fix = ctx.rewrite.fix(
        "format the Python scalar from `.item()` or `float()` instead of the tensor", *edits
    )
    return ctx.finding_at(ctx.span(node), _NO_FORMAT, fix)


@rule.on(ast.Call, named={"print"}, traced=True, handled="printed and logged tensors")
def printed(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not _prints(call, ctx) or not any(_shows(argument, ctx) for argument in call.args):
        return
    message = "`print` runs only once, while JAX traces the code, and shows a tracer instead of the values"
    yield ctx.finding(call, message, _debug_print(call, ctx))


@rule.on(ast.Call, named=_LEVELS, traced=True, handled="printed and logged tensors")
def logged(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or not _is_logger(call.func.value, ctx):
        return
    if any(_shows(argument, ctx) for argument in call.args):
        yield ctx.finding(
            call,
            "this call logs only once, while JAX traces the code, and shows a tracer instead of the values",
        )


def _prints(call: ast.Call, ctx: Context) -> bool:
    """Whether the built-in `print` is called."""
    return isinstance(call.func, ast.Name) and ctx.names.qualified(call.func) == "builtins.print"


def _is_logger(node: ast.expr, ctx: Context) -> bool:
    """Whether the method belongs to the `logging` module or to a logger from `getLogger`."""
    if ctx.names.qualified(node) == "logging":
        return True
    found = ctx.names.lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None:
        return False
    made = [binding.value for binding in found[1]]
    return all(isinstance(value, ast.Call) and _makes_logger(value) for value in made)


def _makes_logger(call: ast.Call) -> bool:
    """Whether the function is called `getLogger` or `get_logger`."""
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    return name in ("getLogger", "get_logger")


def _shows(node: ast.expr, ctx: Context) -> bool:
    """Whether an argument is a tensor, or an f-string with a tensor in it."""
    if isinstance(node, ast.JoinedStr):
        return any(isinstance(part, ast.FormattedValue) and _shows(part.value, ctx) for part in node.values)
    return ctx.types.of(node).is_traced


def _only_on_failure(node: ast.AST, ctx: Context) -> bool:
    """Whether the string is part of a `raise` or `assert` statement."""
    return any(isinstance(outer, ast.Raise | ast.Assert) for outer in ctx.ancestors(node))


def _debug_print(call: ast.Call, ctx: Context) -> Fix | None:
    pieces: list[str] = []
    values: list[str] = []
    for argument in call.args:
        found = _piece(argument, ctx)
        if found is None:
            return None
        pieces.append(found[0])
        values += found[1]
    imports = ctx.rewrite.imports("import jax", "from torchax import interop")
    if call.keywords or imports is None or not isinstance(ctx.parent(call), ast.Expr):
        return None
    text = " ".join(pieces)
    if '"' in text or "\\" in text or "\n" in text:
        return None
    code = f'interop.call_jax(jax.debug.print, "{text}", {", ".join(values)})'
    title = "replace `print` with `jax.debug.print`, which prints the values at every call"
    return ctx.rewrite.fix(
        title, ctx.rewrite.replace(call, code), *imports, applicability=Applicability.UNSAFE
    )


def _piece(node: ast.expr, ctx: Context) -> tuple[str, list[str]] | None:
    """The part of the format string for one argument, with its tensors; None if it has no such form."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value.replace("{", "{{").replace("}", "}}"), []
    if ctx.types.of(node).is_traced:
        return "{}", [ctx.text(node)]
    if not isinstance(node, ast.JoinedStr):
        return None
    text, values = "", []
    for part in node.values:
        if isinstance(part, ast.Constant):
            text += str(part.value).replace("{", "{{").replace("}", "}}")
            continue
        assert isinstance(part, ast.FormattedValue)
        if not ctx.types.of(part.value).is_traced or part.conversion != -1 or not ctx.is_located(part.value):
            return None
        spec = part.format_spec.values if isinstance(part.format_spec, ast.JoinedStr) else []
        if not all(isinstance(item, ast.Constant) for item in spec):
            return None
        format_ = "".join(str(item.value) for item in spec if isinstance(item, ast.Constant))
        text += f"{{:{format_}}}" if format_ else "{}"
        values.append(ctx.text(part.value))
    return text, values
