"""Attribute, buffer or global variable modified in traced code.

## What it does

The rule reports writes whose effect is meant to last after the call, in `forward` methods and in functions
that `forward` calls:

- `self.count += 1`, if `count` is an attribute of a module and other code reads this attribute;
- `count += 1`, if `count` is a `global` variable;
- any write to a parameter or a buffer: `self.total += x`, `self.cache[:, i] = k`, `self.mean.lerp_(m, 0.1)`,
  `self.mean = 0.9 * self.mean + 0.1 * m`, `self.register_buffer("cos", cos)`;
- `append` of a tensor to a list that is stored in an attribute or a global variable.

The rule does not report:

- attributes to which another method assigns a new value;
- functions that are not known to be jitted, unless the `forward` of a module calls them;
- code that is traced only as part of a training step: the fix of TPU611 (`backward-on-torchax`) makes the
  compiled training step return modified attributes and buffers.

## Why it matters on TPU

The Python code of a jitted function runs only once, while JAX traces it.
After tracing, only the compiled XLA program runs, which does not modify Python objects:

- A counter advances once per compilation, not once per call.
  If the function computes with the counter, the compiled program uses the first value of the counter in all
  calls.
- A list receives one tracer (a placeholder without values) per compilation, not one tensor per call.
- A buffer keeps its old value, although the compiled module writes to the buffer.

JAX raises an error only if the program uses a stored tracer later:
`UnexpectedTracerError: Encountered an unexpected tracer`.
Without `jit`, all of these writes work.

## Without a fix

Pass the state to the jitted function as an argument, and return the new state.
For buffers, use `functional_call`: an in-place write in the module then changes the tensors that are passed
to `functional_call`.

```python
jitted = torchax.interop.JittableModule(model)


@torchax.interop.jax_jit
def step(parameters, buffers, x):
    return jitted.functional_call("forward", parameters, buffers, x), buffers


parameters, buffers = dict(jitted.params), dict(jitted.buffers)
for x in batches:
    y, buffers = step(parameters, buffers, x)
```

- Update a counter on the host, next to the call of the jitted function.
  If the function computes with the counter, pass the counter to it as a tensor.
- Return tensors from the jitted function, and append them to the list outside of the function.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_api import METHODS
from tpulint.rules_api import Context, Finding, Instance, Rule, ScopeKind

rule = Rule(
    "TPU613", "attribute, buffer or global variable modified in traced code", module=__name__, fix=None
)

_WRITES = frozenset(name for name in METHODS if name.endswith("_")) - {"requires_grad_", "detach_"}
_HANDLED = "state that traced code writes"
_LOST = "this write to the buffer or parameter `{}` is lost when the code is jitted"
_ONCE = "when this code is jitted, `{}` changes once per compilation, not once per call"


@rule.on(ast.AugAssign, traced=True, handled=_HANDLED)
def augmented(statement: ast.AugAssign, ctx: Context) -> Iterator[Finding]:
    target = statement.target
    if not ctx.trace.outlasts_call:
        return
    if isinstance(target, ast.Name):
        if target.id in (ctx.scope.function or ctx.scope).declared:
            yield ctx.finding(statement, _ONCE.format(target.id))
        return
    if isinstance(target, ast.Subscript):
        return  # which is looked at below
    if _is_tensor(target, ctx):
        yield ctx.finding(statement, _LOST.format(ctx.text(target)))
    elif _is_kept(target, ctx) and _is_read(target, ctx):
        yield ctx.finding(statement, _ONCE.format(ctx.text(target)))


@rule.on(ast.Module)
def replaced(_: ast.Module, ctx: Context) -> Iterator[Finding]:
    for cls, attribute, assigned in ctx.types.all_attribute_values():
        if not ctx.types.is_tensor_attribute(cls, attribute):
            continue
        for value, scope in assigned:
            at = ctx.at(scope)
            if (
                scope.name != "__init__"
                and at.trace.outlasts_call
                and _is_new(value, attribute, at)
                and not at.program.runtime_handles(_HANDLED)
            ):
                yield at.finding(at.statement(value), _LOST.format(f"self.{attribute}"))


@rule.on(ast.Call, named={"register_buffer"}, traced=True, handled=_HANDLED)
def registered(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if _owner(call.func, ctx) is None or not ctx.trace.outlasts_call:
        return
    match call.args:
        case [ast.Constant(value=str() as name), value, *_] if _is_new(value, name, ctx):
            yield ctx.finding(call, _LOST.format(f"self.{name}"))


@rule.on(ast.Subscript, where=lambda node: isinstance(node.ctx, ast.Store), traced=True, handled=_HANDLED)
def item(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    if ctx.trace.outlasts_call and _is_tensor(node.value, ctx):
        yield ctx.finding(node, _LOST.format(ctx.text(node.value)))


@rule.on(ast.Call, named=_WRITES, traced=True, handled=_HANDLED)
def written(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if isinstance(call.func, ast.Attribute) and ctx.trace.outlasts_call and _is_tensor(call.func.value, ctx):
        yield ctx.finding(call, _LOST.format(ctx.text(call.func.value)))


@rule.on(ast.Call, named={"append"}, traced=True, handled=_HANDLED)
def appended(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1 or not ctx.trace.outlasts_call:
        return
    kept = call.func.value
    if not ctx.types.of(call.args[0]).is_traced:
        return
    if (_is_kept(kept, ctx) and _is_read(kept, ctx)) or _is_global_list(kept, ctx):
        message = (
            "when this code is jitted, `{}` receives one tracer (a placeholder) per compilation, "
            "not one tensor per call"
        )
        yield ctx.finding(call, message.format(ctx.text(kept)))


def _owner(node: ast.expr, ctx: Context) -> Instance | None:
    """Whether the expression is an attribute of `self` in a module; the type of that module, or None."""
    if not isinstance(node, ast.Attribute) or not isinstance(node.value, ast.Name) or node.value.id != "self":
        return None
    kind = ctx.types.of(node.value)
    return kind if isinstance(kind, Instance) and ctx.types.is_module(kind) else None


def _is_tensor(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is a parameter or buffer of `self`."""
    owner = _owner(node, ctx)
    return (
        owner is not None
        and isinstance(node, ast.Attribute)
        and ctx.types.is_tensor_attribute(owner.cls, node.attr)
    )


def _is_new(value: ast.expr, attribute: str, ctx: Context) -> bool:
    """Whether the value is a tensor computed in this call, not the attribute itself on another device."""
    if not ctx.types.of(value).is_traced:
        return False
    sources = [value] if not isinstance(value, ast.Name) else ctx.names.assigned_values(value) or [value]
    return not any(_root(source) == f"self.{attribute}" for source in sources)


def _root(node: ast.expr) -> str:
    """The expression at the start of a chain of method calls."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return ast.unparse(node)


def _is_kept(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is an attribute of `self`, in a module, that only `__init__` assigns."""
    if not isinstance(node, ast.Attribute) or _owner(node, ctx) is None:
        return False
    return not ctx.types.is_assigned_outside_init(node.attr)


def _is_read(node: ast.expr, ctx: Context) -> bool:
    """Whether this file reads an attribute of this name elsewhere."""
    return isinstance(node, ast.Attribute) and any(
        other is not node and isinstance(other.ctx, ast.Load) for other, _ in ctx.names.attributes(node.attr)
    )


def _is_global_list(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is a list in a global variable."""
    found = ctx.names.lookup(node.id) if isinstance(node, ast.Name) else None
    if found is None or found[0].kind is not ScopeKind.MODULE:
        return False
    return all(isinstance(binding.value, ast.List) for binding in found[1])
