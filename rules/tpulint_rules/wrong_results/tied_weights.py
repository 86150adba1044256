"""Weight tying that `.to("jax")` breaks.

## What it does

The rule reports `self.decoder.weight = self.encoder.weight` and similar assignments in modules of programs
that move tensors to a CUDA or torchax device.
The rule does not report modules that define `_apply`.

## Why it matters on TPU

`model.to("jax")` gives each module its own parameter.
The tied weight becomes two separate weights, without an error:

- Each of the two weights receives only a part of the gradient, so the model trains differently.
  The losses of the first steps still look right.
- After `model.to("jax")`, `model.parameters()` yields one parameter more than before.
- A checkpoint contains two different values for the tied weight.

## Fix safety

The fix adds a method `_apply` to the module, which ties the weights again.
The fix is unsafe: PyTorch also calls `_apply` in `to`, `cuda`, `half` and similar methods, so each of these
methods then ties weights.

- The added `_apply` method ties two weights again if they were tied before the call.
- If the assignment names the tied modules with variables, or if one of the modules may not exist, the added
  `_apply` method ties all previously tied weights again.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("TPU604", 'weight tying that `.to("jax")` breaks', module=__name__, fix=Applicability.UNSAFE)

_PARAMETERS = frozenset({"weight", "bias"})


def _is_tie(node: ast.AST | None) -> bool:
    """Whether the statement ties two weights, as `self.head.weight = self.embedding.weight` does."""
    match node:
        case ast.Assign(targets=[ast.Attribute() as target], value=ast.Attribute() as value):
            return all(side.attr in _PARAMETERS and _is_part_of_self(side) for side in (target, value))
    return False


def _is_part_of_self(node: ast.Attribute) -> bool:
    """Whether the expression is an attribute of a submodule of `self`, such as `self.layers[0].weight`."""
    inner = node.value
    depth = 0
    while isinstance(inner, ast.Attribute | ast.Subscript):
        inner, depth = inner.value, depth + 1
    return depth > 0 and isinstance(inner, ast.Name) and inner.id == "self"


@rule.on(ast.Attribute, named=_PARAMETERS)
def tied(target: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    tie = ctx.parent(target)
    if not isinstance(tie, ast.Assign) or not isinstance(target.ctx, ast.Store) or not _is_tie(tie):
        return
    function = ctx.scope.function
    owner = function.parent if function is not None else None
    if owner is None or not isinstance(owner.node, ast.ClassDef) or not ctx.program.serves_device:
        return
    if not ctx.types.is_module_class(ctx.names.qualified_scope(owner)):
        return
    if "_apply" in owner.bindings:
        return
    both = f"`{ctx.text(target)}` from `{ctx.text(tie.value)}`"
    message = f'`.to("jax")` unties {both}, without an error'
    yield ctx.finding(target, message, _shared_again(owner.node, ctx))


def _shared_again(owner: ast.ClassDef, ctx: Context) -> Fix:
    """The fix that adds an `_apply` method to the class, which is the same for all of its ties."""
    step = ctx.source.indent
    found = [node for node in ast.walk(owner) if isinstance(node, ast.Assign) and _is_tie(node)]
    found.sort(key=lambda node: node.lineno)
    body = _by_name(found, ctx) if all(_is_surely_there(tie, owner) for tie in found) else _ANY
    lines = ["def _apply(self, *args, **kwargs):", *(f"{step}{line}".replace("\t", step) for line in body)]
    last = owner.body[-1]
    edit = ctx.rewrite.insert_after(last, ctx.source.newline + ctx.rewrite.lines(last, *lines))
    title = "add an `_apply` method that ties the weights again after the module is moved to a device"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _by_name(found: list[ast.Assign], ctx: Context) -> list[str]:
    ties = list(dict.fromkeys((ctx.text(node.targets[0]), ctx.text(node.value)) for node in found))
    names = ["is_tied"] if len(ties) == 1 else [f"is_tied_{number}" for number in range(1, len(ties) + 1)]
    before = [f"{name} = {one} is {other}" for name, (one, other) in zip(names, ties, strict=True)]
    after = [
        line
        for name, (one, other) in zip(names, ties, strict=True)
        for line in (f"if {name}:", f"\t{one} = {other}")
    ]
    return [*before, "super()._apply(*args, **kwargs)", *after, "return self"]


#: Whatever is shared stays so.
_ANY = [
    "places = {}",
    "for module in self.modules():",
    "\tfor name, parameter in module.named_parameters(recurse=False):",
    "\t\tplaces.setdefault(parameter, []).append((module, name))",
    "super()._apply(*args, **kwargs)",
    "for (first, kept), *others in places.values():",
    "\tfor module, name in others:",
    "\t\tsetattr(module, name, getattr(first, kept))",
    "return self",
]


def _is_surely_there(tie: ast.Assign, owner: ast.ClassDef) -> bool:
    """Whether every method can read both sides of a tie (no local variables or optional submodules)."""
    plain = [
        statement
        for method in owner.body
        if isinstance(method, ast.FunctionDef)
        for statement in method.body
        if isinstance(statement, ast.Assign | ast.AnnAssign)
    ]
    on_condition = _made(owner) - set[str]().union(*map(_made, plain))
    for node in ast.walk(tie):
        if isinstance(node, ast.Name) and node.id != "self":
            return False
        if isinstance(node, ast.Attribute) and _is_of_self(node) and node.attr in on_condition:
            return False
    return True


def _made(around: ast.AST) -> set[str]:
    """The attributes of `self` that code within a node assigns."""
    return {
        node.attr
        for node in ast.walk(around)
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and _is_of_self(node)
    }


def _is_of_self(node: ast.Attribute) -> bool:
    return isinstance(node.value, ast.Name) and node.value.id == "self"
