"""Operator that torchax lacks or cannot trace.

## What it does

Flags, in code that tracing reaches, functions of torch and methods of tensors that raise on torchax, that
raise only under jit, or that the TPU's compiler rejects, such as `torch.histogram`, `torch.vander`,
`torch.ldexp`, `F.adaptive_max_pool2d`, `F.ctc_loss`, `F.grouped_mm`, `F.affine_grid`,
`torch.take_along_dim`, `index_reduce`, `to_sparse`, `torch.cov`, `F.embedding_bag`, `torch.linalg.lstsq`,
`torch.linalg.eig` and `torch.promote_types`, and `view` as another dtype.
In programs that use a device, also the modules of torch that call them, such as `nn.AdaptiveMaxPool2d`
and `nn.CTCLoss`, and `torch.distributions`, which check their arguments; `torch.searchsorted` with
`right` or `side`; and, traced or not, those functions that the fix brings in: without jit `max_unpool2d`
goes from element to element.
Branches that only CUDA reaches are left alone.

The list was made by running each on torch 2.13.0, torchax 0.0.14.dev20261026 and jax 0.10.2;
`python -m tpulint.dev probe-operators` makes it anew from what is installed.
What is not on it is unknown.

## Why it matters on TPU

With and without jit, for most: `torchax.ops.ops_registry.OperatorNotFound: Operator with name
aten::histogram.bin_ct has no lowering`; for `take_along_dim` `RuntimeError: torch.take_along_dim(): dtype of
indices should be Long but got Int`; for `x.view(torch.int32)` `TypeError: Shapes must be 1D sequences of
concrete values of integer type, got [torch.int32]`; for `searchsorted` `TypeError: _aten_searchsorted() got
an unexpected keyword argument 'right'`.

Only under jit: `torch.cov` raises `TracerBoolConversionError: Attempted boolean conversion of traced array`,
`embedding_bag` and `max_unpool2d` `TracerArrayConversionError: The numpy.ndarray conversion method
__array__() was called on traced array`, `gaussian_nll_loss` and `linalg.lstsq`
`ConcretizationTypeError: Abstract tracer value encountered where concrete value is expected`.

`torch.linalg.eig` traces, and ends in `NotImplementedError: MLIR translation rule for primitive 'eig' not
found for platform tpu`.

## Fix safety

Safe: `torch.cholesky(x)`, `torch.det(x)` and `torch.slogdet(x)` become `torch.linalg.cholesky(x)` and so on,
`torch.promote_types(a, b)`
`torch.result_type` of tensors of these types, `torch.histogram(x, bins=n, range=(a, b)).hist`
`torch.histc`, `torch.vander(x, n)` and `torch.ldexp(x, n)` powers, `adaptive_max_pool2d(x, 1)`
`max_pool2d` with a window of the whole,
`embedding_bag(ids, weight)` without offsets `F.embedding` and a mean, `torch.cov(x)` `jax.numpy.cov`, and
`take_along_dim` `jax.numpy.take_along_axis`, which broadcasts the index likewise (`gather` does not).

Unsafe:

- `index_reduce` becomes `scatter_reduce`: the tensor has one dimension.
- `ctc_loss`, `affine_grid`, `pack_padded_sequence` (and with it recurrent layers over packed sequences),
  `adaptive_max_pool2d`, `max_unpool2d` and windows such as `hann_window`, with the modules that call them,
  stay as they are: `torchax_training`, a folder that is written beside the fixed file, brings them in by
  functions of JAX.
  A packed sequence has as many elements as its lengths say, so that what packs one is compiled call by call
  where the lengths are an input.
- `lstsq(a, b).solution` becomes `jax.numpy.linalg.lstsq`: the matrices are no batches, and `a` has full rank.
- `torch.distributions.Categorical(p)` gets `validate_args=False`: bad arguments are not reported any more.
- `torch.searchsorted(a, v, right=True)` counts `a <= v`: there is no NaN, and room for all comparisons.
- `x.view(torch.int32)` becomes `jax.lax.bitcast_convert_type`: both dtypes have 32 bits.

## Without a fix

- `gaussian_nll_loss(x, y, var)`: `var = var.clamp(min=1e-6)`, then
  `(0.5 * (var.log() + (x - y) ** 2 / var)).mean()`.
- `embedding_bag` with offsets that are fixed: `F.embedding`, and `index_add` by the number of the bag.
- `eig` of a symmetric matrix is `eigh`; of another, compute it on the host.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.knowledge.operators import FAILS_ON_TPU, RAISES, RAISES_UNDER_JIT
from tpulint.knowledge.training import TRAINING
from tpulint.model.values.kinds import Array, Data, Kind, Several, Static, Tensor
from tpulint.rule import Context, Rule

rule = Rule("TPU631", "operator that torchax lacks or cannot trace", module=__name__, fix=Applicability.SAFE)

_KNOWN = {**RAISES, **RAISES_UNDER_JIT, **FAILS_ON_TPU}
_METHOD = "torch.Tensor."
_MODULE = "torch.nn."


def _last(names: set[str]) -> frozenset[str]:
    return frozenset(name.rpartition(".")[2] for name in names)


#: Those that the companion brings in.
_BROUGHT = {
    name
    for name in (*RAISES, *RAISES_UNDER_JIT)
    if name.rpartition(".")[2]
    .lower()
    .startswith(("adaptivemaxpool", "adaptive_max_pool", "maxunpool", "max_unpool"))
    or name.endswith(
        ("_window", ".affine_grid", ".CTCLoss", ".ctc_loss", ".pack_padded_sequence", ".sparse_coo_tensor")
    )
}
_MODULES = {name for name in _KNOWN if name.startswith(_MODULE) and name.count(".") == 2}
_WITHOUT_TENSORS = {name for name in _KNOWN if name.endswith("_window")} | {
    "torch.can_cast",
    "torch.promote_types",
}
#: What `view` takes as a dtype.
_DTYPES = frozenset(
    f"torch.{kind}{width}" for kind in ("int", "float", "uint") for width in ("8", "16", "32", "64", "")
) | {"torch.bfloat16", "torch.half", "torch.long", "torch.short"}
#: Those of `torch.distributions` that work once their arguments go unchecked.
_DISTRIBUTIONS = frozenset(
    {
        *("Bernoulli", "Categorical", "Cauchy", "ContinuousBernoulli", "Exponential", "Geometric", "Gumbel"),
        *("HalfNormal", "Laplace", "LogNormal", "MultivariateNormal", "Normal", "Pareto", "Uniform"),
        "Weibull",
    }
)


@rule.on(ast.Call, named=_last(_BROUGHT))
def brought(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name not in _BROUGHT or ctx.only_with_cuda(call) or ctx.module.project.imports_any(TRAINING.name):
        return
    if not ctx.serves_device and (ctx.trace_path is None or name in _MODULES):
        return
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    if name not in _WITHOUT_TENSORS | _MODULES and (not given or _is_of_host(ctx.kind(given[0]))):
        return
    make = _FIXES.get(name.rpartition(".")[2])
    fix = make(call, call.args, ctx) if make is not None else None
    fix = fix or ctx.companion_fix(TRAINING)
    yield ctx.finding(call, f"`{name}` {_happens(name)}", fix)


@rule.on(ast.Call, named=_last(_KNOWN.keys() - _MODULES - _BROUGHT), traced=True)
def operator(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name is None:
        if not isinstance(call.func, ast.Attribute) or not ctx.kind(call.func.value).is_traced:
            return
        name = _METHOD + call.func.attr
        shown, operands = f".{call.func.attr}()", [call.func.value, *call.args]
    else:
        shown, operands = name, call.args
    if name not in _KNOWN or name in _MODULES | _BROUGHT or ctx.only_with_cuda(call):
        return
    given = [*operands, *(keyword.value for keyword in call.keywords)]
    if name not in _WITHOUT_TENSORS and (not given or _is_of_host(ctx.kind(given[0]))):
        return
    make = _FIXES.get(name.rpartition(".")[2])
    plain = not any(isinstance(value, ast.Starred) for value in operands)
    fix = make(call, operands, ctx) if make is not None and plain else None
    yield ctx.finding(call, f"`{shown}` {_happens(name)}", fix)


@rule.on(ast.Call, named=_last(_MODULES - _BROUGHT))
def module(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func)
    if name in _MODULES - _BROUGHT and ctx.serves_device and not ctx.only_with_cuda(call):
        yield ctx.finding(call, f"`{name}` {_happens(name)}")


@rule.on(ast.Call, named=_DISTRIBUTIONS)
def distribution(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = ctx.qualified_name(call.func) or ""
    if not name.startswith("torch.distributions.") or not ctx.serves_device or ctx.only_with_cuda(call):
        return
    given: list[ast.expr | ast.keyword] = [*call.args, *call.keywords]
    values = [*call.args, *(keyword.value for keyword in call.keywords)]
    if any(keyword.arg in ("validate_args", None) for keyword in call.keywords) or not given:
        return
    if all(_is_of_host(ctx.kind(value)) for value in values):
        return
    edit = ctx.insert(max(ctx.span(one).end for one in given), ", validate_args=False")
    fix = ctx.fix("leave its arguments unchecked", edit, applicability=Applicability.UNSAFE)
    message = "checks its arguments by `aten::_is_all_true`, which has no lowering on torchax"
    yield ctx.finding(call, f"`{name}` {message}", fix)


@rule.on(ast.Call, named={"view"}, traced=True)
def bits(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not isinstance(call.func, ast.Attribute) or len(call.args) != 1 or call.keywords:
        return
    dtype = ctx.qualified_name(call.args[0])
    if dtype not in _DTYPES or not ctx.kind(call.func.value).is_traced or ctx.only_with_cuda(call):
        return
    fix = None
    if dtype in ("torch.int32", "torch.float32"):
        cast = f"jax.lax.bitcast_convert_type(array, jax.numpy.{dtype.removeprefix('torch.')})"
        fix = _by_jax(call, f"lambda array: {cast}, {ctx.text(call.func.value)}", ctx, Applicability.UNSAFE)
    yield ctx.finding(call, "`view` as another dtype raises `TypeError` on torchax", fix)


@rule.on(ast.Call, named={"searchsorted"}, passing={"right", "side"})
def sided(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if ctx.qualified_name(call.func) != "torch.searchsorted" or ctx.only_with_cuda(call):
        return
    kinds = [ctx.kind(value) for value in call.args[:1]]
    learned = ctx.is_differentiated and any(kind.is_traced for kind in kinds)
    if not (learned or ctx.trace_path) or any(map(_is_of_host, kinds)):
        return
    given = _keywords(call, "right", "side")
    sides = [value.value for value in (given or {}).values() if isinstance(value, ast.Constant)]
    fix = None
    if given is not None and len(sides) == len(given) == 1 and len(call.args) == 2:
        row, values = map(ctx.operand, call.args)
        sign = "<=" if sides[0] in (True, "right") else "<"
        plain = isinstance(call.args[1], ast.Constant) or any(isinstance(a, ast.Starred) for a in call.args)
        if not plain:
            edit = ctx.replace(call, f"({row}.unsqueeze(-2) {sign} {values}.unsqueeze(-1)).sum(-1)")
            fix = ctx.fix("count what is smaller", edit, applicability=Applicability.UNSAFE)
    message = "`torch.searchsorted` knows neither `right` nor `side` on torchax, and raises `TypeError`"
    yield ctx.finding(call, message, fix)


def _is_of_host(kind: Kind) -> bool:
    if isinstance(kind, Several):
        kind = kind.element
    return isinstance(kind, Static | Data | Array) or (isinstance(kind, Tensor) and kind.is_host)


def _happens(name: str) -> str:
    if name in FAILS_ON_TPU:
        return "traces, but the TPU's compiler does not know it"
    reason = _KNOWN[name]
    if name in RAISES_UNDER_JIT:
        return f"raises `{reason}` under jit"
    return f"has no lowering on torchax (`{reason}`)" if "::" in reason else f"raises `{reason}` on torchax"


# fixes: each is given the call and its operands, of which a method's receiver is the first


def _keywords(call: ast.Call, *allowed: str) -> dict[str, ast.expr] | None:
    """A call's keyword arguments, None where one is not among those allowed."""
    given = {keyword.arg: keyword.value for keyword in call.keywords}
    return {name: given[name] for name in given if name} if given.keys() <= set(allowed) else None


def _by_jax(call: ast.Call, arguments: str, ctx: Context, applicability: Applicability) -> Fix | None:
    imports = ctx.imports("import jax", "import torchax")
    if imports is None:
        return None
    edit = ctx.replace(call, f"torchax.interop.call_jax({arguments})")
    return ctx.fix("use the function of JAX", edit, *imports, applicability=applicability)


def _of_linalg(name: str) -> Callable[[ast.Call, list[ast.expr], Context], Fix | None]:
    def make(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
        imports = ctx.imports("import torch")
        if len(operands) != 1 or call.keywords or imports is None:
            return None
        edit = ctx.replace(call, f"torch.linalg.{name}({ctx.text(operands[0])})")
        return ctx.fix(f"use `torch.linalg.{name}`", edit, *imports)

    return make


def _promote_types(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    imports = ctx.imports("import torch")
    if len(operands) != 2 or call.keywords or imports is None:
        return None
    empty = ", ".join(f"torch.empty(1, dtype={ctx.text(operand)})" for operand in operands)
    edit = ctx.replace(call, f"torch.result_type({empty})")
    return ctx.fix("use `torch.result_type`", edit, *imports)


def _cov(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    given = _keywords(call, "correction")
    if len(operands) != 1 or given is None:
        return None
    ddof = f", ddof={ctx.text(given['correction'])}" if given else ""
    return _by_jax(call, f"jax.numpy.cov, {ctx.text(operands[0])}{ddof}", ctx, Applicability.SAFE)


def _histogram(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    given = _keywords(call, "bins", "range")
    outer, imports = ctx.parent(call), ctx.imports("import torch")
    if given is None or imports is None or not isinstance(outer, ast.Attribute) or outer.attr != "hist":
        return None
    bins = operands[1] if len(operands) == 2 else given.get("bins")
    match given.get("range"):
        case ast.Tuple(elts=[low, high]) if isinstance(bins, ast.Constant) and len(operands) <= 2:
            arguments = f"bins={ctx.text(bins)}, min={ctx.text(low)}, max={ctx.text(high)}"
            edit = ctx.replace(outer, f"torch.histc({ctx.text(operands[0])}, {arguments})")
            return ctx.fix("use `torch.histc`", edit, *imports)
        case _:
            return None


def _ldexp(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    if len(operands) != 2 or call.keywords:
        return None
    code = f"{ctx.operand(operands[0])} * 2.0 ** {ctx.operand(operands[1])}"
    return ctx.fix("write the product out", ctx.replace(call, ctx.grouped(call, code)))


def _vander(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    imports = ctx.imports("import torch")
    if len(operands) != 2 or call.keywords or imports is None or not isinstance(operands[0], ast.Name):
        return None
    name, columns = operands[0].id, operands[1]
    last = columns.value - 1 if isinstance(columns, ast.Constant) and isinstance(columns.value, int) else None
    start = str(last) if last is not None else f"{ctx.operand(columns)} - 1"
    code = f"{name}.unsqueeze(-1) ** torch.arange({start}, -1, -1, device={name}.device)"
    return ctx.fix("write the powers out", ctx.replace(call, ctx.grouped(call, code)), *imports)


def _index_reduce(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    given = _keywords(call, "include_self")
    if len(operands) != 5 or given is None:
        return None
    receiver, *rest = operands
    words = [ctx.text(part) for part in rest] + [f"{word}={ctx.text(value)}" for word, value in given.items()]
    edit = ctx.replace(call, f"{ctx.operand(receiver)}.scatter_reduce({', '.join(words)})")
    return ctx.fix("use `scatter_reduce`", edit, applicability=Applicability.UNSAFE)


def _take_along_dim(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    given = _keywords(call, "dim")
    if given is None or len(operands) + len(given) != 3:
        return None
    dim = ctx.text(given["dim"] if given else operands[2])
    arguments = f"jax.numpy.take_along_axis, {ctx.text(operands[0])}, {ctx.text(operands[1])}, {dim}"
    return _by_jax(call, arguments, ctx, Applicability.SAFE)


def _lstsq(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    outer = ctx.parent(call)
    if (
        len(operands) != 2
        or call.keywords
        or not isinstance(outer, ast.Attribute)
        or outer.attr != "solution"
    ):
        return None
    imports = ctx.imports("import jax", "import torchax")
    if imports is None:
        return None
    arguments = f"jax.numpy.linalg.lstsq, {ctx.text(operands[0])}, {ctx.text(operands[1])}"
    edit = ctx.replace(outer, f"torchax.interop.call_jax({arguments})[0]")
    return ctx.fix("use the function of JAX", edit, *imports, applicability=Applicability.UNSAFE)


def _max_pool(dimensions: int) -> Callable[[ast.Call, list[ast.expr], Context], Fix | None]:
    """Adaptive pooling to a single element."""

    def make(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
        given = _keywords(call, "output_size")
        if given is None or len(operands) + len(given) != 2 or not isinstance(operands[0], ast.Name):
            return None
        size = given["output_size"] if given else operands[1]
        outer, adaptive, rest = ctx.text(call.func).rpartition("adaptive_")
        if not isinstance(size, ast.Constant) or size.value != 1 or not outer or not adaptive:
            return None
        parts = [f"{operands[0].id}.shape[{axis}]" for axis in range(-dimensions, 0)]
        window = f"({', '.join(parts)})" if dimensions > 1 else parts[0]
        edit = ctx.replace(call, f"{outer}{rest}({operands[0].id}, {window})")
        return ctx.fix(f"use `max_pool{dimensions}d`", edit)

    return make


def _embedding_bag(call: ast.Call, operands: list[ast.expr], ctx: Context) -> Fix | None:
    given = _keywords(call, "mode")
    imports = ctx.imports("import torch")
    if given is None or len(operands) != 2 or imports is None:
        return None
    mode = given.get("mode", ast.Constant("mean"))
    if not isinstance(mode, ast.Constant) or mode.value not in ("mean", "sum"):
        return None  # at equal maxima, the gradient of `amax` is another
    arguments = ", ".join(map(ctx.text, operands))
    edit = ctx.replace(call, f"torch.nn.functional.embedding({arguments}).{mode.value}(1)")
    return ctx.fix("reduce the embeddings", edit, *imports)


_FIXES: dict[str, Callable[[ast.Call, list[ast.expr], Context], Fix | None]] = {
    "cholesky": _of_linalg("cholesky"),
    "det": _of_linalg("det"),
    "slogdet": _of_linalg("slogdet"),
    "promote_types": _promote_types,
    "cov": _cov,
    "histogram": _histogram,
    "ldexp": _ldexp,
    "vander": _vander,
    "index_reduce": _index_reduce,
    "take_along_dim": _take_along_dim,
    "lstsq": _lstsq,
    "adaptive_max_pool1d": _max_pool(1),
    "adaptive_max_pool2d": _max_pool(2),
    "adaptive_max_pool3d": _max_pool(3),
    "embedding_bag": _embedding_bag,
}
