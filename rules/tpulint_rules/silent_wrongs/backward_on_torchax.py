"""Gradients by `backward()` on torchax.

## What it does

Flags `loss.backward()`, `torch.autograd.backward` and `torch.autograd.grad` in programs that put tensors on a
device or enter torchax.
What computes on the host alone is left alone: programs that name no device, host tensors, and
`torchax.disable_temporarily()`.

## Why it matters on TPU

Torch's autograd does not see through the operations that torchax takes over.
`F.linear` (and so `nn.Linear`), slices and other indexing, `einsum`, `F.pad`, `t.flatten()`, `max_pool2d`
and `.to(torch.bfloat16)` cut the graph.
Where the loss has another path, the gradient lacks what went through the cut one, silently.
Where it has none, `backward` raises `RuntimeError: element 0 of tensors does not require grad and does not
have a grad_fn`.
Convolutions raise `OperatorNotFound: Operator with name aten::convolution_backward has no lowering`, layer
norm `TypeError: _aten_native_layer_norm_backward() takes from 5 to 6 positional arguments`.

## Without a fix

Write the loss as a function of the parameters, and let JAX take the gradient.
Torch's optimizer stays: it finds the gradients in `p.grad`.

```python
parameters = dict(model.named_parameters())
buffers = dict(model.named_buffers())


def loss_of(parameters, buffers, x, target):
    output = torch.func.functional_call(model, (parameters, buffers), (x,))
    return F.cross_entropy(output, target)


step = torchax.interop.jax_jit(torchax.interop.jax_value_and_grad(loss_of))

for x, target in batches:
    loss, gradients = step(parameters, buffers, x, target)
    for name, parameter in model.named_parameters():
        parameter.grad = gradients[name]
    optimizer.step()
```

The gradient is that of the first argument.
`zero_grad` is no longer needed; to accumulate over several batches, add the gradients up.
`optax` and `torchax.train.make_train_step` take the optimizer's step into the compiled program, too.
A custom `torch.autograd.Function` and `torch.no_grad()` mean nothing to JAX; `.detach()` does.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import count

from tpulint.finding import Applicability, Companion, Edit, Finding, Fix
from tpulint.model.changing import changing_attributes, unsteady
from tpulint.model.effects import effects, place
from tpulint.model.extraction import extraction
from tpulint.model.kinds import Tensor, Unknown
from tpulint.model.learned import Learned, own_function
from tpulint.model.regions import Obstacle, Region, carriers, region
from tpulint.model.references import method_around
from tpulint.model.scopes import Scope
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU611", "gradients by `backward()` on torchax", module=__name__, fix=Applicability.UNSAFE
)

_FUNCTIONS = frozenset({"torch.autograd.backward", "torch.autograd.grad"})
_COMPANION = Companion("torchax_training.py", "tpulint_rules:companions/torchax_training.py")
#: What may be done with a loss on its way to `backward` that torch's autograd sees through on torchax.
_PLAIN = frozenset({"mean", "sum", "scale"})


@rule.on(ast.Call, named={"backward", "grad"})
def backward(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name not in _FUNCTIONS and not (name is None and _is_method_of_tensor(call, ctx)):
        return
    if not ctx.serves_device or _is_on_host(call, ctx):
        return
    what = f"`{name}`" if name is not None else "`backward`"
    lost = "loses what goes through `nn.Linear`, slices and others on torchax"
    message = f"{what} {lost}: gradients are partial or none"
    if name is not None or not isinstance(call.func, ast.Attribute):
        yield ctx.finding(call, message)
        return
    step = _Step(call.func.value, ctx)
    if step.is_settled:
        return
    fix, why = step.fix()
    yield ctx.finding(call, f"{message}; no fix, since {why}" if fix is None else message, fix)


class _Step:
    """The computation of a loss on which `backward` is called."""

    def __init__(self, loss: ast.expr, ctx: Context) -> None:
        self._loss, self._ctx = loss, ctx
        self._statement = ctx.statement(loss)
        self._region = self._found(Learned(ctx.module, self._is_ours))
        self._is_known = self._region is not None

    def _found(self, learned: Learned) -> Region | Obstacle | None:
        self._learned = learned
        wanted = set(effects([self._loss]).reads)
        return region(self._ctx.module, learned, self._statement, wanted, self._ctx.scope)

    def _is_ours(self, function: Scope) -> bool:
        """Whether a function is one that JAX differentiates."""
        decorators = function.node.decorator_list if isinstance(function.node, ast.FunctionDef) else []
        return any(_is_companion(decorator, self._ctx.at(function)) for decorator in decorators)

    @property
    def is_settled(self) -> bool:
        """Whether the loss comes from functions that JAX differentiates, and nothing much is done to it."""
        if not _is_plain(self._loss) or self._region is not None:
            return False
        module, ctx = self._ctx.module, self._ctx
        return any(
            isinstance(node, ast.Call)
            and (own := own_function(module, node.func, ctx.scope)) is not None
            and self._is_ours(own)
            for statement in ctx.function_body
            for node in ast.walk(statement)
        )

    def fix(self) -> tuple[Fix | None, str]:
        """The fix, or why there is none."""
        if not _is_plain(self._loss):
            return self._named()
        if self._region is None:
            self._region = self._found(Learned(self._ctx.module, self._is_ours, generous=True))
        if self._region is None:
            return None, "the loss is not computed here"
        if isinstance(self._region, Obstacle):
            row = self._region.node.lineno
            return None, f"{self._region.why} (line {row})"
        return self._extracted(self._region)

    def _named(self) -> tuple[Fix | None, str]:
        """The loss gets a name first; what computes it is moved in the next round."""
        ctx, statement = self._ctx, self._statement
        start = ctx.span(statement).start
        line = ctx.module.source.line_starts[statement.lineno - 1]
        indent = ctx.module.source.text[line:start]
        if not isinstance(statement, ast.Expr) or indent.strip() or not isinstance(statement.value, ast.Call):
            return None, "the loss has no name"
        taken = {node.id for node in ast.walk(ctx.tree) if isinstance(node, ast.Name)}
        name = next(name for name in _names("loss") if name not in taken or name == "loss" and not ctx.is_bound(name))
        edits = (
            ctx.insert(start, f"{name} = {ctx.text(self._loss)}{ctx.module.source.newline}{indent}"),
            ctx.replace(self._loss, name),
        )
        return ctx.fix("compute the loss by itself", *edits, applicability=Applicability.UNSAFE), ""

    def _extracted(self, found: Region) -> tuple[Fix | None, str]:
        ctx = self._ctx
        others = [
            statement
            for call, place in ctx.calls("backward")
            if isinstance(call.func, ast.Attribute) and call.func.value is not self._loss
            and isinstance(other := _Step(call.func.value, place)._region, Region)
            for statement in other.span
        ]
        every = [(found, ctx.scope)]
        every += carriers(ctx.module, self._learned, found.inputs, [*others, *found.span], ctx.scope)
        imported = ctx.imports(f"from {_package(ctx)}torchax_training import differentiable")
        if imported is None:
            return None, "`differentiable` means something else here"
        edits = [*imported]
        names: set[str] = set()
        for part, scope in every:
            made = self._function(part, ctx.at(scope), names)
            if made is None:
                return None, "two statements stand on one line"
            edits += made
        title = "let JAX compute the loss and its gradients"
        return (
            ctx.fix(title, *edits, applicability=Applicability.UNSAFE, companion=_COMPANION),
            "",
        )

    def _function(self, found: Region, ctx: Context, names: set[str]) -> tuple[Edit, Edit] | None:
        module = ctx.module
        changing = changing_attributes(module, ctx.scope)
        kept = {p for p in found.inputs if p.startswith("self.") and p not in changing} - set(found.outputs)
        method = method_around(ctx.scope)
        is_method = method is not None and bool(kept or "self" in found.inputs)
        parameters = {"self": "self"} if kept or "self" in found.inputs else {}
        for place in found.inputs:
            if place not in kept and place != "self":
                parameters[place] = place.removeprefix("self.")
        results = {place: place.removeprefix("self.") for place in found.outputs}
        why = unsteady(module, found.statements, ctx.scope)
        if why is None and not self._is_known:
            why = "what it calls is not known"
        decorator = "differentiable" if why is None else f"differentiable(compiled=False)  # {why}"
        loss = next((results[p] for p in effects([self._loss]).reads if p in results), next(iter(results.values()), ""))
        name = self._name(loss, names)
        made = extraction(module, found, name, decorator, parameters, results, is_method=is_method)
        if made is None or not results:
            return None
        around = method.node if is_method and method is not None else _top_level(ctx, found.statements[0])
        assert isinstance(around, ast.stmt)
        newline = module.source.newline
        gap = newline if is_method else newline * 2
        return (
            ctx.insert(_above(ctx, around), made.definition + gap),
            ctx.edit(made.span, made.call),
        )

    def _name(self, loss: str, names: set[str]) -> str:
        taken = {f.name for f in self._ctx.module.index.functions} | names
        taken |= {node.id for node in ast.walk(self._ctx.tree) if isinstance(node, ast.Name)}
        name = next(name for name in _names(f"compute_{loss}") if name not in taken)
        names.add(name)
        return name


def _names(name: str) -> Iterator[str]:
    """A name, and others like it."""
    yield name
    for number in count(2):
        yield f"{name}_{number}"


def _is_plain(loss: ast.expr) -> bool:
    """Whether an expression is a variable, or simple arithmetic with variables and numbers."""
    match loss:
        case ast.Name() | ast.Constant():
            return True
        case ast.Attribute():
            return place(loss) is not None
        case ast.BinOp(op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div()):
            return _is_plain(loss.left) and _is_plain(loss.right)
        case ast.Call(func=ast.Attribute(value=value, attr=attr), args=[]) if attr in _PLAIN:
            return _is_plain(value)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[value]):
            return _is_plain(value)
        case _:
            return False


def _is_companion(decorator: ast.expr, ctx: Context) -> bool:
    node = decorator.func if isinstance(decorator, ast.Call) else decorator
    outer = ctx.at(ctx.scope.parent) if ctx.scope.parent is not None else ctx
    return (outer.qualified_name(node) or "").endswith("torchax_training.differentiable")


def _package(ctx: Context) -> str:
    """The package that the file is imported from, with a dot."""
    package = ctx.package
    return f"{package}." if package else ""


def _top_level(ctx: Context, node: ast.stmt) -> ast.stmt:
    return next(s for s in ctx.tree.body if s.lineno <= node.lineno <= (s.end_lineno or s.lineno))


def _above(ctx: Context, statement: ast.stmt) -> int:
    """The offset of the line above which a definition goes: over decorators and comments."""
    source = ctx.module.source
    decorators = getattr(statement, "decorator_list", [])
    row = min([statement.lineno, *(decorator.lineno for decorator in decorators)])
    while row > 1 and source.line(row - 1).lstrip().startswith("#"):
        row -= 1
    return source.line_starts[row - 1]


def _is_method_of_tensor(call: ast.Call, ctx: Context) -> bool:
    if not isinstance(call.func, ast.Attribute) or call.func.attr != "backward" or len(call.args) > 1:
        return False
    kind = ctx.kind(call.func.value)
    if isinstance(kind, Tensor):
        return not kind.is_host
    # A loss that a function at hand computes: what sets gradients to zero trains with torch.
    trains = any(ctx.module.index.calls.get(name) for name in ("zero_grad", "step"))
    return isinstance(kind, Unknown) and not call.args and trains and ctx.imports("import torch") == ()


def _is_on_host(call: ast.Call, ctx: Context) -> bool:
    contexts = (
        item.context_expr
        for outer in ctx.ancestors(call)
        if isinstance(outer, ast.With)
        for item in outer.items
    )
    return any(
        isinstance(context, ast.Call) and ctx.qualified_name(context.func) == "torchax.disable_temporarily"
        for context in contexts
    )
