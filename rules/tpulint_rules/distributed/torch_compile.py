"""Compilation by torch (`torch.compile`, `torch.jit.trace`).

## What it does

Reports:

- `torch.compile(...)`, as a call or as a decorator;
- `module.compile(...)` of a `torch.nn.Module`;
- `torch.jit.trace(...)` with a device tensor.

Calls with `disable=True`, and code that runs only where CUDA is available, are not reported.

## Why it matters on TPU

- Inside the torchax environment, `torch.compile` compiles nothing, without an error, whatever its backend or
  mode.
  The program runs one operation at a time (eagerly), which is much slower on TPU than a compiled program.
- Inside the torchax environment, `torch.compile` with `fullgraph=True` raises `RuntimeError: torch.compile
  with fullgraph=True found no compiled frames. Skipped frames: ... non-infra torch dispatch mode present,
  this is not supported today in torch.compile`.
- Outside the environment, but after `import torchax`, `torch.compile` raises `InternalTorchDynamoError:
  RuntimeError: PyTorch is not linked with support for jax devices`.
- `torch.jit.trace` records no operations on torchax tensors.
  The check that `torch.jit.trace` runs afterwards raises `TracingCheckError: Tracing failed sanity checks!
  ... Tensor-valued Constant nodes differed in value across invocations`.
  `torch.jit.trace` still works for CPU tensors, and the result of `torch.jit.script` also runs on torchax.

`torchax.compile` compiles a module or a function to one XLA program, once for each new shape.

## Fix safety

The fix is unsafe.

In a program that does not train, the fix replaces `torch.compile(x, ...)` with `torchax.compile(x)`.
In a file that saves nothing, the fix replaces `torch.jit.trace(x, ...)` with `torchax.compile(x)`.
The fix removes the backend and the mode, because XLA does not use them.
`torchax.compile` differs from `torch.compile` in the following ways:

- `torchax.compile` traces the code.
  Code that branches on the value of a tensor, or that creates tensors on the host, raises.
  `torch.compile` breaks the graph at such code instead of raising.
- A module must be on the device before `torchax.compile` compiles it.
- The keys in the `state_dict()` of a compiled module begin with `_model.`; with `torch.compile`, they begin
  with `_orig_mod.`.
- `.backward()` through a compiled module raises `element 0 of tensors does not require grad`.
  To train, compile a whole step with `torchax.interop.jax_value_and_grad` or `torchax.train.make_train_step`.
- In a compiled function, a Python scalar argument becomes an array, and a string argument raises `TypeError`.
  Declare scalar and string arguments as static, with `torchax.interop.jax_jit(f,
  kwargs_for_jax_jit={"static_argnames": (...)})`.

In the following cases, the fix only removes `torch.compile` and adds no `torchax.compile`:

- The program trains.
  The runtime torchax-compat then compiles the training step, and modules in evaluation mode.
  The fix adds no `torchax.compile` here, because the compiled module would keep the statistics and the mode
  (training or evaluation) that it had when it was compiled.
- The module may keep something from call to call: a method of its class, or of a class of a module within it,
  writes to an attribute or a buffer, or it contains batch normalization.
  `torchax.compile` would lose what `forward` writes, without an error.
  The fix adds the runtime, which compiles the module once its calls have taken a second, and keeps what
  `forward` writes.
- The program imports the runtime, and tpulint does not know whether the compiled object is a module or a
  function.

## Without a fix

- If tpulint does not know whether the compiled object is a module or a function, write `torchax.compile(x)`
  yourself.
- A bound method, such as `model.forward`, has no fix: the weights of the module would become constants of the
  compiled program.
  Compile the module of the method instead: `torchax.compile(module,
  torchax.CompileOptions(methods_to_compile=["forward", "decode"]))`.
- If the program decorates a method with `torch.compile`, move the computation of the method into a function
  that receives all tensors as arguments, and compile this function.
- To export a model with `torch.jit.trace`, trace it on the host: `torch.jit.trace(model.cpu(), x.cpu())`.

A loop that generates one token at a time passes a longer sequence to the model each time.
JAX compiles the model again for each length of the sequence.
To avoid these compilations, allocate the sequence with its final length, and write each token into the
sequence.
A causal model does not use the positions after the current token, so their content does not matter:

```python
@torchax.interop.jax_jit
def step(weights, ids, at):
    token = torch.func.functional_call(model, weights, (ids,)).index_select(1, at - 1).argmax(-1)
    return torch.where(torch.arange(ids.shape[1], device=ids.device) == at, token, ids)


weights = {**dict(model.named_parameters()), **dict(model.named_buffers())}
length = ids.shape[1]
ids = F.pad(ids, (0, tokens))
for at in torch.arange(length, length + tokens, device=ids.device).split(1):
    ids = step(weights, ids, at)
```

On the CPU, a small model with attention generated twelve tokens in three ways:

- without `torchax.compile`: 713 compilations, 45 s;
- with the model compiled by `torchax.compile`: 38 compilations, 7.5 s;
- with the code above: 7 compilations, 0.6 s.

All three ways gave the same tokens.
The compilations were counted with `jax.monitoring`.
If the model caches keys and values for the next token, write the keys and values into tensors of the final
length in the same way.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Instance, Rule, Severity, Tensor

rule = Rule(
    "TPU804",
    "compilation by torch (`torch.compile`, `torch.jit.trace`)",
    module=__name__,
    fix=Applicability.UNSAFE,
)

_NOTHING = "compiles nothing in the torchax environment, without an error"
_RAISES = "with `fullgraph=True` raises in the torchax environment"
_SIMPLE = ast.Name | ast.Attribute | ast.Subscript | ast.Call
_DEFINITIONS = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@rule.on(ast.Attribute, named={"compile"})
def decorator(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    outer = ctx.parent(node)
    if isinstance(outer, _DEFINITIONS) and ctx.names.qualified(node) == "torch.compile":
        fix = (
            _dropped(ctx.rewrite.remove_decorator(node), ctx)
            if ctx.program.is_trained
            else _decorated(node, outer, ctx)
        )
        yield ctx.finding(node, f"`torch.compile` {_NOTHING}", fix, severity=Severity.SLOW)


@rule.on(ast.Call, named={"compile"})
def call(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    given = {word.arg: word.value for word in call.keywords}
    if ctx.devices.only_with_cuda(call) or _is_true(given.get("disable")):
        return
    if any(isinstance(argument, ast.Starred) for argument in call.args):
        return  # passes on what it is given, as a stand-in for `torch.compile` does
    if ctx.names.qualified(call.func) == "torch.compile":
        message = f"`torch.compile` {_RAISES if _is_true(given.get('fullgraph')) else _NOTHING}"
        outer = ctx.parent(call)
        model = call.args[0] if call.args else given.get("model")
        fix = None
        if model is not None:
            fix = None if ctx.program.is_trained or _keeps_state(model, ctx) else _compiled(call, model, ctx)
            if (
                ctx.program.is_trained
                or _keeps_state(model, ctx)
                or (ctx.program.has_runtime and fix is None)
            ):
                fix = _left_out(call, model, ctx)
        elif isinstance(outer, _DEFINITIONS):
            fix = (
                _dropped(ctx.rewrite.remove_decorator(call), ctx)
                if ctx.program.is_trained
                else _decorated(call, outer, ctx)
            )
        severity = Severity.SLOW if _NOTHING in message else Severity.BLOCKS
        yield ctx.finding(call, message, fix, severity=severity)
    elif isinstance(call.func, ast.Attribute):
        receiver = ctx.types.of(call.func.value)
        if not ctx.types.is_module(receiver) or not isinstance(receiver, Instance):
            return
        if not ctx.types.defines_method(receiver.cls, "compile"):
            fix = _in_place(call, call.func, ctx)
            yield ctx.finding(call, f"`Module.compile` {_NOTHING}", fix, severity=Severity.SLOW)


@rule.on(ast.Call, named={"trace"})
def traced(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if (
        ctx.names.qualified(call.func) != "torch.jit.trace"
        or len(call.args) < 2
        or ctx.devices.only_with_cuda(call)
    ):
        return
    model, given = call.args[:2]
    examples = given.elts if isinstance(given, ast.Tuple) else [given]
    kinds = [ctx.types.of(example) for example in examples]
    if ctx.program.serves_device and any(isinstance(kind, Tensor) and not kind.is_host for kind in kinds):
        fix = None if any(ctx.calls("save")) else _compiled(call, model, ctx)
        message = "`torch.jit.trace` cannot record operations on torchax tensors and raises"
        yield ctx.finding(call, message, fix)


def _is_true(node: ast.expr | None) -> bool:
    """Whether the argument `disable` or `fullgraph` is true."""
    return isinstance(node, ast.Constant) and node.value is True


def _compiled(call: ast.Call, model: ast.expr, ctx: Context) -> Fix | None:
    if not ctx.types.is_module(ctx.types.of(model)) and not ctx.names.is_function(model):
        return None
    edit = ctx.rewrite.replace(call, f"torchax.compile({ctx.text(model)})")
    return _fix(ctx.text(call.func), edit, ctx)


def _keeps_state(model: ast.expr, ctx: Context) -> bool:
    """Whether a module may keep something from call to call, which `torchax.compile` would lose."""
    kind = ctx.types.of(model)
    if not isinstance(kind, Instance) or not ctx.types.is_module(kind) or not ctx.program.serves_device:
        return False
    if ctx.types.keeps_state(kind.cls):
        return True
    # What a container holds is known only in the class that makes it.
    return kind.cls.startswith("torch.nn.") and ctx.types.makes_stateful_layer()


def _decorated(node: ast.expr, definition: ast.AST, ctx: Context) -> Fix | None:
    """The fix that uses the decorator `@torchax.compile`; None for methods, whose `self` cannot be traced."""
    if not isinstance(definition, ast.FunctionDef) or isinstance(ctx.parent(definition), ast.ClassDef):
        return None
    if definition.decorator_list != [node]:
        return None
    return _fix("torch.compile", ctx.rewrite.replace(node, "torchax.compile"), ctx)


def _left_out(call: ast.Call, model: ast.expr, ctx: Context) -> Fix | None:
    """The fix that uses the module itself, which the runtime compiles."""
    statement, name = ctx.statement(call), ctx.text(model)
    targets = statement.targets if isinstance(statement, ast.Assign) and statement.value is call else []
    if [ctx.text(target) for target in targets] == [name]:
        return _dropped((ctx.rewrite.delete(statement),), ctx)
    return _dropped((ctx.rewrite.replace(call, name if isinstance(model, _SIMPLE) else f"({name})"),), ctx)


def _dropped(edits: tuple[Change, ...] | None, ctx: Context) -> Fix | None:
    """The fix that applies the edits, and removes the `_orig_mod` of compiled modules."""
    if edits is None:
        return None
    wrapped = [node for node in ast.walk(ctx.tree) if isinstance(node, ast.Attribute)]
    edits += tuple(
        ctx.rewrite.replace(one, ctx.text(one.value)) for one in wrapped if one.attr == "_orig_mod"
    )
    title = "remove `torch.compile`: the runtime torchax-compat compiles the model"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _in_place(call: ast.Call, func: ast.Attribute, ctx: Context) -> Fix | None:
    statement = ctx.statement(call)
    alone = isinstance(statement, ast.Expr) and statement.value is call
    if not alone or not isinstance(func.value, ast.Name):
        return None
    if ctx.program.is_trained or _keeps_state(func.value, ctx):
        return _dropped((ctx.rewrite.delete(statement),), ctx)
    name = func.value.id
    return _fix(f"{name}.compile()", ctx.rewrite.replace(statement, f"{name} = torchax.compile({name})"), ctx)


def _fix(old: str, edit: Change, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torchax")
    if imports is None:
        return None
    title = f"replace `{old}` with `torchax.compile`"
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
