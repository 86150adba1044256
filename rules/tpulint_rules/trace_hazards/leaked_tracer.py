"""Tensor that traced code stores for use after the call.

## What it does

Reports tensors that traced code computes in one call and stores for use after this call.
The rule checks `forward` and the functions that `forward` calls, because JAX traces `forward` and these
functions to compile a model.
The rule reports:

- `self.cos = emb.cos()`, in one of these cases:
  - A later call may read the value that an earlier call stored.
  - Code that is not traced reads the attribute.
  - Nothing in the file reads the attribute, so other files are likely to read it.
- `self.mean = self.mean.to(x.device)`.
  Such an assignment is meant to move the tensor to the device only once, but in traced code the attribute
  receives a tracer.
- `self.cache[n] = t` and `CACHE[n] = t`, if the dictionary still exists after the call.
- An assignment to an attribute in a hook of a module (`register_forward_hook`).
- Functions that return tensors and are decorated with `functools.lru_cache`, `functools.cache` or
  `functools.cached_property`.

The rule does not report:

- attributes that each call assigns before it reads them;
- buffers, which TPU613 (`state-written-in-traced-code`) reports;
- functions that are not known to be jitted, unless the `forward` of a module calls them;
- code that is traced only as part of a training step.
  For such code, apply the fix of TPU611 (`backward-on-torchax`): the compiled training step then returns the
  values of the assigned attributes, so no tracer is stored.

## Why it matters on TPU

While JAX traces a function, its tensors are tracers: placeholders that are invalid after the trace has ended.
A tensor that traced code stores is such a tracer.

- The first call of a jitted function works.
  If a function is not jitted, all of its calls work.
- JAX traces the function again for another shape, or for the evaluation after the training.
  This later trace reads the stored tracer and raises.
  Code on the host that reads the stored tracer raises, too.
- The error is `jax.errors.UnexpectedTracerError: Encountered an unexpected tracer. A function transformed by
  JAX had a side effect, allowing for a reference to an intermediate value with type float32[6] wrapped in a
  DynamicJaxprTracer to escape the scope of the transformation`.

## Without a fix

- If the module needs a constant tensor on its device, register the tensor as a buffer
  (`self.register_buffer("mean", mean)`).
  `module.to("jax")` moves buffers to the device.
- Compute a table once, in `__init__`, for the longest input that occurs.
  In `forward`, slice this table, as in the example below.
- Or compute the table in each call.
  If the table does not depend on the input, XLA computes the table only once, at compile time.
- If other code needs a value that the traced code computes, return the value as a result.
- Pass state to the traced code as an argument (see TPU613, `state-written-in-traced-code`).

```python
class Rotary(nn.Module):
    def __init__(self, dim, longest):
        super().__init__()
        angles = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2) / dim)
        self.register_buffer("cos", angles.cos(), persistent=False)

    def forward(self, x):
        return x * self.cos[: x.shape[1]]
```
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import UNKNOWN, Context, Finding, Instance, Rule, Scope, ScopeKind, Tensor
from tpulint.rules_api.results import Reader

rule = Rule(
    "TPU309",
    "tensor that traced code stores for use after the call",
    module=__name__,
    former=("tensor-kept-by-traced-code",),
    fix=None,
)

_HANDLED = "state that traced code writes"

_CACHES = frozenset({"functools.lru_cache", "functools.cache", "functools.cached_property"})
_KEPT = "traced code stores a JAX tracer, not a tensor, in `{}`; {} raises `UnexpectedTracerError`"
_CACHED = "`{}` caches a JAX tracer, not a tensor; using it in the next trace raises `UnexpectedTracerError`"


@rule.on(ast.Module)
def attributes(_: ast.Module, ctx: Context) -> Iterator[Finding]:
    for cls, attribute, assigned in ctx.types.all_attribute_values():
        if not ctx.types.is_module_class(cls) or ctx.types.is_tensor_attribute(cls, attribute):
            continue  # what becomes of a buffer is told by TPU613
        for value, scope in assigned:
            at = ctx.at(scope)
            if scope.name == "__init__" or not at.trace.outlasts_call:
                continue
            arms = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
            statement = at.statement(value)
            if at.types.of(value) == UNKNOWN and at.trace.is_hook_value(value):
                reader: Reader | None = Reader()
            elif any(at.types.of(arm).holds_tracer for arm in arms):
                reader = at.trace.reader_of(attribute, statement)
            else:
                continue
            if reader is not None and not at.program.runtime_handles(_HANDLED):
                yield at.finding(statement, _KEPT.format(f"self.{attribute}", _told(reader)))


@rule.on(ast.Subscript, where=lambda node: isinstance(node.ctx, ast.Store), traced=True, handled=_HANDLED)
def item(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    statement = ctx.parent(node)
    if not isinstance(statement, ast.Assign) or not ctx.trace.outlasts_call:
        return
    if ctx.types.of(statement.value).holds_tracer and _lasts(node.value, ctx):
        yield ctx.finding(statement, _KEPT.format(ctx.text(node.value), "reading the tracer later"))


@rule.on(ast.Module)
def cached(_: ast.Module, ctx: Context) -> Iterator[Finding]:
    for scope in ctx.names.functions:
        node = scope.node
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list or scope.parent is None:
            continue
        outer = ctx.at(scope.parent)
        for decorator in node.decorator_list:
            made = decorator.func if isinstance(decorator, ast.Call) else decorator
            if outer.names.qualified(made) in _CACHES and _gives_tensor(scope, ctx.at(scope)):
                if ctx.at(scope).program.runtime_handles(_HANDLED):
                    continue
                yield ctx.at(scope).finding(decorator, _CACHED.format(node.name))


def _gives_tensor(function: Scope, ctx: Context) -> bool:
    """Whether the function is jitted and returns a tensor."""
    if not ctx.trace.outlasts_call:
        return False
    return any(kind.holds_tracer for kind in ctx.types.returned(function))


def _lasts(node: ast.expr, ctx: Context) -> bool:
    """Whether the container outlives the call, as a global or an attribute that only `__init__` sets."""
    owner = ctx.types.of(node.value) if isinstance(node, ast.Attribute) else UNKNOWN
    if isinstance(node, ast.Attribute) and isinstance(owner, Instance):
        assigned = ctx.types.attribute_values(owner.cls, node.attr)
        in_init = all(place.name == "__init__" for _, place in assigned)
        return (
            bool(assigned)
            and in_init
            and ctx.types.is_module(owner)
            and not isinstance(ctx.types.of(node), Tensor)
        )
    found = ctx.names.lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None or found[0].kind is not ScopeKind.MODULE:
        return False
    return all(isinstance(binding.value, ast.Dict | ast.List | ast.Call) for binding in found[1])


def _told(reader: Reader) -> str:
    if reader.host is not None:
        where = f"in `{reader.host}`" if reader.host else "at module level"
    else:
        where = "in the next trace" if reader.later else "outside of traced code"
    return f"reading the tracer {where}"
