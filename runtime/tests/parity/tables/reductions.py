"""Operators over the elements of dimensions: reductions, sorting, searching and scans."""

from __future__ import annotations

import torch

from ..samples import Table, bf16, boolean, c64, distinct, f32, i32, index, positive, u8

REDUCTIONS = Table()
_FLOATS = ((f32(3, 4),), (f32(2, 3, 4),), (bf16(3, 4),))


def _over_dims(name: str) -> dict[str, object]:
    """A reduction of all elements, of one dimension, and of several."""
    function = getattr(torch, name)
    return {
        name: function,
        f"{name} over a dimension": lambda x: (function(x, dim=-1), function(x, dim=0, keepdim=True)),
        f"{name} over dimensions": lambda x: (function(x, dim=(0, 1)), function(x, dim=(-1,), keepdim=True)),
    }


for _name in ("sum", "mean", "std", "var", "std_mean", "var_mean"):
    REDUCTIONS.add(_over_dims(_name), *_FLOATS)
for _name in ("sum", "all", "any"):
    REDUCTIONS.add(
        {f"{key} of integers": function for key, function in _over_dims(_name).items()},
        (i32(3, 4),),
        (boolean(3, 4),),
        (u8(3, 4),),
    )
REDUCTIONS.add(
    {
        "sum in another type": lambda x: (x.sum(dtype=torch.float32), x.detach().sum(0, dtype=torch.int32)),
        "sum of no dimensions": lambda x: x.sum([]),
        "prod": torch.prod,
        "prod over a dimension": lambda x: x.prod(-1, keepdim=True),
        "cumsum": lambda x: x.cumsum(0),
        "cumprod": lambda x: x.cumprod(-1),
        "count_nonzero": lambda x: (x.count_nonzero(), x.count_nonzero(0)),
    },
    (f32(3, 4),),
    (i32(3, 4),),
)
REDUCTIONS.add(
    {
        "nansum": lambda x: (x.nansum(), x.nansum(-1)),
        "nanmean": lambda x: (x.nanmean(), x.nanmean(0)),
        "logsumexp": lambda x: x.logsumexp(-1),
        "logcumsumexp": lambda x: x.logcumsumexp(0),
        "std without correction": lambda x: (x.std(correction=0), x.var(0, unbiased=False)),
        "std of equal elements": lambda x: (x * 0 + 1).std(-1),
        "norm": lambda x: (x.norm(), x.norm(dim=-1), x.norm(1), x.norm(torch.inf, dim=0, keepdim=True)),
        "norm of zeros": lambda x: (x * 0).norm(dim=-1),
        "linalg.vector_norm": lambda x: (
            torch.linalg.vector_norm(x),
            torch.linalg.vector_norm(x, 3, dim=-1),
            torch.linalg.vector_norm(x, 1, dim=0),
            torch.linalg.vector_norm(x, 0),
            torch.linalg.vector_norm(x, -torch.inf, dim=1),
        ),
        "linalg.matrix_norm": lambda x: (torch.linalg.matrix_norm(x), torch.linalg.matrix_norm(x, 1)),
        "renorm": lambda x: x.renorm(2, 0, 1.5),
        "dist": lambda x: (torch.dist(x, x + 1), torch.dist(x, x), torch.dist(x, 2 * x, 1)),
        "diff": lambda x: (x.diff(), x.diff(n=2, dim=0)),
        "trapezoid": torch.trapezoid,
        "cumulative_trapezoid": torch.cumulative_trapezoid,
    },
    (f32(3, 4),),
)
REDUCTIONS.add(
    {
        "sum of complex": torch.sum,
        "mean of complex": lambda x: x.mean(0),
        "cumsum of complex": lambda x: x.cumsum(0),
    },
    (c64(3, 4),),
)
REDUCTIONS.add(
    {
        "max of all": torch.max,
        "min of all": torch.min,
        "amax": lambda x: (x.amax(), x.amax(0), x.amax((0, 1), keepdim=True)),
        "amin": lambda x: (x.amin(), x.amin(-1)),
        "aminmax": lambda x: tuple(x.aminmax()),
        "aminmax over a dimension": lambda x: tuple(torch.aminmax(x, dim=0)),
        "max": lambda x: tuple(x.max(-1)),
        "min": lambda x: tuple(x.min(0, keepdim=True)),
        "argmax": lambda x: (x.argmax(), x.argmax(0), x.argmax(-1, keepdim=True)),
        "argmin": lambda x: (x.argmin(), x.argmin(-1)),
    },
    (f32(3, 4),),
    (i32(3, 4),),
    (bf16(3, 4),),
)
REDUCTIONS.add(
    {"max of a number": lambda x: (tuple(x.max(0)), x.argmax(), x.sum(), x.mean(), tuple(x.sort()))}, (f32(),)
)
REDUCTIONS.add(
    {
        "cummax": lambda x: tuple(x.cummax(0)),
        "cummin": lambda x: tuple(x.cummin(-1)),
        "median": lambda x: (x.median(), tuple(x.median(0))),
        "nanmedian": lambda x: (x.nanmedian(), tuple(x.nanmedian(-1))),
        "kthvalue": lambda x: tuple(x.kthvalue(2, -1)),
        "topk": lambda x: (tuple(x.topk(2)), tuple(x.topk(2, 0, largest=False))),
        "msort": torch.msort,
    },
    (distinct(3, 4),),
)
REDUCTIONS.add(
    {
        "sort": lambda x: tuple(x.sort()),
        "sort descending": lambda x: tuple(x.sort(0, descending=True)),
        "sort stable": lambda x: tuple(x.sort(stable=True)),
        "sort stable, descending": lambda x: tuple(x.sort(dim=0, descending=True, stable=True)),
        "argsort": torch.argsort,
        "argsort descending": lambda x: x.argsort(0, descending=True),
        "argsort stable": lambda x: torch.argsort(x, stable=True),
    },
    (f32(3, 4),),
    (i32(3, 4),),
    (u8(3, 4, high=3),),
)
REDUCTIONS.add(
    {
        "mode": lambda x: tuple(x.mode()),
        "mode over a dimension": lambda x: tuple(torch.mode(x, 0, keepdim=True)),
        "bincount": lambda x: torch.bincount(x.abs().view(-1)[:4], minlength=7),
    },
    (i32(3, 4),),
)
REDUCTIONS.add(
    {
        "unique": torch.unique,
        "unique rows": lambda x: torch.unique(x, dim=0),
    },
    (i32(3, 4),),
)
REDUCTIONS.add(
    {
        "cov": torch.cov,
        "corrcoef": torch.corrcoef,
        "cross": lambda x: torch.linalg.cross(x[:, :3], x[:, 1:]),
    },
    (f32(3, 4),),
)
REDUCTIONS.add(
    {
        "searchsorted": lambda x, y: torch.searchsorted(x.sort()[0], y),
        "searchsorted right": lambda x, y: torch.searchsorted(x.sort()[0], y, right=True),
        "searchsorted by side": lambda x, y: torch.searchsorted(x.sort()[0], y, side="right"),
        "searchsorted with a sorter": lambda x, y: torch.searchsorted(x, y, sorter=x.argsort()),
        "searchsorted of 32 bits": lambda x, y: torch.searchsorted(x.sort()[0], y, out_int32=True),
    },
    (f32(3, 5), f32(3, 2)),
    (i32(3, 5), i32(3, 2)),
)
REDUCTIONS.add(
    {
        "searchsorted of a number": lambda x: torch.searchsorted(x.sort()[0], 0.5),
        "bucketize": lambda x: torch.bucketize(x.view(1, 5), x.sort()[0]),
        "bucketize right": lambda x: torch.bucketize(x, x.sort()[0], right=True),
        "bucketize of a number": lambda x: torch.bucketize(0.5, x.sort()[0]),
    },
    (f32(5),),
)
REDUCTIONS.add(
    {"isin": torch.isin, "equal": lambda x, y: (torch.equal(x, y), torch.equal(x, x))},
    (i32(3, 4), i32(3, 4)),
)
REDUCTIONS.add(
    {
        "allclose": lambda x: (torch.allclose(x, x + 1e-9), x.allclose(x + 1)),
        "is_any_true": lambda x: (torch.ops.aten._is_any_true(x > 1), torch.ops.aten._is_all_true(x > -9)),
    },
    (positive(3, 4),),
)
REDUCTIONS.add(
    {"sum by segments": lambda x, at: torch.zeros(3, 4, device=x.device).index_add(0, at, x)},
    (f32(5, 4), index(5, below=3)),
)
REDUCTIONS.add(
    {
        "quantile": lambda x: (
            x.quantile(0.3),
            x.quantile(0.5, dim=0),
            x.quantile(torch.tensor([0.1, 0.9]).to(x)),
        ),
        "nanquantile": lambda x: x.nanquantile(0.3, dim=-1),
        "quantile with interpolation": lambda x: (
            x.quantile(0.4, interpolation="lower"),
            x.quantile(0.4, interpolation="nearest"),
        ),
    },
    (distinct(3, 4),),
    is_composite=True,
)
REDUCTIONS.add(
    {
        "histc": lambda x: x.histc(4, -3, 3),
    },
    (f32(3, 4),),
    is_composite=True,
)
REDUCTIONS.add(
    {
        "unique with counts": lambda x: torch.unique(x, return_inverse=True, return_counts=True),
        "unique_consecutive": lambda x: torch.unique_consecutive(x.sort(-1)[0][0]),
    },
    (i32(3, 4),),
    is_composite=True,
)
