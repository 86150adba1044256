"""Use of a function that PyTorch deprecated, and that has a replacement.

## What it does

The rule reports:

- the functions of linear algebra `torch.qr`, `torch.cholesky`, `torch.chain_matmul`, `torch.lu`,
  `torch.lu_solve` and `torch.triangular_solve`, and `torch.range`;
- the functions of `functorch` that `torch.func` has, such as `functorch.vmap`;
- the functions of `torch.nn.init` without `_` at the end of their names, such as `xavier_uniform`;
- `torch.nn.utils.clip_grad_norm`, `torch.nn.utils.stateless.functional_call` and
  `torch.nn.functional.upsample`.

The rule reports only functions that print a deprecation warning in torch 2.13.
`torch.ger`, `torch.norm` and `torch.svd`, whose documentation names better functions, print none.

## Why it matters

PyTorch announces in the warning that the function will be removed.
torchax implements some of these functions less completely than their replacements: `torch.range` and
`torch.cholesky` raise `OperatorNotFound` with torchax.

These warnings and errors were measured with torch 2.13.0 and torchax 0.0.14.dev20261026.

## Fix safety

The fix of a call or an import is safe: the new code computes the same values.
The fix is unsafe if the program does not call the function, but stores or passes it, because other code may
compare it.

| old code | new code |
| --- | --- |
| `torch.qr(a)` | `torch.linalg.qr(a)` |
| `torch.qr(a, some=False)` | `torch.linalg.qr(a, mode="complete")` |
| `torch.cholesky(a)` | `torch.linalg.cholesky(a)` |
| `torch.cholesky(a, upper=True)` | `torch.linalg.cholesky(a).mH` |
| `torch.chain_matmul(a, b, c)` | `torch.linalg.multi_dot([a, b, c])` |
| `torch.lu(a)` | `torch.linalg.lu_factor(a)` |
| `torch.lu_solve(b, lu, pivots)` | `torch.linalg.lu_solve(lu, pivots, b)` |
| `torch.triangular_solve(b, a)[0]` or `.solution` | `torch.linalg.solve_triangular(a, b, upper=True)` |
| `torch.range(0, 3)` | `torch.arange(0, 3 + 1, dtype=torch.get_default_dtype())` |

`torch.range` returns floating-point numbers for integers.
The fix therefore passes the default dtype to `torch.arange`.
All other functions have replacements with the same arguments.

## Without a fix

- For other arguments than those in the table, follow the text of the warning.
- If the program uses the second result of `torch.triangular_solve`, use its second argument instead, which
  has the same values.
- `torch.range` with a step, or with an end that is not known to be an integer: pass an end to `torch.arange`
  that lies between the last number and the next one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Static

rule = Rule(
    "UPG103",
    "use of a function that PyTorch deprecated",
    module=__name__,
    fix=Applicability.SAFE,
    optional=True,
    targets=EVERY_TARGET,
)

_OF_FUNCTORCH = (
    *("functionalize", "grad", "grad_and_value", "hessian", "jacfwd", "jacrev", "jvp", "vjp", "vmap"),
)
_OF_INIT = (
    *("constant", "dirac", "eye", "kaiming_normal", "kaiming_uniform", "normal", "orthogonal", "sparse"),
    *("uniform", "xavier_normal", "xavier_uniform"),
)
#: Functions whose replacements have the same arguments.
_RENAMED = {
    **{f"functorch.{name}": f"torch.func.{name}" for name in _OF_FUNCTORCH},
    **{f"torch.nn.init.{name}": f"torch.nn.init.{name}_" for name in _OF_INIT},
    "torch.nn.functional.upsample": "torch.nn.functional.interpolate",
    "torch.nn.utils.clip_grad_norm": "torch.nn.utils.clip_grad_norm_",
    "torch.nn.utils.stateless.functional_call": "torch.func.functional_call",
}
_LAST = frozenset(name.rpartition(".")[2] for name in _RENAMED)


@rule.on(ast.Attribute, named=_LAST)
def attribute(node: ast.Attribute, ctx: Context) -> Iterator[Finding]:
    old = ctx.names.qualified(node) or ""
    new = _RENAMED.get(old)
    if new is None:
        return
    head, _, last = new.rpartition(".")
    edits: tuple[Change, ...] | None = (ctx.rewrite.rename(node, last),)
    if head != old.rpartition(".")[0]:
        imports = ctx.rewrite.imports("import torch")
        edits = None if imports is None else (ctx.rewrite.replace(node, new), *imports)
    outer, fix = ctx.parent(node), None
    if edits is not None:
        is_called = isinstance(outer, ast.Call) and outer.func is node
        applicability = Applicability.SAFE if is_called else Applicability.UNSAFE
        fix = ctx.rewrite.fix(f"replace `{old}` with `{new}`", *edits, applicability=applicability)
    yield ctx.finding(node, _message(old, new), fix)


@rule.on(ast.ImportFrom)
def imported(statement: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    for alias in statement.names:
        old = f"{statement.module}.{alias.name}"
        if old in _RENAMED and not statement.level and not ctx.names.is_optional_import(statement):
            new = _RENAMED[old]
            edit = ctx.rewrite.rename_import(statement, alias, new)
            fix = ctx.rewrite.fix(f"replace `{old}` with `{new}`", edit)
            yield ctx.finding(statement, _message(old, new), fix)


def _message(old: str, new: str) -> str:
    return f"`{old}` is deprecated, and will be removed; `{new}` has the same arguments"


def _qr(call: ast.Call, given: Mapping[str, str], _: Context) -> tuple[ast.expr, str] | None:
    mode = {"True": "", "False": ', mode="complete"'}.get(given.get("some", "True"))
    return None if mode is None else (call, f"torch.linalg.qr({given['input']}{mode})")


def _cholesky(call: ast.Call, given: Mapping[str, str], _: Context) -> tuple[ast.expr, str] | None:
    end = {"True": ".mH", "False": ""}.get(given.get("upper", "False"))
    return None if end is None else (call, f"torch.linalg.cholesky({given['input']}){end}")


def _lu(call: ast.Call, given: Mapping[str, str], _: Context) -> tuple[ast.expr, str] | None:
    return (call, f"torch.linalg.lu_factor({given['input']})") if len(given) == 1 else None


def _lu_solve(call: ast.Call, given: Mapping[str, str], _: Context) -> tuple[ast.expr, str] | None:
    if len(given) != 3:
        return None
    return call, f"torch.linalg.lu_solve({given['LU_data']}, {given['LU_pivots']}, {given['input']})"


def _triangular_solve(call: ast.Call, given: Mapping[str, str], ctx: Context) -> tuple[ast.expr, str] | None:
    if "A" not in given or given.get("transpose", "False") != "False":
        return None
    unit = f", unitriangular={given['unitriangular']}" if "unitriangular" in given else ""
    arguments = f"{given['A']}, {given['input']}, upper={given.get('upper', 'True')}{unit}"
    match ctx.parent(call):
        case ast.Subscript(slice=ast.Constant(value=0)) | ast.Attribute(attr="solution") as outer:
            return outer, f"torch.linalg.solve_triangular({arguments})"
    return None


def _range(call: ast.Call, given: Mapping[str, str], ctx: Context) -> tuple[ast.expr, str] | None:
    bounds = [ctx.types.of(value) for value in call.args]
    if len(call.args) != 2 or call.keywords:
        return None
    if not all(isinstance(bound, Static) and type(bound.value) is int for bound in bounds):
        return None
    arguments = f"{given['start']}, {given['end']} + 1, dtype=torch.get_default_dtype()"
    return call, f"torch.arange({arguments})"


#: Functions with other arguments: their parameters, and the expression to replace with its new code.
_REWRITTEN: Mapping[
    str,
    tuple[
        tuple[str, ...], Callable[[ast.Call, Mapping[str, str], Context], tuple[ast.expr, str] | None], str
    ],
] = {
    "torch.cholesky": (("input", "upper"), _cholesky, "torch.linalg.cholesky"),
    "torch.lu": (("input", "pivot", "get_infos"), _lu, "torch.linalg.lu_factor"),
    "torch.lu_solve": (("input", "LU_data", "LU_pivots"), _lu_solve, "torch.linalg.lu_solve"),
    "torch.qr": (("input", "some"), _qr, "torch.linalg.qr"),
    "torch.range": (("start", "end", "step"), _range, "torch.arange"),
    "torch.triangular_solve": (
        ("input", "A", "upper", "transpose", "unitriangular"),
        _triangular_solve,
        "torch.linalg.solve_triangular",
    ),
}


@rule.on(ast.Call, named={name.rpartition(".")[2] for name in _REWRITTEN})
def called(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    old = ctx.names.qualified(call.func) or ""
    if old not in _REWRITTEN:
        return
    parameters, rewrite, new = _REWRITTEN[old]
    given = _arguments(call, parameters, ctx)
    found = rewrite(call, given, ctx) if given is not None else None
    fix = _replaced(*found, f"replace `{old}` with `{new}`", ctx) if found is not None else None
    yield ctx.finding(call, f"`{old}` is deprecated, and will be removed; use `{new}`", fix)


@rule.on(ast.Call, named={"chain_matmul"})
def chain(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) != "torch.chain_matmul":
        return
    rest = "".join(f", {word.arg}={ctx.text(word.value)}" for word in call.keywords)
    code = f"torch.linalg.multi_dot([{', '.join(map(ctx.text, call.args))}]{rest})"
    fix = _replaced(call, code, "replace `torch.chain_matmul` with `torch.linalg.multi_dot`", ctx)
    message = "`torch.chain_matmul` is deprecated, and will be removed; use `torch.linalg.multi_dot`"
    yield ctx.finding(call, message, fix)


def _arguments(call: ast.Call, parameters: tuple[str, ...], ctx: Context) -> dict[str, str] | None:
    """The source of the arguments by parameter; None if they are not known."""
    if any(isinstance(value, ast.Starred) for value in call.args) or len(call.args) > len(parameters):
        return None
    given = dict(zip(parameters, map(ctx.text, call.args), strict=False))
    given |= {word.arg or "": ctx.text(word.value) for word in call.keywords}
    return given if given.keys() <= set(parameters) and parameters[0] in given else None


def _replaced(node: ast.expr, code: str, title: str, ctx: Context) -> Fix | None:
    imports = ctx.rewrite.imports("import torch")
    return None if imports is None else ctx.rewrite.fix(title, ctx.rewrite.replace(node, code), *imports)
