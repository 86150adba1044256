"""Call of a function that PyTorch removed.

## What it does

The rule reports calls of these functions, and of the tensor methods of the same names:

- `torch.solve`, `torch.lstsq`, `torch.symeig`, `torch.eig` and `torch.matrix_rank`;
- `torch.rfft`, `torch.irfft`, `torch.ifft`, and `torch.fft(...)` as a function.

The rule reports a method only if the type of the receiver is known to be a tensor.
It does not report a call whose error the program catches.

## Why it matters

- The functions of linear algebra still exist in torch 2.13, but each call raises `RuntimeError: This function
  was deprecated since version 1.9 and is now removed`.
- `torch.rfft`, `torch.irfft` and `torch.ifft` raise `AttributeError: module 'torch' has no attribute 'rfft'`.
- `torch.fft` is a module now, and a call of it raises `TypeError: 'module' object is not callable`.

These errors were measured with torch 2.13.0, in plain PyTorch and with torchax.

## Fix safety

The fix is safe: the new code computes the values that the old function computed.

| old code | new code |
| --- | --- |
| `torch.solve(b, a)[0]`, `.solution`, or `x, _ = torch.solve(b, a)` | `torch.linalg.solve(a, b)` |
| `torch.symeig(a, eigenvectors=True)` | `torch.linalg.eigh(a, UPLO="U")` |
| `torch.symeig(a)[0]`, `.eigenvalues`, or `e, _ = torch.symeig(a)` | `torch.linalg.eigvalsh(a, UPLO="U")` |
| `torch.matrix_rank(a, symmetric=True)` | `torch.linalg.matrix_rank(a, hermitian=True)` |

`UPLO="U"` keeps the default of `torch.symeig`, which read the upper triangle.
With `upper=False`, the fix leaves the argument out.

## Without a fix

- If the program uses the LU factorization that `torch.solve` returned, compute it with
  `torch.linalg.lu_factor(a)`.
- `torch.linalg.lstsq(a, b).solution` has only the rows of the solution.
  `torch.lstsq(b, a)` returned the residuals in further rows.
- `torch.linalg.eig` returns complex tensors.
  `torch.eig` returned pairs of real numbers.
- The functions of the module `torch.fft` return complex tensors.
  `torch.view_as_real` gives the pairs of real numbers that the old functions returned.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "UPG101",
    "call of a function that PyTorch removed",
    module=__name__,
    fix=Applicability.SAFE,
    optional=True,
    targets=EVERY_TARGET,
)

#: The parameters of the removed functions, and what replaces each function.
_LINEAR_ALGEBRA = {
    "eig": (("input", "eigenvectors"), "`torch.linalg.eig`, which returns complex tensors"),
    "lstsq": (("input", "A"), "`torch.linalg.lstsq`, whose arguments are in the opposite order"),
    "matrix_rank": (("input", "tol", "symmetric"), "`torch.linalg.matrix_rank`"),
    "solve": (("input", "A"), "`torch.linalg.solve`, whose arguments are in the opposite order"),
    "symeig": (("input", "eigenvectors", "upper"), "`torch.linalg.eigh`"),
}
_FOURIER = frozenset({"fft", "ifft", "irfft", "rfft"})


@rule.on(ast.Call, named=_LINEAR_ALGEBRA)
def linear_algebra(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    match call.func:
        case ast.Name() | ast.Attribute() if _is_of_torch(call.func, _LINEAR_ALGEBRA, ctx):
            name, given = (ctx.names.qualified(call.func) or "").removeprefix("torch."), call.args
        case ast.Attribute(value=receiver, attr=name) if ctx.types.of(receiver).is_tensor:
            given = [receiver, *call.args]
        case _:
            return
    if ctx.devices.is_caught(call):
        return
    parameters, instead = _LINEAR_ALGEBRA[name]
    values = _arguments(given, call.keywords, parameters)
    fix = None if values is None else _fix(name, call, values, ctx)
    message = f"`torch.{name}` was removed, and raises"
    yield ctx.finding(call, message if fix is not None else f"{message}; use {instead}", fix)


@rule.on(ast.Call, named=_FOURIER)
def fourier(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if _is_of_torch(call.func, _FOURIER, ctx) and not ctx.devices.is_caught(call):
        name = ctx.names.qualified(call.func)
        yield ctx.finding(
            call, f"the function `{name}` was removed; use the module `torch.fft`, which has complex tensors"
        )


def _is_of_torch(function: ast.expr, names: Collection[str], ctx: Context) -> bool:
    module, _, name = (ctx.names.qualified(function) or "").rpartition(".")
    return module == "torch" and name in names


def _arguments(
    given: list[ast.expr], keywords: list[ast.keyword], parameters: tuple[str, ...]
) -> dict[str, ast.expr] | None:
    """The arguments by parameter; None if some are not known, or the result is written into a tensor."""
    if any(isinstance(value, ast.Starred) for value in given) or len(given) > len(parameters):
        return None
    values = dict(zip(parameters, given, strict=False))
    values |= {word.arg or "": word.value for word in keywords}
    return values if values.keys() <= set(parameters) else None


def _fix(name: str, call: ast.Call, values: dict[str, ast.expr], ctx: Context) -> Fix | None:
    imports, text = ctx.rewrite.imports("import torch"), {key: ctx.text(one) for key, one in values.items()}
    if imports is None or "input" not in values:
        return None
    edits: tuple[Change, ...] | None = None
    if name == "solve" and "A" in values:
        new = f"torch.linalg.solve({text['A']}, {text['input']})"
        edits = _first_result(call, "solution", new, ctx)
    elif name == "matrix_rank":
        names = {"tol": "tol", "symmetric": "hermitian"}
        rest = "".join(f", {names[key]}={one}" for key, one in text.items() if key != "input")
        new = f"torch.linalg.matrix_rank({text['input']}{rest})"
        edits = (ctx.rewrite.replace(call, new),)
    elif name == "symeig":
        triangle = {"True": ', UPLO="U"', "False": ""}.get(text.get("upper", "True"))
        vectors = text.get("eigenvectors", "False")
        if triangle is None or vectors not in ("True", "False"):
            return None
        if vectors == "True":
            new = f"torch.linalg.eigh({text['input']}{triangle})"
            edits = (ctx.rewrite.replace(call, new),)
        else:
            new = f"torch.linalg.eigvalsh({text['input']}{triangle})"
            edits = _first_result(call, "eigenvalues", new, ctx)
    if edits is None:
        return None
    title = f"replace `torch.{name}` with `{new.partition('(')[0]}`"
    return ctx.rewrite.fix(title, *edits, *imports)


def _first_result(call: ast.Call, attribute: str, new: str, ctx: Context) -> tuple[Change, ...] | None:
    """The rewrites for code that uses only the first of two results; None for other code."""
    outer = ctx.parent(call)
    match outer:
        case ast.Subscript(slice=ast.Constant(value=0)) | ast.Attribute():
            if isinstance(outer, ast.Subscript) or outer.attr == attribute:
                return (ctx.rewrite.replace(outer, new),)
        case ast.Assign(targets=[ast.Tuple(elts=[first, ast.Name(id=second)]) as target]):
            is_read = any(True for _ in ctx.names.loads(second))
            if not is_read and not ctx.program.is_imported_elsewhere(second):
                return ctx.rewrite.replace(target, ctx.text(first)), ctx.rewrite.replace(call, new)
    return None
