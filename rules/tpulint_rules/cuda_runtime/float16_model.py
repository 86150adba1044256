"""Model in float16.

## What it does

In programs that put tensors on a CUDA or torchax device, the rule reports:

- the conversion of a module to float16: `model.half()`, `model.to(torch.float16)` and
  `model.type(torch.half)`;
- the dtype of a new module: `nn.Linear(4, 4, dtype=torch.float16)`;
- the dtype of a loaded model: `from_pretrained(..., torch_dtype=torch.float16)`, also in a dictionary of
  arguments;
- float16 as the default dtype: `torch.set_default_dtype(torch.float16)`.

The rule does not report:

- tensors in float16, which may be data: inputs, files, quantized values;
- a module that is converted to be saved: `{"model": model.half()}`, `model.half().state_dict()`;
- a module that is converted only if a tensor or module is float16: `if model.dtype == torch.float16:`;
- `autocast` and `GradScaler`, which are reported by [TPU206](cuda-mixed-precision.md);
- code that runs only where CUDA is available.

## Why it matters on TPU

A TPU has no float16 arithmetic.
A float16 model works, and its weights take as much memory as in bfloat16, but models with attention are
slower:

- Each operation converts its inputs from float16 to float32, and its result back.
- In bfloat16, the compiler fuses the softmax of an attention with the matrix product after it.
  In float16, it does not.
- With the precision `"highest"`, a matrix product of float16 inputs is compiled to three passes of the matrix
  unit, and one of bfloat16 inputs to a single pass.
  With the default precision, both are compiled to a single pass.
  A single pass multiplies bfloat16 numbers, which have 8 bits of precision.
  So the default precision probably does not use all 11 bits of float16; this was not tested on a TPU.

The TPU compiler estimates these cycles for a forward pass with the runtime torchax-compat:

| model | TPU | float16 | bfloat16 | ratio |
| --- | --- | --- | --- | --- |
| product of matrices of 4096 x 4096 | v5e | 1,121,024 | 1,083,068 | 1.04 |
| | v6e | 347,960 | 301,616 | 1.15 |
| two convolutions with batch normalization | v5e | 368,276 | 344,534 | 1.07 |
| | v6e | 195,449 | 210,946 | 0.93 |
| causal attention, 8 heads of size 64, 512 tokens, batch 8 | v5e | 552,142 | 332,814 | 1.66 |
| | v6e | 244,393 | 106,911 | 2.29 |
| four layers of a transformer of width 512 | v5e | 3,660,248 | 2,665,316 | 1.37 |
| | v6e | 2,025,506 | 1,409,667 | 1.44 |

The program of the transformer reads and writes 1.6 times as many bytes in float16.

Float16 also overflows: values above 65,504 become infinite, and gradients below 6e-8 become zero, so that the
loss has to be scaled.
bfloat16 has the range of float32.
PyTorch computes normalizations, norms and the softmax of attention in float32, and torchax in float16.
For values above 256, normalization layers of torchax then return zeros, `norm` returns infinity, and
attention NaN, without an error.
With the runtime, the results are those of PyTorch.

These results were measured with torch 2.13.0, jax 0.10.2 and libtpu 0.0.42.1, without a TPU.

## Fix safety

The fix replaces float16 with bfloat16 in the whole file: in modules, in their inputs, and in variables that
hold the dtype.
It is unsafe, because bfloat16 has 8 bits of precision, and float16 has 11: results differ in the third digit,
and integers above 256 are rounded.
The fix is not for programs on CUDA, where float16 is as fast.

A finding has a fix only if nothing else in the program can depend on float16:

- The program consists of a single file, computes no gradients, and saves nothing.
- Every use of float16 in the file is the conversion of a module or of a tensor that is known to be floating
  point, or the dtype of a module or of a new tensor of zeros, ones or random numbers.
- The file does not convert tensors to NumPy arrays, unless it converts them to another dtype before.
  NumPy has no bfloat16: `tensor.numpy()` raises `TypeError`.

With `--keep-gpu`, there is no fix.

## Without a fix

Convert the model and its inputs to bfloat16, with `.bfloat16()` or `dtype=torch.bfloat16`.
Write `.float()` before `.numpy()`.
To train, keep the weights in float32, and compute in bfloat16 with `torch.autocast`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.knowledge.tracing import GIVE_MODULE
from tpulint.rules_api import (
    Applicability,
    Change,
    Context,
    Finding,
    Fix,
    Instance,
    Rule,
    Severity,
    Tensor,
    Unknown,
)

rule = Rule(
    "TPU210",
    "model in float16",
    module=__name__,
    fix=Applicability.UNSAFE,
    severity=Severity.SLOW,
    targets=EVERY_TARGET,
)

_FLOAT16 = frozenset({"torch.float16", "torch.half"})
_TENSOR_TYPES = frozenset({"torch.HalfTensor", "torch.cuda.HalfTensor"})
_DEFAULTS = frozenset({"torch.set_default_dtype", "torch.set_default_tensor_type"})
_CONVERSIONS = frozenset({"to", "type"})
_LOADERS = frozenset({"from_pretrained", "from_config", "from_single_file", "pipeline"})
_SAVES = frozenset({"save", "save_pretrained", "save_model", "save_file", "dump", "export", "state_dict"})
#: Calls for gradients, in programs that need not train with them.
_GRADIENTS = frozenset({"backward", "grad"})
#: Factories whose values bfloat16 can hold as well as float16.
_FACTORIES = frozenset(
    f"torch.{name}{like}" for name in ("zeros", "ones", "empty", "rand", "randn") for like in ("", "_like")
)
#: Methods whose results NumPy has a dtype for.
_TO_OTHER_DTYPES = frozenset({"float", "double", "long", "int", "short", "bool", "byte"})
_ARRAYS = frozenset(f"numpy.{name}" for name in ("array", "asarray", "asanyarray", "ascontiguousarray"))
_WHY = "for which a TPU has no arithmetic; attention is faster in bfloat16, which does not overflow"


@rule.on(ast.Call, named={"half", *_CONVERSIONS})
def converted_module(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or ctx.names.qualified(call.func) is not None:
        return
    if not _converts(call, ctx) or not _is_module(call.func.value, ctx):
        return
    if _is_saved(call, ctx) or _is_restored(call, ctx):
        return
    how = "half()" if call.func.attr == "half" else f"{call.func.attr}(...)"
    yield from _found(call, f"`.{how}` makes the model float16", ctx)


@rule.on(ast.Call, passing={"dtype", "torch_dtype"})
def dtype_of_module(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    for word in call.keywords:
        if _makes_module(call, word, ctx) and _is_float16(word.value, ctx):
            yield from _found(word.value, f"`{word.arg}={ctx.text(word.value)}` makes the model float16", ctx)


@rule.on(ast.Constant, named={"torch_dtype"})
def dtype_among_arguments(key: ast.Constant, ctx: Context) -> Iterator[Finding]:
    value = None
    match ctx.parent(key):
        case ast.Subscript(slice=index) as target if index is key:
            statement = ctx.parent(target)
            value = statement.value if isinstance(statement, ast.Assign) else None
        case ast.Dict(keys=keys, values=values) if key in keys:
            value = values[keys.index(key)]
    if value is not None and _is_float16(value, ctx):
        yield from _found(value, "the argument `torch_dtype` makes the model float16", ctx)


@rule.on(ast.Call, named={name.rpartition(".")[2] for name in _DEFAULTS})
def default_dtype(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) not in _DEFAULTS or len(call.args) != 1:
        return
    types = frozenset(ctx.names.default_tensor_types(call))
    if _is_float16(call.args[0], ctx) or (types and types <= _TENSOR_TYPES):
        yield from _found(call, "the default dtype is float16", ctx)


def _found(node: ast.expr, what: str, ctx: Context) -> Iterator[Finding]:
    if ctx.program.serves_device and not ctx.devices.only_with_cuda(node):
        yield ctx.finding(node, f"{what}, {_WHY}", ctx.once(_in_bfloat16))


def _is_float16(node: ast.expr, ctx: Context) -> bool:
    """Whether an expression is float16 for certain, also if a variable holds the dtype."""
    if isinstance(node, ast.Name) and ctx.names.qualified(node) not in _FLOAT16:
        bound = ctx.names.lookup(node.id)
        values = [binding.value for binding in bound[1]] if bound is not None else []
        return bool(values) and all(value is not None and _names_float16(value, ctx) for value in values)
    return _names_float16(node, ctx)


def _names_float16(node: ast.expr, ctx: Context) -> bool:
    return ctx.names.qualified(node) in _FLOAT16


def _converts(call: ast.Call, ctx: Context) -> bool:
    """Whether a method converts to float16."""
    if isinstance(call.func, ast.Attribute) and call.func.attr == "half":
        return not call.args and not call.keywords
    words = (word.value for word in call.keywords if word.arg in ("dtype", "dst_type"))
    return any(_is_float16(argument, ctx) for argument in (*call.args, *words))


def _is_module(node: ast.expr, ctx: Context) -> bool:
    """Whether a receiver is a module, whose class does not define `half` and `to` itself."""
    node = _itself(node)
    kind = ctx.types.of(node)
    if isinstance(kind, Instance) and any(
        ctx.types.defines_method(kind.cls, name) for name in ("half", "to")
    ):
        return False
    return ctx.program.training_steps.is_module(node, ctx.scope)


def _itself(node: ast.expr) -> ast.expr:
    """The module on which methods that return it are called: `net`, of `net.to(device).eval()`."""
    while (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and _last_name(node) in GIVE_MODULE
    ):
        node = node.func.value
    return node


def _makes_module(call: ast.Call, word: ast.keyword, ctx: Context) -> bool:
    """Whether an argument is the dtype of a module that a call creates or loads."""
    if _last_name(call) in _CONVERSIONS:
        return False
    if word.arg == "torch_dtype":
        return True
    return word.arg == "dtype" and (_last_name(call) in _LOADERS or ctx.types.is_module(ctx.types.of(call)))


def _is_saved(call: ast.Call, ctx: Context) -> bool:
    """Whether a module is converted to be saved: as an item of a dictionary, or before it is only saved."""
    around = ctx.parent(call)
    if isinstance(around, ast.Dict) or (isinstance(around, ast.Attribute) and around.attr in _SAVES):
        return True
    if any(isinstance(outer, ast.Call) and _last_name(outer) in _SAVES for outer in ctx.ancestors(call)):
        return True
    statement, model = ctx.statement(call), ctx.text(_itself(call))
    if isinstance(statement, ast.Assign) and statement.value is call and len(statement.targets) == 1:
        model = ctx.text(statement.targets[0])
    nodes = (node for one in ctx.function_body for node in ast.walk(one))
    calls = [one for one in nodes if isinstance(one, ast.Call) and one.lineno > call.lineno]
    using = [one for one in calls if _uses(one, model, ctx) and _last_name(one) not in GIVE_MODULE]
    return bool(using) and all(_last_name(one) in _SAVES for one in using)


def _is_restored(call: ast.Call, ctx: Context) -> bool:
    """Whether a conversion depends on a tensor or module that is float16, also if a variable holds that."""
    tests = [outer.test for outer in ctx.ancestors(call) if isinstance(outer, ast.If)]
    if not tests:
        return False
    nodes = [node for one in ctx.function_body for node in ast.walk(one)]
    assigned = [node for node in nodes if isinstance(node, ast.Assign) and _compares(node.value, ctx)]
    results = {ctx.text(target) for node in assigned for target in node.targets}
    parts = [node for test in tests for node in ast.walk(test) if isinstance(node, ast.expr)]
    return any(_compares(test, ctx) for test in tests) or any(ctx.text(part) in results for part in parts)


def _compares(test: ast.expr, ctx: Context) -> bool:
    """Whether an expression compares the dtype of a tensor or module with float16."""
    comparisons = [node for node in ast.walk(test) if isinstance(node, ast.Compare)]
    sides = [(one.left, *one.comparators) for one in comparisons]
    return any(
        any(isinstance(side, ast.Attribute) and side.attr == "dtype" for side in both)
        and any(_is_float16(side, ctx) for side in both)
        for both in sides
    )


def _uses(call: ast.Call, model: str, ctx: Context) -> bool:
    """Whether a call is one of a module, of a method of it, or gets it as an argument."""
    called = call.func.value if isinstance(call.func, ast.Attribute) else call.func
    return any(ctx.text(_itself(one)) == model for one in (call.func, called, *call.args))


def _last_name(call: ast.Call) -> str:
    return call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")


# the fix


def _in_bfloat16(ctx: Context) -> Fix | None:
    """The fix that replaces float16 in the whole file; None if other code may depend on float16."""
    program = ctx.program
    if program.keeps_cuda or program.asks_gradients or not program.is_single_file:
        return None
    if any(map(ctx.names.has_call, _SAVES | _GRADIENTS)) or _makes_arrays(ctx):
        return None
    imported = {name.rpartition(".")[2] for name in program.file_imports}
    if imported & {"float16", "half"} or any(map(ctx.names.has_string, ("float16", "torch.float16"))):
        return None
    calls = _calls_by_argument(ctx)
    edits: list[Change] = []
    for name in ("half", "float16"):
        for attribute, scope in ctx.names.attributes(name):
            if not _is_replaceable(attribute, calls, ctx.at(scope)):
                return None
            edits.append(ctx.rewrite.rename(attribute, "bfloat16"))
    title = "replace float16 with bfloat16 in this file"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


_Calls = Mapping[ast.expr, tuple[ast.Call, Context]]


def _calls_by_argument(ctx: Context) -> _Calls:
    """The calls of the file, by their arguments."""
    return {
        argument: (call, ctx.at(scope))
        for call, scope in ctx.names.all_calls()
        for argument in (*call.args, *(word.value for word in call.keywords))
    }


def _is_replaceable(attribute: ast.Attribute, calls: _Calls, ctx: Context) -> bool:
    """Whether an attribute converts to float16, or is the dtype in code that works the same in bfloat16."""
    outer = ctx.parent(attribute)
    if ctx.names.qualified(attribute) not in _FLOAT16:
        return isinstance(outer, ast.Call) and outer.func is attribute and _converts_floats(outer, ctx)
    if not isinstance(outer, ast.Assign):
        return _is_dtype_argument(attribute, calls)
    target = outer.targets[0]
    if (
        len(outer.targets) > 1
        or not isinstance(target, ast.Name)
        or len(ctx.names.assigned_values(target)) > 1
    ):
        return False
    is_elsewhere = ctx.program.is_imported_elsewhere(target.id)
    return not is_elsewhere and all(_is_dtype_argument(load, calls) for load in ctx.names.loads(target.id))


def _is_dtype_argument(node: ast.expr, calls: _Calls) -> bool:
    """Whether an expression is the dtype to which a call converts, or in which it creates something."""
    if node not in calls:
        return False
    call, ctx = calls[node]
    if _last_name(call) in _CONVERSIONS:
        return _converts_floats(call, ctx)
    words = [word for word in call.keywords if word.value is node]
    is_factory = ctx.names.qualified(call.func) in _FACTORIES
    return any(_makes_module(call, word, ctx) or (is_factory and word.arg == "dtype") for word in words)


def _converts_floats(call: ast.Call, ctx: Context) -> bool:
    """Whether a call converts a module, or a tensor that does not hold integers, to float16."""
    assert isinstance(call.func, ast.Attribute)
    kind = ctx.types.of(call.func.value)
    is_float = isinstance(kind, Tensor) and kind.dtype == "float"
    return _converts(call, ctx) and (is_float or _is_module(call.func.value, ctx))


def _makes_arrays(ctx: Context) -> bool:
    """Whether the file may convert a tensor of bfloat16 to a NumPy array, which raises."""
    for call, _ in ctx.calls("numpy"):
        assert isinstance(call.func, ast.Attribute)
        inner = [node for node in ast.walk(call.func.value) if isinstance(node, ast.Call)]
        if not any(_last_name(one) in _TO_OTHER_DTYPES for one in inner):
            return True
    for call, scope in ctx.names.calls_of(_ARRAYS):
        kinds = [ctx.at(scope).types.of(argument) for argument in call.args]
        if any(isinstance(kind, Tensor | Unknown) for kind in kinds):
            return True
    return False
