"""Check whether a device of JAX is a GPU.

## What it does

Reports comparisons of `jax.default_backend()`, or of the attribute `platform` of a device, with a GPU
platform (`gpu`, `cuda` or `rocm`).

A device is an item of `jax.devices()` or `jax.local_devices()`, or a parameter with the annotation
`jax.Device`.

The rule does not report a comparison in these cases:

- The function also compares with `tpu`.
- The condition, or another one of the same `if`, compares with `cpu`, so that what is left is a TPU.
- The program refuses to run on a GPU.

## Why it matters on TPU

On a TPU, the platform is `tpu`, so the comparison is false.
Usually, the program then continues on the CPU, or says that there is no accelerator, without an error.

## Fix safety

The fix compares with `"cpu"` instead, which is true for a GPU and for a TPU.
The fix is unsafe: the code that depends on the comparison then runs on a TPU, too.
Look for code in it that only works on a GPU.

## Without a fix

In a file that imports kernels for GPUs, such as those of Triton, the comparison has no fix, because it may
guard the kernels.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import GPU_KERNELS, GPUS, PALLAS_ON_GPU
from tpulint.rules_api import Applicability, Context, Finding, Fix, FunctionNode, Rule
from tpulint.rules_api.syntax import parameters

rule = Rule(
    "JAX104",
    "check whether a device of JAX is a GPU",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_BACKEND = "jax.default_backend"
_LISTS = frozenset({"jax.devices", "jax.local_devices"})
_BACKENDS = frozenset({"jax.extend.backend.get_backend", "jax.lib.xla_bridge.get_backend"})
_CLASSES = frozenset({"jax.Device", "jaxlib.xla_extension.Device"})
_OPERATORS = {ast.Eq: "!=", ast.In: "!=", ast.NotEq: "==", ast.NotIn: "=="}


def _names_gpu(node: ast.Constant) -> bool:
    return isinstance(node.value, str)


@rule.on(ast.Constant, named=GPUS, where=_names_gpu)
def check(node: ast.Constant, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    listed = outer if isinstance(outer, ast.Tuple | ast.List | ast.Set) else None
    compare = ctx.parent(listed) if listed is not None else outer
    if not isinstance(compare, ast.Compare) or len(compare.ops) != 1:
        return
    left, right = compare.left, compare.comparators[0]
    if right is not (listed or node):
        left, right = right, left
    names = _names(right)
    if not names <= GPUS or (listed is not None and listed.elts[0] is not node):
        return
    operator = _OPERATORS.get(type(compare.ops[0]))
    if operator is None or not _is_platform(left, ctx) or ctx.names.has_string_nearby("tpu"):
        return
    if _asks_for_cpu(compare, ctx) or (operator == "!=" and _is_refused(compare, ctx)):
        return
    fix = (
        None
        if _has_kernels(ctx)
        else _fix(compare, f"{ctx.text(left)} {operator} {ctx.rewrite.quoted('cpu', node)}", ctx)
    )
    message = f"`{ctx.text(compare)}` does not hold on a TPU, whose platform is `tpu`"
    if operator == "==":
        message = f"`{ctx.text(compare)}` holds on a TPU, as on the CPU, since its platform is `tpu`"
    yield ctx.finding(compare, message, fix)


def _names(node: ast.expr) -> set[str]:
    parts = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return {str(part.value) if isinstance(part, ast.Constant) else "" for part in parts}


def _is_platform(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is the platform of a device, or the default one."""
    match node:
        case ast.Call(func=ast.Attribute(value=inner, attr="lower"), args=[]):
            return _is_platform(inner, ctx)
        case ast.Call():
            return ctx.names.qualified(node.func) == _BACKEND
        case ast.Attribute(attr="platform", value=owner):
            return _is_device(owner, ctx)
        case ast.Name():
            values = ctx.names.assigned_values(node)
            return bool(values) and all(
                not isinstance(value, ast.Name) and _is_platform(value, ctx) for value in values
            )
    return False


def _is_device(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is known to be a device of JAX, or a client of one platform."""
    match node:
        case ast.Call():
            return ctx.names.qualified(node.func) in _BACKENDS
        case ast.Subscript(value=listed):
            return _are_devices(listed, ctx)
        case ast.Name(id=name):
            if any(_are_devices(listed, ctx) for listed in _looped_over(name, node, ctx)):
                return True
            annotation = _annotation(name, ctx)
            if annotation is not None and ctx.names.qualified(annotation) in _CLASSES:
                return True
    values = ctx.names.assigned_values(node)
    return bool(values) and all(
        not isinstance(value, ast.Name | ast.Attribute) and _is_device(value, ctx) for value in values
    )


def _are_devices(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is known to be a list of devices of JAX."""
    match node:
        case ast.Call():
            return ctx.names.qualified(node.func) in _LISTS
        case ast.ListComp(elt=ast.Name(id=name), generators=[one]):
            return isinstance(one.target, ast.Name) and one.target.id == name and _are_devices(one.iter, ctx)
    values = ctx.names.assigned_values(node) if isinstance(node, ast.Name | ast.Attribute) else []
    return bool(values) and all(
        not isinstance(value, ast.Name | ast.Attribute) and _are_devices(value, ctx) for value in values
    )


def _looped_over(name: str, node: ast.expr, ctx: Context) -> Iterator[ast.expr]:
    """What loops around a node take the values of a name from."""
    for outer in ctx.ancestors(node):
        if isinstance(outer, ast.For):
            loops: list[ast.For | ast.comprehension] = [outer]
        else:
            loops = list(getattr(outer, "generators", ()))
        for loop in loops:
            if isinstance(loop.target, ast.Name) and loop.target.id == name:
                yield loop.iter


def _annotation(name: str, ctx: Context) -> ast.expr | None:
    """The annotation of a parameter of the function."""
    function = ctx.scope.function
    if function is None or not isinstance(function.node, FunctionNode):
        return None
    return next((one.annotation for one in parameters(function.node) if one.arg == name), None)


def _has_kernels(ctx: Context) -> bool:
    """Whether the file uses kernels for GPUs, which the comparison may guard."""
    return any(
        name.partition(".")[0] in GPU_KERNELS or name.startswith(PALLAS_ON_GPU)
        for name in ctx.program.file_imports
    )


def _asks_for_cpu(compare: ast.Compare, ctx: Context) -> bool:
    """Whether the same condition, or another one of the same `if`, compares with the CPU.

    What is left is then a TPU.
    """
    tests: list[ast.AST] = []
    for outer in ctx.ancestors(compare):
        if isinstance(outer, ast.BoolOp):
            tests.append(outer)
        elif isinstance(outer, ast.If):
            while len(outer.orelse) == 1 and isinstance(outer.orelse[0], ast.If):
                outer = outer.orelse[0]
                tests.append(outer.test)
            break
        elif isinstance(outer, ast.stmt):
            break
    return any(
        isinstance(part, ast.Constant) and part.value == "cpu" for test in tests for part in ast.walk(test)
    )


def _is_refused(compare: ast.Compare, ctx: Context) -> bool:
    """Whether the code that is reached on a GPU only raises, since it does not support GPUs."""
    outer = ctx.parent(compare)
    while isinstance(outer, ast.BoolOp):
        outer = ctx.parent(outer)
    return isinstance(outer, ast.If) and isinstance(outer.body[-1], ast.Raise)


def _fix(compare: ast.Compare, code: str, ctx: Context) -> Fix:
    edit = ctx.rewrite.replace(compare, code)
    title = 'compare with `"cpu"`, so that a TPU counts as an accelerator'
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE, serves_cuda=True)
