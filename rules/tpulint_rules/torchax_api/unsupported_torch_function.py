"""Function that raises, does nothing, or gives wrong results under torchax.

## What it does

In any program, the rule reports these functions:

- `torch.func.jacrev`, `jacfwd` and `hessian`, and all functions of `torch.autograd.functional`;
- `torch.cond`;
- `torch.random.fork_rng()` without devices;
- `torchax.amp.autocast`;
- `torchax.interop.jax_jit` of a module;
- `Function.apply` of a `torch.autograd.Function` with its own `backward`, in code that `jax_value_and_grad`
  differentiates.

In programs that put tensors on a CUDA or torchax device, the rule also reports `torch.inference_mode`, unless
the program imports the runtime torchax-compat.

Traced code is code that JAX traces to compile it, such as a model's `forward`.
In traced code, and in programs that put tensors on a CUDA or torchax device, the rule also reports:

- `torch.Tensor(2, 3)` with sizes;
- `x.new_tensor(...)` and `x.new([...])`;
- `torch.tensor(t)` of a device tensor;
- `torch.as_tensor(t, dtype=..., device=...)` of a tensor;
- `torch.tensor(array, device=...)` without `dtype=`, if `array` is a NumPy array whose dtype is known and is
  not floating-point;
- outside traced code, `torch.tensor([a, b])` of device tensors without `device=`.

## Why it matters on TPU

Derivatives:

- `torch.func.jacrev` and `jacfwd` of torchax tensors return all zeros, without an error or a warning, eagerly
  and under `jax_jit`.
- `torch.autograd.functional.jacobian` and `hessian` of torchax tensors return all zeros, too.
- `torch.autograd.functional.vjp`, `jvp`, `vhp` and `hvp` return zeros if the outputs depend on the inputs
  through `F.linear`, which `nn.Linear` calls.
- `torch.func.hessian` raises
  `OperatorNotFound: Operator with name aten::_efficientzerotensor has no lowering` or
  `RuntimeError: Cannot access data pointer of Tensor that doesn't have storage`.
- `jax_value_and_grad` ignores the `backward` of a `torch.autograd.Function`, without an error, and
  differentiates the computation in `forward`.
  For straight-through rounding and similar functions, the gradients are then zero.

Control flow, random state and modes:

- Inside the torchax environment, `torch.cond` raises
  `NotImplementedError: There was no rule registered for HigherOrderOperator cond and mode XLADispatchMode`.
  Outside the torchax environment, but after `import torchax`, `torch.cond` raises
  `InternalTorchDynamoError: RuntimeError: PyTorch is not linked with support for jax devices`.
- With torch 2.13, after `import torchax`, `torch.random.fork_rng()` raises
  `TypeError: get_rng_state() takes 0 positional arguments but 1 was given`.
- Under `torch.inference_mode()`, many operations fail: PyTorch passes composite operations to torchax without
  splitting them into simpler ones, and torchax implements only the simpler ones.
  Convolutions, normalization, recurrent layers, `cross_entropy`, `F.normalize`, `chunk`, `square` and many
  more then raise one of these errors:
  - `OperatorNotFound: Operator with name aten::batch_norm has no lowering`
  - `TypeError: _aten_conv2d() missing 4 required positional arguments`
  - `RuntimeError: Cannot set version_counter for inference tensor`

  Of 108 layers and functions that were tried, 43 raised under `torch.inference_mode()`.
  One of these 43 also raised under `torch.no_grad()`.
- `torchax.amp.autocast` converts `mm` and `matmul`, but leaves `nn.Linear`, `F.linear` and convolutions in
  float32, without an error.

New tensors:

- `x.new_tensor([1.0, 2.0])` and `x.new([1.0, 2.0])` of a device tensor create a tensor without data.
  Operations on the new tensor raise
  `AssertionError: Expect a Tensor or a View but got <class 'torch.Tensor'>` or
  `NotImplementedError: Cannot copy out of meta tensor; no data!`.
  In contrast, `new_zeros`, `new_ones`, `new_full` and `x.new(2, 3)` are correct.
- `torch.tensor(t)` of a device tensor creates a tensor without data, too, and often raises
  `RuntimeError: Tensor.item() cannot be called on meta tensors`.
  In contrast, `torch.as_tensor(t)`, `torch.tensor(t, device=...)` and `x.new_tensor(t)` are correct.
- `torch.as_tensor(t, dtype=torch.int32, device="jax")` raises
  `RuntimeError: Attempting to convert unknown type: int32 to jax type`.
  In contrast, `torch.as_tensor` is correct if only one of `dtype` and `device` is passed, or if the data is a
  list or an array.
- Older layers create parameters with `torch.Tensor(2, 3)`.
  Inside the torchax environment, this call always raises, for CPU tensors, too.
  The error is `AttributeError: 'int' object has no attribute 'shape'` or
  `TypeError: Tensor.__init__() missing 1 required positional argument: 'env'`.
  In contrast, `torch.Tensor([2, 3])` is correct.
- `torch.tensor(array, device="jax")` creates a float32 tensor for an array of any dtype, without an error.
  If the program uses this tensor as an index, torchax raises `ValueError: indices must have an integer type`
  or `TypeError: Indexer must have integer or boolean type`.
  In contrast, `torch.as_tensor` and `torch.tensor(array).to("jax")` keep the dtype.

Modules under `jax_jit`:

- `jax_jit(module)` calls the module with JAX arrays, so `nn.Linear` raises
  `TypeError: linear(): argument 'input' (position 1) must be Tensor, not DynamicJaxprTracer`.
- A transform of `torchvision.transforms.v2` does not recognize JAX arrays as images.
  Under `jax_jit`, such a transform returns its input unchanged, without an error.

These results were measured with torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2.
`torch.func.grad`, `torch.func.vjp` and `torch.func.functional_call` are correct.

## Fix safety

The following fixes are safe:

- The fix replaces `torch.inference_mode` with `torch.no_grad`, which computes the same results.
  Tensors that are created under `torch.no_grad` can be used wherever tensors that are created under
  `torch.inference_mode` can be used.
- The fix adds the dtype of the array to `torch.tensor(array, ...)`.
- The fix replaces `torch.Tensor(2, 3)` with `torch.empty(2, 3)`, which does the same.
- The fix replaces `x.new_tensor(data)` with `torch.tensor(data, dtype=x.dtype, device=x.device)`.
  This fix is safe only if the data is a literal.
- The fix replaces `torch.as_tensor(t, dtype=d, device=e)` with `t.to(device=e, dtype=d)`, which does the
  same.
- The fix replaces `torch.tensor(t)` with `t.detach().clone()`, as PyTorch itself recommends.

The following fixes are unsafe:

- In a program that puts tensors on a CUDA or torchax device, the fix for `torch.func` and
  `torch.autograd.functional` adds the runtime torchax-compat.
  With the runtime, JAX computes the derivatives of `torch.func` and `torch.autograd.functional`.
  With `create_graph=True`, the results of `torch.autograd.functional` have an autograd graph only inside a
  function that is decorated with `@differentiable` of the runtime.
- In other programs, the fix converts `f` in `torch.func.jacrev(f)` to a JAX function, and passes this
  function to `jax.jacrev`.
  JAX traces `f`: code in `f` that branches on the value of a tensor, or creates CPU tensors, raises.
  The tensors that are passed to `f` must be torchax tensors.
- The fix replaces `torch.cond` with `jax.lax.cond`.
  JAX traces both branches: code that branches on the value of a tensor, or creates CPU tensors, raises there.
  The tensors that are passed to the branches must be torchax tensors.
- The fix replaces `fork_rng()` with `fork_rng(devices=[])`, which restores only the random state of the CPU.
  To restore the random state of the device, too, store `torchax.default_env().prng_key` in a variable, and
  set `prng_key` to the stored value afterwards.
- If `a` and `b` are scalar tensors, the fix replaces `torch.tensor([a, b])` with `torch.stack([a,
  b]).detach().cpu()`.
  The result is a CPU tensor, as in a program that runs on a GPU.
- The fix replaces `jax_jit(module)` with `torchax.compile(module)`, which passes parameters and buffers as
  inputs.
  If the module updates statistics, such as those of batch normalization, the statistics keep their old
  values.
- For a custom `backward`, the fix only adds the runtime.
  JAX then calls the custom `backward` instead of differentiating `forward`.
  JAX must be able to trace the custom `backward`.

## Without a fix

- Instead of `torchax.amp.autocast`, keep the weights in bfloat16: call `model.to(torch.bfloat16)` before the
  model is moved to the device.
- For a derivative with `has_aux` or `chunk_size`, call `jax.jacrev` yourself, as in
  `torchax.interop.torch_view(jax.jacrev(torchax.interop.jax_view(f), has_aux=True))`.
- If the operands of `torch.cond` are not a literal tuple or list, call
  `torchax.interop.torch_view(jax.lax.cond)` yourself, and pass the operands as separate arguments.
- If the mode in `torch.inference_mode(mode)` is computed, write `torch.no_grad()` or
  `torch.set_grad_enabled(not mode)` instead.
- If the device tensors in `torch.tensor([a, b])` are not known to be scalars, write `torch.stack([a, b])`
  instead.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.tracing import AUTOGRAD_FUNCTIONS
from tpulint.knowledge.transforms import AT_INPUTS, BRANCHES, FORKS, JACOBIANS
from tpulint.rules_api import Applicability, Certainty, Context, Finding, Fix, Rule, Static, Tensor, Unknown
from tpulint.rules_api.syntax import dotted

rule = Rule(
    "TPU902",
    "function that raises, does nothing, or gives wrong results under torchax",
    module=__name__,
    former=("broken-by-torchax",),
    fix=Applicability.SAFE,
)

_GRADIENTS = "jax_value_and_grad"
_BY_JAX = f"add the runtime {DISTRIBUTION}, which computes the derivative with JAX"


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in JACOBIANS))
def jacobian(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in JACOBIANS or ctx.program.runtime_handles("derivatives of `torch.func`", name):
        return
    fix = None
    if _has_program(ctx):
        fix = ctx.rewrite.runtime_fix(_BY_JAX)
    elif len(call.args) == 1 and {word.arg for word in call.keywords} <= {"argnums"}:
        argnums = "".join(f", argnums={ctx.text(word.value)}" for word in call.keywords)
        function = f"torchax.interop.jax_view({ctx.text(call.args[0])})"
        new = f"jax.{name.rpartition('.')[2]}"
        fix = _replaced(call, f"torchax.interop.torch_view({new}({function}{argnums}))", new, ctx)
    yield ctx.finding(call, f"`{name}` {JACOBIANS[name]}", fix)


def _has_program(ctx: Context) -> bool:
    """Whether the file belongs to the program of a script, which uses a device."""
    return ctx.program.serves_device and ctx.program.is_of_script


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in AT_INPUTS))
def at_inputs(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in AT_INPUTS or ctx.program.runtime_handles(
        "derivatives of `torch.autograd.functional`", name
    ):
        return
    fix = None
    does, new = AT_INPUTS[name]
    if _has_program(ctx):
        fix = ctx.rewrite.runtime_fix(_BY_JAX)
    elif new and len(call.args) == 2 and not call.keywords and ctx.types.of(call.args[1]).is_tensor:
        function, at = (ctx.text(argument) for argument in call.args)
        text = f"torchax.interop.torch_view({new}(torchax.interop.jax_view({function})))({at})"
        fix = _replaced(call, text, new, ctx)
    yield ctx.finding(call, f"`{name}` {does}", fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in BRANCHES))
def branch(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in BRANCHES:
        return
    fix = None
    operands = call.args[3] if len(call.args) == 4 else None
    if not call.keywords and (len(call.args) == 3 or isinstance(operands, ast.Tuple | ast.List)):
        rest = operands.elts if isinstance(operands, ast.Tuple | ast.List) else []
        arguments = ", ".join(ctx.text(argument) for argument in (*call.args[:3], *rest))
        new = BRANCHES[name]
        fix = _replaced(call, f"torchax.interop.torch_view({new})({arguments})", new, ctx)
    message = f"`{name}` raises under torchax"
    if fix is None:
        message = f"{message}; use `{BRANCHES[name]}` instead"
    yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named=frozenset(name.rpartition(".")[2] for name in FORKS))
def fork(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) in FORKS and not call.args and not call.keywords:
        edit = ctx.rewrite.add_argument(call, "devices=[]")
        title = "add `devices=[]`, so that `fork_rng` restores only the random state of the CPU"
        fix = ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)
        yield ctx.finding(call, "`fork_rng()` raises after `import torchax`", fix)


@rule.on(ast.Call, named={"inference_mode"})
def inference(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    values = (*call.args, *(word.value for word in call.keywords))
    if any(isinstance(value, ast.Constant) and value.value is False for value in values):
        return  # it is switched off
    is_on = all(isinstance(value, ast.Constant) and value.value is True for value in values)
    yield from _inference(call, call.func, "torch.no_grad()" if is_on else None, ctx)


@rule.on(ast.Attribute, named={"inference_mode"})
def inference_itself(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    if not (isinstance(outer, ast.Call) and outer.func is node):
        yield from _inference(node, node, "torch.no_grad", ctx)


def _inference(node: ast.expr, function: ast.expr, new: str | None, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(function) != "torch.inference_mode" or not ctx.program.serves_device:
        return
    if ctx.program.runtime_handles("inference mode"):
        return
    imports = ctx.rewrite.imports("import torch")
    fix = None
    if new is not None and imports is not None:
        edit = ctx.rewrite.replace(node, new)
        title = "replace `torch.inference_mode` with `torch.no_grad`"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.SAFE)
    message = (
        "under `torch.inference_mode`, convolutions, normalization and many other operations raise on torchax"
    )
    yield ctx.finding(node, message, fix)


@rule.on(ast.Call, named={"autocast"})
def autocast(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) == "torchax.amp.autocast":
        message = (
            "`torchax.amp.autocast` leaves `nn.Linear` and convolutions in float32; "
            "convert the model with `.to(torch.bfloat16)` instead"
        )
        yield ctx.finding(call, message)


@rule.on(ast.Call, named={"new_tensor"})
def without_data(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or ctx.names.qualified(call.func) is not None:
        return
    tensor = call.func.value
    if _is_other(tensor, ctx) or not _may_be_in_environment(call, ctx):
        return
    if call.args and ctx.types.of(call.args[0]).is_tensor:
        return  # which works
    fix = _made_alike(call, tensor, ctx)
    if fix is None and ctx.program.runtime_handles("`new_tensor`"):
        return
    message = "`new_tensor` creates a tensor without data under torchax; operations on this tensor raise"
    yield ctx.finding(call, message, fix)


@rule.on(
    ast.Call, named={"new"}, where=lambda call: [type(one) for one in call.args] in ([ast.List], [ast.Tuple])
)
def of_list(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    """`x.new([1.0, 2.0])`; of sizes, and of an array, it works."""
    if not isinstance(call.func, ast.Attribute) or not ctx.types.of(call.func.value).is_tensor:
        return
    if not _is_other(call.func.value, ctx) and _may_be_in_environment(call, ctx):
        message = (
            "`new` with a list creates a tensor without data under torchax; operations on this tensor raise"
        )
        yield ctx.finding(call, message, _made_alike(call, call.func.value, ctx))


@rule.on(ast.Call, named={"tensor"})
def copied(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = {word.arg: ctx.text(word.value) for word in call.keywords}
    if len(call.args) != 1 or given.keys() & {"device", None}:
        return
    if ctx.names.qualified(call.func) != "torch.tensor" or ctx.devices.only_with_cuda(call):
        return
    data = call.args[0]
    message = (
        "`torch.tensor` of the device tensor `{}` creates a tensor without data under torchax; "
        "operations on this tensor raise"
    )
    if _is_on_device(data, ctx) and not _is_maybe_list(data, ctx):
        code = f"{ctx.rewrite.operand(data)}.detach().clone()"
        code += f".to({given['dtype']})" if "dtype" in given else ""
        code += f".requires_grad_({given['requires_grad']})" if "requires_grad" in given else ""
        title = "replace `torch.tensor` with `detach().clone()`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call, code)) if "pin_memory" not in given else None
        yield ctx.finding(call, message.format(ctx.text(data)), fix)
    elif isinstance(data, ast.List | ast.Tuple) and ctx.trace.path is None and _all_on_device(data, ctx):
        message = message.replace("device tensor", "device tensors")
        yield ctx.finding(call, message.format(ctx.text(data)), _stacked(call, data, ctx))


@rule.on(ast.Call, named={"as_tensor"})
def as_another(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = {word.arg: word.value for word in call.keywords}
    if ctx.names.qualified(call.func) != "torch.as_tensor" or len(call.args) != 1:
        return
    data = call.args[0]
    if given.keys() != {"dtype", "device"} or not ctx.types.of(data).is_tensor or _is_maybe_list(data, ctx):
        return
    if ctx.devices.may_be_made_on_device(call) and _may_be_in_environment(call, ctx):
        code = ", ".join(f"{name}={ctx.text(given[name])}" for name in ("device", "dtype"))
        title = "replace `torch.as_tensor` with `.to(device=..., dtype=...)`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call, f"{ctx.rewrite.operand(data)}.to({code})"))
        message = "under torchax, `torch.as_tensor` of a tensor raises if both `dtype` and `device` are given"
        yield ctx.finding(call, message, fix)


@rule.on(ast.Call, named={"tensor"})
def of_array(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.tensor" or len(call.args) != 1:
        return
    if {word.arg for word in call.keywords} & {"dtype", None}:
        return
    dtype = ctx.types.dtype_of_array(call.args[0])
    if dtype is None or not ctx.devices.may_be_made_on_device(call):
        return
    imports = ctx.rewrite.imports("import torch")
    if imports is not None and _may_be_in_environment(call, ctx):
        edit = ctx.rewrite.add_argument(call, f"dtype={dtype}", 1)
        message = (
            f"under torchax, `torch.tensor` makes a float32 tensor of this `{dtype}` data, without an error"
        )
        yield ctx.finding(
            call, message, ctx.rewrite.fix(f"add `dtype={dtype}` to `torch.tensor`", edit, *imports)
        )


@rule.on(ast.Call, named={"jax_jit"})
def jitted_module(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torchax.interop.jax_jit" or not call.args:
        return
    if not ctx.types.is_module(ctx.types.of(call.args[0])) and not _is_transform(call.args[0], ctx):
        return
    fix, imports = None, ctx.rewrite.imports("import torchax")
    if len(call.args) == 1 and not call.keywords and imports is not None:
        edit = ctx.rewrite.replace(call.func, "torchax.compile")
        title = "replace `jax_jit` with `torchax.compile`, which accepts a module"
        fix = ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
    yield ctx.finding(call, "`jax_jit` passes JAX arrays to the module, but the module expects tensors", fix)


@rule.on(ast.Attribute, named={"apply"})
def own_gradient(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    cls = ctx.names.qualified(node.value) or ""
    if not ctx.types.defines_class(cls) or AUTOGRAD_FUNCTIONS.isdisjoint(ctx.types.ancestors(cls)):
        return
    path = ctx.trace.path_to(f"{cls}.forward")
    if path is None or _GRADIENTS not in path.steps[0].label or not ctx.types.defines_method(cls, "backward"):
        return
    if ctx.program.runtime_handles("custom `backward` under transforms of JAX"):
        return
    name = ctx.text(node.value)
    message = f"JAX differentiates `{name}.forward` itself and never calls `{name}.backward`"
    title = f"add the runtime {DISTRIBUTION}, which makes JAX call `{name}.backward`"
    fix = ctx.rewrite.runtime_fix(title)
    yield ctx.finding(node, message, fix)


def _is_transform(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is a transform of `torchvision.transforms.v2`, which is a module."""
    values = ctx.names.assigned_values(node) if isinstance(node, ast.Name | ast.Attribute) else [node]
    if len(values) != 1 or not isinstance(values[0], ast.Call):
        return False
    name = ctx.names.qualified(values[0].func) or ""
    return name.startswith("torchvision.transforms.v2.") and name.rpartition(".")[2][:1].isupper()


def _is_on_device(node: ast.expr, ctx: Context) -> bool:
    """Whether the value is known to be a tensor that may be on the device."""
    return ctx.types.of(node).is_traced and (ctx.trace.path is not None or ctx.program.serves_device)


def _all_on_device(data: ast.List | ast.Tuple, ctx: Context) -> bool:
    """Whether all elements are known to be tensors that may be on the device."""
    return bool(data.elts) and all(_is_on_device(item, ctx) for item in data.elts)


def _is_maybe_list(data: ast.expr, ctx: Context) -> bool:
    """Whether the tensor is a parameter that may also receive a list."""
    if not ctx.names.is_parameter(data) or not isinstance(data, ast.Name):
        return False
    path = ctx.trace.path
    if path is not None and path.certainty is Certainty.JIT:
        return False
    kinds = [there.types.of(value) for value, there in ctx.passed(data)]
    return not kinds or not all(kind.is_tensor for kind in kinds)


def _stacked(call: ast.Call, data: ast.List | ast.Tuple, ctx: Context) -> Fix | None:
    kinds = [kind for item in data.elts if isinstance(kind := ctx.types.of(item), Tensor) and kind.scalar]
    torch, dot, _ = ctx.text(call.func).rpartition(".")
    if call.keywords or len(kinds) < len(data.elts) or len({kind.dtype for kind in kinds}) > 1 or not dot:
        return None
    edit = ctx.rewrite.replace(call, f"{torch}.stack({ctx.text(data)}).detach().cpu()")
    title = "replace `torch.tensor` with `torch.stack(...).detach().cpu()`"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


@rule.on(ast.Call, named={"Tensor"})
def of_sizes(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.Tensor" or call.keywords or not call.args:
        return
    first = call.args[0]
    if len(call.args) == 1 and not isinstance(first, ast.Starred) and not _is_integer(first, ctx):
        return
    if not _may_be_in_environment(call, ctx):
        return
    imports = ctx.rewrite.imports("import torch")
    fix = None
    if imports is not None:
        title = "replace `torch.Tensor` with `torch.empty`"
        fix = ctx.rewrite.fix(title, ctx.rewrite.replace(call.func, "torch.empty"), *imports)
    yield ctx.finding(
        call, "`torch.Tensor(...)` with sizes as arguments raises in the torchax environment", fix
    )


def _is_integer(node: ast.expr, ctx: Context) -> bool:
    """Whether the argument is known to be an integer."""
    kind = ctx.types.of(node)
    return isinstance(kind, Static) and type(kind.value) is int


def _may_be_in_environment(call: ast.Call, ctx: Context) -> bool:
    """Whether the code may run in the torchax environment, and not only with CUDA."""
    return (ctx.trace.path is not None or ctx.program.serves_device) and not ctx.devices.only_with_cuda(call)


def _is_other(tensor: ast.expr, ctx: Context) -> bool:
    """Whether the value is known to be on the CPU, or not to be a tensor."""
    kind = ctx.types.of(tensor)
    return kind.is_host if isinstance(kind, Tensor) else not isinstance(kind, Unknown)


def _made_alike(call: ast.Call, tensor: ast.expr, ctx: Context) -> Fix | None:
    """The fix that uses `torch.tensor` with the dtype and device of the tensor; None if it has no name."""
    imports = ctx.rewrite.imports("import torch")
    if imports is None or dotted(tensor) is None or len(call.args) != 1:
        return None
    named = {word.arg for word in call.keywords}
    if None in named:
        return None
    given = [ctx.text(call.args[0]), *(f"{word.arg}={ctx.text(word.value)}" for word in call.keywords)]
    given += [f"{name}={ctx.text(tensor)}.{name}" for name in ("dtype", "device") if name not in named]
    is_written = isinstance(call.args[0], ast.List | ast.Tuple | ast.Constant)
    applicability = Applicability.SAFE if is_written else Applicability.UNSAFE
    edit = ctx.rewrite.replace(call, f"torch.tensor({', '.join(given)})")
    name = call.func.attr if isinstance(call.func, ast.Attribute) else "new_tensor"
    title = f"replace `{name}` with `torch.tensor`, with the dtype and device of `{ctx.text(tensor)}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=applicability)


def _replaced(call: ast.Call, text: str, new: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import jax", "import torchax")
    if imports is None:
        return None
    edit = ctx.rewrite.replace(call, text)
    title = f"replace `{ctx.text(call.func)}` with `{new}`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
