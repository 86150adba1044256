"""`backward()` on torchax, which gives incomplete or no gradients.

## What it does

The rule reports `loss.backward()`, `torch.autograd.backward` and `torch.autograd.grad` in programs that put
tensors on a CUDA or torchax device, or that enter the torchax environment.

- If a function of the program calls `backward` on a loss that it receives as an argument, the rule reports
  the call that passes the loss to this function. In many training scripts, such a function wraps
  `GradScaler`.
- If the program stores the loss in an attribute, and other code calls `backward` on this attribute, the rule
  reports the assignment to the attribute.

The rule does not report code that computes on the CPU: programs that name no CUDA or torchax device, losses
that are CPU tensors, and code inside `with torchax.disable_temporarily():`.

## Why it matters on TPU

PyTorch's autograd does not record every operation on torchax tensors.
Autograd skips `F.linear` (and therefore `nn.Linear`), slicing and other indexing, `einsum`, `F.pad`,
`t.flatten()`, `max_pool2d` and `.to(torch.bfloat16)`.

- If some paths from a parameter to the loss contain an operation that autograd skips, and other paths do not,
  the gradient of the parameter lacks the contribution of the paths with such an operation. PyTorch raises no
  error.
- If every path from the parameters to the loss contains an operation that autograd skips, `backward` raises
  `RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn`.
- `backward` through a convolution raises
  `OperatorNotFound: Operator with name aten::convolution_backward has no lowering`.
- `backward` through layer normalization raises
  `TypeError: _aten_native_layer_norm_backward() takes from 5 to 6 positional arguments`.

## Fix safety

The fix is unsafe, for the two reasons listed below. The fix moves the loss computation (the forward pass
through the modules and the computation of the loss) into a new function, decorates this function with
`@differentiable` of the runtime torchax-compat. JAX compiles
the new function and computes its gradients. `loss.backward()`, the optimizer, gradient clipping, gradient
accumulation and schedulers stay unchanged. `docs/how-it-works.md` describes a training step after the fix.
`docs/compatibility.md` lists the PyTorch features that work in a training step after the fix.

After the fix, the program may behave differently for two reasons:

- The Python code of the new function runs only once, while JAX traces it.
  If the code calls functions that tpulint does not know (such as methods of a `SummaryWriter`), or does more
  than compute and assign (such as appending to a list), the fix writes `@differentiable(compiled=False)`.
  With `compiled=False`, the Python code runs at each call.
- The runtime changes parts of torch and torchax for the whole program; `docs/runtime.md` lists the changes.
  For example, `torch.utils.checkpoint` saves memory in PyTorch, because its custom `backward` recomputes the
  forward pass. JAX does not call this `backward`. Instead, JAX differentiates the forward pass, and keeps the
  intermediate results in memory.

The structure of the program decides which computation the fix moves:

- If a function in the same file returns the loss but also does other work, the fix moves only the loss
  computation out of the body of this function.
- If an object stores the loss in an attribute, the fix moves the computation that is assigned to the
  attribute. An example is a runner whose hooks call `runner.outputs["loss"].backward()`.
- If another function collects values for the loss in a list, such as the `log_prob` of actions, the fix moves
  the computation of these values into a function for JAX. PyTorch's autograd still differentiates the
  remaining computation, from these values to the loss; `docs/compatibility.md` lists what fails there.
- If a function computes tensors and passes them to `torch.autograd.grad` as the outputs, as in a gradient
  penalty, the fix decorates this function with `@differentiable` and `@higher_order`. If the function that
  calls `torch.autograd.grad` receives the outputs as arguments, the fix decorates its callers in the same
  file. If the function that calls `torch.autograd.grad` returns a module built from the gradients, or creates
  data loaders, the fix moves only the computation of the gradients.

## Without a fix

The message of the finding says why there is no automatic fix, and what to do. To decorate a function, write
`from torchax_compat import differentiable, higher_order`.

- If the loss is computed in another function, decorate that function with `@differentiable`.
- If the loss is part of a larger statement, assign the loss to a variable first. If several statements share
  a line, write each statement on its own line.
- Some statements between the forward pass and the loss prevent the fix: statements that leave the function or
  the loop (such as `return`), that change a variable on which the loss depends, or that pass `self` to other
  code. `try` statements and definitions between the forward pass and the loss prevent the fix, too. Move such
  a statement or definition before the forward pass or after the loss.
- If a function computes the outputs that it passes to `torch.autograd.grad`, and also calls `backward`, apply
  the fix of the `backward` call first. This fix also covers the call of `torch.autograd.grad`. If the
  `backward` call has no fix, move the computation of the outputs into a new function, and decorate this
  function with `@differentiable` and `@higher_order`.
- To train without the runtime, write the loss as a function of the parameters. Compute the gradients with
  `torchax.interop.jax_value_and_grad`, and assign the gradients to `p.grad`, which the optimizer reads.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION, HIGHER_ORDER
from tpulint.knowledge.tracing import AUTOGRAD_FUNCTIONS
from tpulint.rules_api import (
    Applicability,
    Context,
    Effort,
    Finding,
    Fix,
    Rewrite,
    Rule,
    Scope,
    Tensor,
    Unknown,
)
from tpulint.rules_api.results import NOT_FOUND, SHARED_LINE, Filling, Step
from tpulint.rules_api.syntax import effects, positional_parameters

rule = Rule(
    "TPU611",
    "`backward()` on torchax, which gives incomplete or no gradients",
    module=__name__,
    fix=Applicability.UNSAFE,
    effort=Effort.HOURS,
)

#: Statements that evaluate what stands in them once, but for what stands in such expressions.
_SIMPLE = (ast.AnnAssign, ast.Assign, ast.AugAssign, ast.Expr, ast.Return)
_COMPREHENSIONS = (ast.comprehension, ast.DictComp, ast.GeneratorExp, ast.ListComp, ast.SetComp)
_NOT_ONCE = (ast.BoolOp, ast.IfExp, ast.Lambda, *_COMPREHENSIONS)
_FUNCTIONS = frozenset({"torch.autograd.backward", "torch.autograd.grad"})
_LOST = "{} gives incomplete or no gradients on torchax"
_WHY = "because autograd skips operations such as `nn.Linear` and slicing"

_TAKEN = "this file already uses the name `{}`: rename that variable or function"
_NEXT = "; in the same run, `fix` then moves the loss computation into a function that JAX compiles"
_WITH_BOTH = "with `@differentiable` and `@higher_order` of the runtime torchax-compat"


@rule.on(ast.Call, named={"backward", "grad"})
def backward(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.names.qualified(call.func)
    if name not in _FUNCTIONS and not (name is None and _is_method_of_tensor(call, ctx)):
        return
    if not ctx.program.serves_device or _is_on_host(call, ctx):
        return
    message = _LOST.format(f"`{name}`" if name is not None else "`backward`")
    if name == "torch.autograd.grad":
        yield from _gradients(call, message, ctx)
        return
    losses = ctx.program.losses(call)
    if not _is_callers_own(losses, ctx):
        for loss in losses:
            yield from _step(call, loss, message, ctx)


@rule.on(ast.Module)
def handed_over(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    for taker, call, loss, scope in ctx.program.training_steps.passed_losses:
        at = ctx.at(scope)
        if not at.program.serves_device or _is_on_host(call, at):
            continue
        step = ctx.program.training_steps.of(loss, scope)
        if step.learns if taker.is_whole else step.is_sure:
            message = _LOST.format(f"`{at.text(call.func)}` calls `backward`, which")
            yield from _step(call, loss, message, at, like="loss" if taker.is_whole else taker.parameter)


@rule.on(ast.Module)
def lists_handed_over(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    steps, told = ctx.program.training_steps, set[int]()
    for (_, call, loss, scope), fillings in steps.passed_lists:
        at = ctx.at(scope)
        if id(call) in told or not at.program.serves_device or _is_on_host(call, at):
            continue
        open_ones = [one for one in fillings if not steps.is_filled_by_jax(one)]
        if open_ones:
            told.add(id(call))
            message = _LOST.format(
                f"`{at.text(call.func)}` calls `backward` on a loss computed from `{at.text(loss)}`, which"
            )
            yield _told(call, message, _collected(open_ones[0], at), at)


@rule.on(ast.Module)
def kept_for_others(_tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    for assignment, scope, step in ctx.program.training_steps.kept:
        at = ctx.at(scope)
        if at.program.serves_device and isinstance(assignment.targets[0], ast.Attribute):
            where = f"`backward` on the loss stored in `{at.text(assignment.targets[0])}`"
            yield _told(assignment.targets[0], _LOST.format(where), _extracted(step, at), at)


def _is_callers_own(losses: list[ast.expr], ctx: Context) -> bool:
    """Whether the losses are passed in by callers, where they are reported instead."""
    function = ctx.scope.function
    name = ctx.names.qualified_scope(function) if function is not None else ""
    steps = ctx.program.training_steps
    handed = [one.taker for one in steps.passed_losses if one.taker.function == name]
    if any(one.is_whole for one in handed) or (
        handed and not any(steps.of(loss, ctx.scope).region for loss in losses)
    ):
        return True
    return any(one.taker.function == name for one, _ in steps.passed_lists)


def _step(
    call: ast.Call, loss: ast.expr, message: str, ctx: Context, *, like: str = "loss"
) -> Iterator[Finding]:
    steps = ctx.program.training_steps
    step = steps.of(loss, ctx.scope)
    if step.is_settled or steps.is_kept(loss, ctx.scope):
        return
    if step.is_collected:
        if not step.fillings:
            return
        fix = _collected(step.fillings[0], ctx)
    else:
        fix = _extracted(step, ctx) if step.is_plain else _named(step, loss, like, ctx)
    yield _told(call, message, fix, ctx)


def _told(node: ast.expr, message: str, fix: Fix | str, ctx: Context) -> Finding:
    """A finding with its fix, or with the reason why there is none."""
    if isinstance(fix, str):
        return ctx.finding(node, f"{message}; no automatic fix, because {fix}")
    return ctx.finding(node, f"{message}, {_WHY}", fix)


def _collected(filling: Filling, ctx: Context) -> Fix | str:
    """The fix for a loss of collected values: name the value, then move its computation."""
    value, at = filling.value, ctx.at(filling.function)
    step = ctx.program.training_steps.of(value, filling.function)
    if isinstance(value, ast.Name):
        fix = _extracted(step, at)
    else:
        method = getattr(value.func, "attr", None) if isinstance(value, ast.Call) else None
        fix = _named(step, value, method or "collected", at)
    return f"for the values in `{filling.path}`, {fix}" if isinstance(fix, str) else fix


def _named(step: Step, loss: ast.expr, like: str, ctx: Context) -> Fix | str:
    """The fix that assigns the loss to a variable, so that the next round can move its computation."""
    statement, source = ctx.statement(loss), ctx.source
    if not isinstance(statement, _SIMPLE) or any(isinstance(one, _NOT_ONCE) for one in ctx.ancestors(loss)):
        return "the loss is part of a larger statement: assign the loss to a variable first"
    if not step.is_moved_once_named:
        return NOT_FOUND
    if source.ahead_of(statement).strip():
        return _put_apart(ctx.rewrite.split_lines([statement]), ctx) or SHARED_LINE
    name = step.fresh(like)
    value = ctx.text(loss)
    is_bare = len(value.splitlines()) > 1 and isinstance(loss, ast.BinOp | ast.BoolOp | ast.Compare)
    edits = (
        ctx.rewrite.insert_before(statement, f"{name} = ({value})" if is_bare else f"{name} = {value}"),
        ctx.rewrite.replace(loss, name, bare=isinstance(ctx.parent(loss), ast.Attribute)),
    )
    shown = f"`{value}`" if "\n" not in value and len(value) < 40 else "the loss"
    title = f"store {shown} in the new variable `{name}`{_NEXT}"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _extracted(step: Step, ctx: Context) -> Fix | str:
    behind = step.kept_behind()
    if behind:
        title = f"move the `.item()` statements after the `autocast` block{_NEXT}"
        return ctx.rewrite.fix(title, *behind, applicability=Applicability.UNSAFE)
    moved = step.moved()
    if isinstance(moved, str):
        return _put_apart(step.put_apart(), ctx) or moved
    imports = ctx.rewrite.runtime_import("differentiable")
    if imports is None:
        return _TAKEN.format("differentiable")
    title = "move the loss computation into a new function with the decorator `@differentiable`"
    title += f" of the runtime {DISTRIBUTION}, so that JAX computes the gradients"
    return ctx.rewrite.fix(title, *imports, *moved, applicability=Applicability.UNSAFE, serves_cuda=True)


def _put_apart(edits: list[Rewrite] | None, ctx: Context) -> Fix | None:
    """The fix that writes each statement on its own line, so that the next round can move them."""
    if edits is None:
        return None
    title = f"put each statement on its own line{_NEXT}"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)


def _gradients(call: ast.Call, message: str, ctx: Context) -> Iterator[Finding]:
    """The finding for `torch.autograd.grad`, unless the functions that compute its outputs are recorded."""
    function = ctx.scope.function
    if _is_of_settled(call, ctx):
        return
    if function is None or not isinstance(function.node, ast.FunctionDef):
        yield _told(call, message, _asked_outside(call, ctx), ctx)
        return
    if _recomputes(function, ctx) or _waits(function, ctx):
        return
    computing = _computing(call, function, ctx)
    open_ones = [one for one in computing if not ctx.names.has_runtime_decorator(one, HIGHER_ORDER)]
    if computing and not open_ones:
        return
    if open_ones == [function] and (_gives_module(function, ctx) or _prepares(function, ctx)):
        yield _told(call, message, _extracted(ctx.program.training_steps.asking(call, ctx.scope), ctx), ctx)
        return
    fix = (
        _marked(open_ones[0], ctx)
        if open_ones
        else f"another file computes the `outputs`: decorate the function that computes them {_WITH_BOTH}"
    )
    if isinstance(fix, str) and open_ones and open_ones[0] is not function:
        fix = _moved_out(function, open_ones[0], ctx) or fix
    yield _told(call, message, fix, ctx)


def _asked_outside(call: ast.Call, ctx: Context) -> Fix | str:
    """The fix for a call outside of all functions: move it into one, with its outputs."""
    steps, statement = ctx.program.training_steps, ctx.statement(call)
    if ctx.scope.function is not None or not isinstance(statement, ast.Assign):
        return "the call is not in a function: move it, and the code for its `outputs`, into a `def`"
    if id(statement) in steps.computing:
        return "the fix for the `backward` call of this loss also moves this call: apply that fix first"
    others = (ctx.statement(other) for other, at in ctx.calls("grad") if at.scope is ctx.scope)
    block = ctx.parent(statement)
    if any(ctx.parent(other) is block and other.lineno > statement.lineno for other in others):
        return "the fix for a later `torch.autograd.grad` may also move this call: apply that fix first"
    return _extracted(steps.asking(call, ctx.scope), ctx)


def _gives_module(function: Scope, ctx: Context) -> bool:
    """Whether the function returns a module of gradients, which JAX cannot return."""
    steps = ctx.program.training_steps
    returned = [node.value for node in ast.walk(function.node) if isinstance(node, ast.Return)]
    return any(value is not None and steps.is_module(value, function) for value in returned)


def _prepares(function: Scope, ctx: Context) -> bool:
    """Whether the function creates data loaders, so that it does more than compute the outputs."""
    at, calls = ctx.at(function), (node for node in ast.walk(function.node) if isinstance(node, ast.Call))
    made = (at.names.qualified(call.func) or "" for call in calls)
    return any(name.startswith("torch.utils.data.") for name in made)


def _moved_out(function: Scope, caller: Scope, ctx: Context) -> Fix | None:
    """The fix for gradients that are not for training: move the call out, with its outputs."""
    steps = ctx.program.training_steps
    for call, at in ctx.calls(function.name):
        statement = at.statement(call)
        if at.scope.function is not caller or id(statement) in steps.computing:
            continue
        fix = _extracted(steps.asking(call, caller), at) if isinstance(statement, ast.Assign) else None
        if isinstance(fix, Fix):
            return fix
    return None


def _recomputes(function: Scope, ctx: Context) -> bool:
    """Whether the function is the `backward` of a checkpoint, which JAX does not call."""
    if function.name != "backward" or function.owner is None:
        return False
    ancestors = ctx.types.ancestors(ctx.names.qualified_scope(function.owner))
    named = {node.attr for node in ast.walk(function.node) if isinstance(node, ast.Attribute)}
    return not AUTOGRAD_FUNCTIONS.isdisjoint(ancestors) and "enable_grad" in named


def _waits(function: Scope, ctx: Context) -> bool:
    """Whether the function calls another one that asks for gradients and has to be decorated first."""
    asking = {id(at.scope.function) for _, at in ctx.calls("grad") if at.scope.function is not function}
    around = (
        ctx.at(function).names.called_function(node.func)
        for node in ast.walk(function.node)
        if isinstance(node, ast.Call)
    )
    return any(
        id(one) in asking and not ctx.trace.is_differentiable(one) for one in around if one is not None
    )


def _is_of_settled(call: ast.Call, ctx: Context) -> bool:
    """Whether functions decorated with `@differentiable` compute the `outputs`, so that autograd works."""
    outputs = call.args[0] if call.args else None
    while isinstance(outputs, ast.Subscript):
        outputs = outputs.value
    steps, function = ctx.program.training_steps, ctx.scope.function
    if outputs is None or not steps.of(outputs, ctx.scope).is_settled:
        return False
    leading, _ = _leading([outputs], function) if function is not None else ([], set())
    calls = [node for one in leading for node in ast.walk(one) if isinstance(node, ast.Call)]
    return not calls or any(steps.is_differentiable_call(node, ctx.scope) for node in calls)


def _computing(call: ast.Call, function: Scope, ctx: Context) -> list[Scope]:
    """The functions that compute the outputs: the one with the call, or its callers in this file."""
    outputs, inputs = (_given(call, i, name) for i, name in enumerate(("outputs", "inputs")))
    nodes = [node for one in outputs for node in ast.walk(one)]
    read = [node for node in nodes if isinstance(node, ast.Name)]
    is_own = any(isinstance(node, ast.Call) for node in nodes) or any(
        binding.value is not None for n in read for binding in function.bindings.get(n.id, ())
    )
    if is_own and (_are_parameters(inputs, ctx) or not _are_apart(outputs, inputs, function)):
        return [function]
    callers = (at.scope.function for _, at in ctx.calls(function.name))
    return list({id(caller): caller for caller in callers if caller is not None}.values())


def _given(call: ast.Call, index: int, name: str) -> list[ast.expr]:
    return call.args[index : index + 1] or [word.value for word in call.keywords if word.arg == name]


def _are_parameters(inputs: list[ast.expr], ctx: Context) -> bool:
    """Whether the inputs are parameters of modules that the callers pass in.

    They lead to the outputs where these are computed.
    """
    if len(inputs) != 1 or not isinstance(inputs[0], ast.Name) or not ctx.names.is_parameter(inputs[0]):
        return False
    given = [
        made for value, at in ctx.passed(inputs[0]) for made in at.names.assigned_values(value) or [value]
    ]
    return bool(given) and all(
        any(isinstance(node, ast.Attribute) and node.attr == "parameters" for node in ast.walk(one))
        for one in given
    )


def _are_apart(outputs: list[ast.expr], inputs: list[ast.expr], function: Scope) -> bool:
    """Whether the function receives both the inputs and the values that the outputs are computed from.

    Then it does not compute the outputs from the inputs itself.
    """
    given, wanted = set(positional_parameters(function)), set(effects(inputs).reads)
    _, behind = _leading(outputs, function)
    return bool(wanted) and wanted <= given and behind.isdisjoint(wanted) and not behind.isdisjoint(given)


def _leading(outputs: list[ast.expr], function: Scope) -> tuple[list[ast.Assign], set[str]]:
    """The assignments of a function that lead to the outputs, and the names that these read."""
    assigned = [(one, effects([one])) for one in ast.walk(function.node) if isinstance(one, ast.Assign)]
    behind, before = set(effects(outputs).reads), set[str]()
    while behind != before:
        before = set(behind)
        behind.update(name for _, one in assigned if behind & set(one.writes) for name in one.reads)
    return [node for node, one in assigned if behind & set(one.writes)], behind


def _marked(function: Scope, ctx: Context) -> Fix | str:
    """The fix that decorates a function with `@differentiable`, then with `@higher_order`."""
    node = function.node
    inside = list(ast.walk(node))
    if not isinstance(node, ast.FunctionDef) or any(isinstance(i, ast.Yield | ast.YieldFrom) for i in inside):
        return f"a generator, `async` function or lambda computes the `outputs`: use a `def` {_WITH_BOTH}"
    if any(isinstance(inner, ast.Attribute) and inner.attr == "backward" for inner in inside):
        return f"the fix for the `backward` call in `{node.name}` also moves this call: apply that fix first"
    mark = name = "higher_order" if ctx.trace.is_differentiable(function) else "differentiable"
    imports = ctx.rewrite.runtime_import(mark)
    if imports is None:
        return _TAKEN.format(mark)
    why = None if mark == "higher_order" else ctx.program.training_steps.why_not_compiled(node.body, function)
    mark += f"(compiled=False)  # {why}" if why is not None else ""
    title = f"decorate `{node.name}` with `@{name}` of the runtime {DISTRIBUTION}"
    decorator = ctx.rewrite.add_decorator(node, mark)
    return ctx.rewrite.fix(title, *imports, decorator, applicability=Applicability.UNSAFE, serves_cuda=True)


def _is_method_of_tensor(call: ast.Call, ctx: Context) -> bool:
    """Whether the call is `backward` of a loss that this file computes, and not on the CPU."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward" or len(call.args) > 1:
        return False
    if ctx.program.is_accelerate_backward(call):
        return True
    kind = ctx.types.of(call.func.value)
    if ctx.program.has_importers and ctx.program.is_loss_consumer(ctx.scope.function):
        return False  # others hand it over, and are told where they compute it
    if isinstance(kind, Tensor):
        return not kind.is_host
    if not isinstance(kind, Unknown) or not ctx.program.imports_torch:
        return False
    if call.args:
        return isinstance(ctx.types.of(call.args[0]), Tensor)
    # A loss that a function at hand computes: what zeroes gradients, or asks for them, trains with torch, but
    # an optimizer of the program's own may zero them in its steps, as that of SAM does.
    trains = any(ctx.names.has_call(name) for name in ("zero_grad", "requires_grad_"))
    zeroed = (getattr(zero.func, "value", None) for zero, _ in ctx.calls("zero_"))
    trains = trains or any(getattr(one, "attr", "") == "grad" for one in zeroed)
    return trains or ctx.program.training_steps.of(call.func.value, ctx.scope).is_computed_here


def _is_on_host(call: ast.Call, ctx: Context) -> bool:
    """Whether the call is inside `with torchax.disable_temporarily():`."""
    contexts = (
        item.context_expr
        for outer in ctx.ancestors(call)
        if isinstance(outer, ast.With)
        for item in outer.items
    )
    return any(
        isinstance(context, ast.Call) and ctx.names.qualified(context.func) == "torchax.disable_temporarily"
        for context in contexts
    )
