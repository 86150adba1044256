"""Tensor that traced code keeps beyond the call.

## What it does

Flags, in `forward` and what it calls, a tensor that outlives the call:

- `self.cos = emb.cos()` where another call may read what this one kept, where code that is not traced reads
  the attribute, or where nothing in the file does, so that it is there for others;
- `self.cache[n] = t` and `CACHE[n] = t` in a dictionary that lasts;
- functions under `functools.lru_cache`, `functools.cache` and `functools.cached_property` that give tensors.

An attribute that each call sets before it reads it is left alone, and so are buffers (see TPU613).
Functions that nothing is known to jit are, too, unless a module's `forward` calls them.

## Why it matters on TPU

While a function is traced its tensors are tracers, which stand for values that come later and mean nothing
once the trace is over.
What was kept is such a tracer, and the next trace (another shape, the evaluation after the training) or the
host that reads it fails: `jax.errors.UnexpectedTracerError: Encountered an unexpected tracer. A function
transformed by JAX had a side effect, allowing for a reference to an intermediate value with type float32[6]
wrapped in a DynamicJaxprTracer to escape the scope of the transformation`.
The first call works, and without jit all of it does.

## Without a fix

Compute tables once, in `__init__`, for the longest input that there will be, and take a slice of them.

```python
class Rotary(nn.Module):
    def __init__(self, dim, longest):
        super().__init__()
        angles = torch.arange(longest)[:, None] * 10000.0 ** (-torch.arange(0, dim, 2) / dim)
        self.register_buffer("cos", angles.cos(), persistent=False)

    def forward(self, x):
        return x * self.cos[: x.shape[1]]
```

Or compute them anew in each call: XLA folds what does not depend on the input into a constant.
Return what is to be looked at outside, and hand state over as an argument (see TPU613).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import NamedTuple

from tpulint.finding import Finding
from tpulint.model.kinds import UNKNOWN, Instance, Tensor
from tpulint.model.project import Certainty
from tpulint.model.references import method_around
from tpulint.model.scopes import FunctionNode, Scope, ScopeKind
from tpulint.rule import Context, Rule, is_name

rule = Rule("TPU309", "tensor that traced code keeps beyond the call", module=__name__, fix=None)

_CACHES = frozenset({"functools.lru_cache", "functools.cache", "functools.cached_property"})
_KEPT = "`{}` keeps a tensor of this call, which once traced is a tracer: {} raises `UnexpectedTracerError`"
_CACHED = "`{}` hands out a tensor of an earlier trace: a tracer, which raises `UnexpectedTracerError`"


@rule.on(ast.Module)
def attributes(_: ast.Module, ctx: Context) -> Iterator[Finding]:
    project = ctx.module.project
    uses = _Uses(ctx)
    for (cls, attribute), assigned in ctx.module.assignments.items():
        if not project.is_module_class(cls) or project.is_tensor_attribute(cls, attribute):
            continue  # what becomes of a buffer is told by TPU613
        for value, scope in assigned:
            at = ctx.at(scope)
            if scope.name == "__init__" or not _is_traced_for_sure(at):
                continue
            arms = (value.body, value.orelse) if isinstance(value, ast.IfExp) else (value,)
            if not any(at.kind(arm).holds_tracer for arm in arms):
                continue
            statement = at.statement(value)
            reader = uses.reader(attribute, statement, at)
            if reader is not None:
                yield at.finding(statement, _KEPT.format(f"self.{attribute}", reader))


@rule.on(ast.Subscript, where=lambda node: isinstance(node.ctx, ast.Store), traced=True)
def item(node: ast.Subscript, ctx: Context) -> Iterator[Finding]:
    statement = ctx.parent(node)
    if not isinstance(statement, ast.Assign) or not _is_traced_for_sure(ctx):
        return
    if ctx.kind(statement.value).holds_tracer and _lasts(node.value, ctx):
        yield ctx.finding(statement, _KEPT.format(ctx.text(node.value), "reading it later"))


@rule.on(ast.Module)
def cached(_: ast.Module, ctx: Context) -> Iterator[Finding]:
    for scope in ctx.module.index.functions:
        node = scope.node
        if not isinstance(node, ast.FunctionDef) or not node.decorator_list or scope.parent is None:
            continue
        outer = ctx.at(scope.parent)
        for decorator in node.decorator_list:
            made = decorator.func if isinstance(decorator, ast.Call) else decorator
            if outer.qualified_name(made) in _CACHES and _gives_tensor(scope, ctx.at(scope)):
                yield ctx.at(scope).finding(decorator, _CACHED.format(node.name))


def _gives_tensor(function: Scope, ctx: Context) -> bool:
    if not _is_traced_for_sure(ctx):
        return False
    flow = ctx.module.flow(function)
    return flow is not None and any(kind.holds_tracer for kind in flow.returned)


def _is_traced_for_sure(ctx: Context) -> bool:
    path = ctx.trace_path
    return path is not None and path.certainty <= Certainty.FORWARD


def _lasts(node: ast.expr, ctx: Context) -> bool:
    """Whether a container outlives the call: of the module, set by `__init__` alone, or global."""
    owner = ctx.kind(node.value) if isinstance(node, ast.Attribute) else UNKNOWN
    if isinstance(node, ast.Attribute) and isinstance(owner, Instance):
        assigned = ctx.module.assignments.get((owner.cls, node.attr), [])
        in_init = all(place.name == "__init__" for _, place in assigned)
        return bool(assigned) and in_init and ctx.is_module(owner) and not isinstance(ctx.kind(node), Tensor)
    found = ctx.module.names.lookup(node.id, ctx.scope) if isinstance(node, ast.Name) else None
    if found is None or found[0].kind is not ScopeKind.MODULE:
        return False
    return all(isinstance(binding.value, ast.Dict | ast.List | ast.Call) for binding in found[1])


class _Reads(NamedTuple):
    """Where a file reads an attribute: the host's code that does, and the reads of each traced function."""

    on_host: list[str]
    traced: dict[int, list[ast.Attribute]]


class _Uses:
    """Who reads the attributes of a file, and who calls its methods; looked up once for each name."""

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._reads: dict[str, _Reads] = {}
        self._calls: dict[str, dict[int, list[tuple[ast.Call, Context]]]] = {}

    def reader(self, attribute: str, statement: ast.stmt, ctx: Context) -> str | None:
        """Who reads an attribute when the call that set it is over; None where nobody is known to."""
        reads = self._of(attribute)
        if reads.on_host:
            return reads.on_host[0]
        if not reads.traced:
            return "reading it from outside"
        own = reads.traced.get(id(ctx.scope.function), [])
        if any(node.lineno < statement.lineno for node in own):
            return "reading it in the next trace"
        elsewhere = len(reads.traced) > bool(own)
        passed_by = self._may_be_passed_by(attribute, statement, None if elsewhere else own, ctx)
        return "reading it in the next trace" if passed_by else None

    def _of(self, attribute: str) -> _Reads:
        if attribute not in self._reads:
            reads = self._reads[attribute] = _Reads([], {})
            for node, scope in self.ctx.module.index.taken.get(attribute, ()):
                if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                    continue
                function = scope.function
                if self.ctx.module.trace_path(scope) is not None:
                    reads.traced.setdefault(id(function), []).append(node)
                elif function is None or function.name != "__init__":
                    reads.on_host.append(
                        f"`{function.name}`, which reads it," if function else "what reads it"
                    )
        return self._reads[attribute]

    def _may_be_passed_by(
        self,
        attribute: str,
        statement: ast.stmt,
        own: list[ast.Attribute] | None,
        ctx: Context,
        deep: int = 2,
    ) -> bool:
        """Whether a call may pass an assignment by and still come to what reads the attribute.

        `own` are the reads, where all are in the function itself.
        """
        inner: ast.AST = statement
        for outer in ctx.ancestors(statement):
            if isinstance(outer, ast.If) and not _sets_in_all(outer, attribute) and not _asks_for_mode(outer):
                arm = outer.body if inner in outer.body else outer.orelse
                if own is None or not all(_stands_in(arm, read, ctx) for read in own):
                    return True
            if isinstance(outer, FunctionNode):
                before = ctx.module.before(inner) if isinstance(inner, ast.stmt) else []
                if own is None and any(map(_leaves, before)):
                    return True
                break
            inner = outer
        if own is not None or not deep:
            return False
        return any(
            self._may_be_passed_by(attribute, at.statement(call), None, at, deep - 1)
            for call, at in self._callers(ctx.scope)
        )

    def _callers(self, scope: Scope) -> list[tuple[ast.Call, Context]]:
        """The traced calls of a method by others of its class."""
        method = method_around(scope)
        if method is None or method is not scope.function:
            return []
        if method.name not in self._calls:
            found = self._calls[method.name] = {}
            for call, at in self.ctx.calls(method.name):
                caller = method_around(at.scope)
                of_self = isinstance(call.func, ast.Attribute) and is_name(call.func.value, "self")
                if (
                    of_self
                    and caller is not None
                    and caller.name != method.name
                    and at.trace_path is not None
                ):
                    found.setdefault(id(caller.owner), []).append((call, at))
        return self._calls[method.name].get(id(method.owner), [])


def _stands_in(block: list[ast.stmt], node: ast.AST, ctx: Context) -> bool:
    return any(outer is statement for outer in ctx.ancestors(node) for statement in block)


def _leaves(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.If) and isinstance(statement.body[-1], ast.Return)


def _asks_for_mode(branch: ast.If) -> bool:
    """Whether a branch asks whether the module is trained, which stays what it is."""
    return ast.unparse(branch.test) in ("self.training", "not self.training")


def _sets_in_all(branch: ast.If, attribute: str) -> bool:
    """Whether all arms of a branch assign to an attribute, or leave by an exception."""
    return all(
        arm
        and (
            isinstance(arm[-1], ast.Raise)
            or any(
                isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
                for one in arm
                for node in ast.walk(one)
            )
        )
        for arm in (branch.body, branch.orelse)
    )
