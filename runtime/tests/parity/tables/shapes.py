"""Operators that arrange elements, and that read or write those at some indices."""

from __future__ import annotations

import torch
from torch.nn import functional

from ..samples import Table, bf16, boolean, c64, f32, i32, in_place, index, u8

SHAPES = Table()
SHAPES.add(
    {
        "adjoint": lambda x: x.adjoint(),
        "as_strided": lambda x: x.as_strided((2, 2), (4, 1), 1),
        "atleast": lambda x: (torch.atleast_1d(x), torch.atleast_2d(x), torch.atleast_3d(x)),
        "block_diag": lambda x: torch.block_diag(x, x[:1]),
        "broadcast_to": lambda x: (torch.broadcast_to(x, (2, 3, 4)), x[:1].expand(5, 4), x[:1].expand_as(x)),
        "broadcast_tensors": lambda x: torch.broadcast_tensors(x[:1], x),
        "cartesian_prod": lambda x: torch.cartesian_prod(x[0], x[1]),
        "cat": lambda x: (torch.cat([x, x]), torch.cat([x, x[:, :1]], -1)),
        "chunk": lambda x: (x.chunk(2, 1), x.chunk(2), x.unsafe_chunk(2, 1)),
        "clone": lambda x: (x.clone(), x.t().clone()),
        "column_stack": lambda x: torch.column_stack([x[0], x[1]]),
        "constant_pad": lambda x: (functional.pad(x, (1, 2)), functional.pad(x, (1, 0, 0, 2), value=2)),
        "negative pad": lambda x: functional.pad(x, (-1, 1)),
        "contiguous": lambda x: x.t().contiguous(),
        "diag": lambda x: (x.diag(), x[0].diag(), x.diag(1)),
        "diag_embed": lambda x: (x.diag_embed(), x.diag_embed(1)),
        "diagflat": lambda x: x[0].diagflat(),
        "diagonal": lambda x: (x.diagonal(), x.diagonal(1), torch.linalg.diagonal(x, offset=-1)),
        "dstack": lambda x: (torch.dstack([x, x]), torch.hstack([x, x]), torch.vstack([x, x])),
        "flatten": lambda x: (x.flatten(), x[None].flatten(1), x.ravel(), x[None].flatten(0, 1)),
        "flip": lambda x: (x.flip(0), x.flip(0, 1), x.fliplr(), x.flipud()),
        "meshgrid": lambda x: (*torch.meshgrid(x[0], x[:, 0], indexing="ij"),),
        "meshgrid by xy": lambda x: (*torch.meshgrid(x[0], x[:, 0], indexing="xy"),),
        "movedim": lambda x: (x.movedim(0, 1), x.moveaxis(0, -1), x[None].movedim((0, 1), (2, 0))),
        "mT": lambda x: (x.mT, x.T, x[None].mT, x.mH),
        "narrow": lambda x: (x.narrow(1, 1, 2), x.narrow_copy(0, 1, 2)),
        "permute": lambda x: (x.permute(1, 0), x[None].permute(2, 0, 1)),
        "repeat": lambda x: (x.repeat(2, 1), x.repeat(2, 1, 2), x.tile(2)),
        "repeat_interleave": lambda x: (x.repeat_interleave(2), x.repeat_interleave(2, dim=0)),
        "reshape": lambda x: (x.reshape(4, 3), x.reshape(-1), x.t().reshape(2, -1), x.reshape_as(x.t())),
        "roll": lambda x: (x.roll(1), x.roll(1, 0), x.roll((1, 2), (0, 1)), x.roll(-1, 1)),
        "rot90": lambda x: (x.rot90(), x.rot90(2), torch.rot90(x, -1, (1, 0))),
        "select": lambda x: (x.select(0, 1), x.select(1, -1)),
        "split": lambda x: (x.split(2), x.split([1, 3], 1), torch.split(x, 3, -1)),
        "split by dimensions": lambda x: (
            x.hsplit(2),
            torch.vsplit(x, 3),
            x.tensor_split(2),
            x.tensor_split((1,), 1),
        ),
        "squeeze": lambda x: (x[:1].squeeze(), x[:1].squeeze(0), x[:1, :1].squeeze((0, 1))),
        "stack": lambda x: (torch.stack([x, x]), torch.stack([x, x], -1)),
        "swapaxes": lambda x: (x.swapaxes(0, 1), x.swapdims(0, 1)),
        "t": lambda x: (x.t(), x[0].t()),
        "transpose": lambda x: x.transpose(0, 1),
        "tril": lambda x: (x.tril(), x.tril(1), x.triu(), x.triu(-1)),
        "unbind": lambda x: (x.unbind(), x.unbind(1)),
        "unflatten": lambda x: x.unflatten(1, (2, 2)),
        "unsqueeze": lambda x: (x.unsqueeze(0), x.unsqueeze(-1), x[None], x[:, None]),
        "view": lambda x: (x.view(4, 3), x.view(-1), x.view(2, -1), x.view_as(x)),
    },
    (f32(3, 4),),
    (i32(3, 4),),
)
SHAPES.add(
    {
        "trace": torch.trace,
        "view of complex numbers": lambda x: x.view(3, 2, 2).select(-1, 0),
    },
    (f32(3, 4),),
)
SHAPES.add(
    {
        "kron": torch.kron,
        "cat of two": lambda x, y: (torch.cat([x, y]), torch.concat([x, y], 1), torch.stack([x, y])),
    },
    (f32(3, 4), f32(3, 4)),
    (i32(3, 4), i32(3, 4)),
)
SHAPES.add(
    {"cat of several dtypes": lambda x, y: torch.cat([x, y])}, (f32(3, 4), i32(2, 4)), (bf16(3, 4), f32(1, 4))
)
SHAPES.add(
    {
        "pad by reflection": lambda x: functional.pad(x, (1, 2, 2, 1), mode="reflect"),
        "pad by replication": lambda x: functional.pad(x, (1, 2, 2, 1), mode="replicate"),
        "pad circularly": lambda x: functional.pad(x, (1, 2, 2, 1), mode="circular"),
        "pixel_shuffle": lambda x: functional.pixel_shuffle(x, 2),
        "channel_shuffle": lambda x: functional.channel_shuffle(x, 2),
        "pixel_unshuffle": lambda x: functional.pixel_unshuffle(x[..., :4, :4], 2),
        "unfold of images": lambda x: functional.unfold(x, 2, padding=1, stride=2),
    },
    (f32(1, 4, 5, 6),),
)
SHAPES.add(
    {"fold": lambda x: functional.fold(x, (4, 5), (2, 3), padding=1, stride=(2, 1))}, (f32(2, 12, 15),)
)
SHAPES.add(
    {
        "bits of floats": lambda x: (x.detach().view(torch.int32), x.detach().view(torch.int16)),
        "dtypes of floats": lambda x: (
            x.int(),
            x.long(),
            x.bool(),
            x.half(),
            x.bfloat16(),
            x.double(),
            x.to(torch.uint8),
        ),
    },
    (f32(3, 4, low=0),),
)
SHAPES.add(
    {
        "dtypes of integers": lambda x: (
            x.float(),
            x.bool(),
            x.to(torch.bfloat16),
            x.byte(),
            x.type(torch.float32),
        ),
        "bits of integers": lambda x: (x.view(torch.float32), x.view(torch.uint8)),
    },
    (i32(3, 4, low=0),),
)
SHAPES.add({"dtypes of bools": lambda x: (x.float(), x.int(), x.byte(), x.bfloat16())}, (boolean(3, 4),))
SHAPES.add(
    {
        "neg_view": lambda x: (x.conj().imag, torch._neg_view(x.real)),
        "resolve_conj": lambda x: x.conj().resolve_conj(),
    },
    (c64(3, 4),),
)

INDEXING = Table()
_AT = index(5, below=3)
INDEXING.add(
    {
        "items": lambda x: (x[1], x[-1], x[0, 2], x[..., 0], x[None, 1], x[0:1], x[:, 1::2], x[:, :-1]),
        "items at lists": lambda x: (x[[0, 1]], x[:, [0, 2]], x[[0, 2], [1, 1]], x[[True, False, True]]),
        "items at masks": lambda x: (
            x[x > 0],
            x[x[:, 0] > 0],
            x[:, torch.tensor([True, False, True, False])],
        ),
        "items at tensors": lambda x: (
            x[torch.tensor([2, 0], device=x.device)],
            x[:, torch.tensor([[0, 2], [1, 1]], device=x.device)],
            x[torch.tensor([0, -1], device=x.device), torch.tensor([1, 2], device=x.device)],
        ),
        "where of a condition": lambda x: torch.where(x > 0),
        "argwhere": lambda x: torch.argwhere(x > 0),
        "nonzero": lambda x: (torch.nonzero(x > 0), (x > 0).nonzero(as_tuple=True)),
        "masked_select": lambda x: x.masked_select(x > 0),
        "masked_fill": lambda x: (x.masked_fill(x > 0, -1), torch.masked_fill(x, x > 1, torch.tensor(2.0))),
        "tril_indices": lambda x: x[*torch.tril_indices(3, 4, device=x.device)],
    },
    (f32(3, 4),),
)
INDEXING.add(
    {
        "index_select": lambda x, at: (
            x.index_select(0, at),
            x.index_select(1, at[:1]),
            x.index_select(0, at[0]),
        ),
        "item at an index of one element": lambda x, at: x[at[0]],
        "take": lambda x, at: x.take(at),
        "embedding": lambda x, at: (functional.embedding(at, x), functional.embedding(at, x, padding_idx=1)),
        "embedding_bag": lambda x, at: functional.embedding_bag(
            at, x, torch.tensor([0, 2], device=at.device)
        ),
        "embedding_bag by sum": lambda x, at: functional.embedding_bag(
            at, x, torch.tensor([0, 2, 5], device=at.device), mode="sum", include_last_offset=True
        ),
        "embedding_bag by max": lambda x, at: functional.embedding_bag(at.view(1, 5), x, mode="max"),
        "embedding_bag with weights": lambda x, at: functional.embedding_bag(
            at.view(1, 5), x, mode="sum", per_sample_weights=x[0, 0] * torch.ones(1, 5, device=at.device)
        ),
        "embedding_bag with padding": lambda x, at: functional.embedding_bag(at.view(1, 5), x, padding_idx=1),
    },
    (f32(3, 4), _AT),
)
INDEXING.add(
    {"one_hot": lambda at: functional.one_hot(at, 4), "one_hot of unknown classes": functional.one_hot},
    (_AT,),
)
INDEXING.add(
    {
        "gather": lambda x, at: (x.gather(0, at), torch.gather(x, 1, at)),
        "take_along_dim": lambda x, at: (
            x.take_along_dim(at, 0),
            torch.take_along_dim(x, at[:, :2].view(2, 2)[:1], 1),
        ),
        "take_along_dim of all": lambda x, at: torch.take_along_dim(x, at.view(-1)),
        "scatter": lambda x, at: x.scatter(1, at, 2.0),
    },
    (f32(3, 4), index(2, 4, below=3)),
)
INDEXING.add(
    {
        "index_add": lambda x, y, at: x.index_add(0, at, y),
        "index_add with alpha": lambda x, y, at: x.index_add(0, at, y, alpha=2),
        "index_put with sums": lambda x, y, at: x.index_put((at,), y, accumulate=True),
        "index_reduce by prod": lambda x, y, at: x.index_reduce(0, at, y, "prod"),
        "index_reduce by mean": lambda x, y, at: x.index_reduce(0, at, y, "mean"),
        "index_reduce by amax": lambda x, y, at: x.index_reduce(0, at, y, "amax", include_self=False),
        "index_reduce by amin": lambda x, y, at: x.index_reduce(0, at, y, "amin"),
        "index_add_": lambda x, y, at: x.clone().index_add_(0, at, y),
        "index_put_ with sums": lambda x, y, at: x.clone().index_put_((at,), y, accumulate=True),
        "index_reduce_": lambda x, y, at: x.clone().index_reduce_(0, at, y, "prod"),
    },
    (f32(3, 4), f32(5, 4), _AT),
)
INDEXING.add(
    {
        "scatter_add": lambda x, y, at: x.scatter_add(0, at, y),
        "scatter_reduce by sum": lambda x, y, at: x.scatter_reduce(0, at, y, "sum"),
        "scatter_reduce by mean": lambda x, y, at: x.scatter_reduce(0, at, y, "mean", include_self=False),
        "scatter_reduce by amax": lambda x, y, at: x.scatter_reduce(0, at, y, "amax"),
        "scatter_reduce by amin": lambda x, y, at: x.scatter_reduce(0, at, y, "amin"),
        "scatter_reduce by prod": lambda x, y, at: x.scatter_reduce(0, at, y, "prod"),
        "scatter with sums": lambda x, y, at: x.detach().scatter(0, at, y.detach(), reduce="add"),
        "scatter_add_": lambda x, y, at: x.clone().scatter_add_(0, at, y),
        "scatter_reduce_": lambda x, y, at: x.clone().scatter_reduce_(0, at, y, "sum"),
    },
    (f32(3, 4), f32(2, 4), index(2, 4, below=3)),
)
INDEXING.add(
    {
        "index_copy": lambda x, y: x.index_copy(0, torch.tensor([2, 0], device=x.device), y),
        "index_fill": lambda x, y: x.index_fill(1, torch.tensor([2, 0], device=x.device), 0.5) + y[:1],
        "index_put": lambda x, y: x.index_put((torch.tensor([2, 0], device=x.device),), y),
        "masked_scatter": lambda x, y: x.masked_scatter(x > 0, torch.cat([y, y])),
        "select_scatter": lambda x, y: (x.select_scatter(y[0], 0, 1), x.slice_scatter(y, 0, 1, 3)),
        "diagonal_scatter": lambda x, y: x.diagonal_scatter(y[0, :3]),
        "put": lambda x, y: x.put(torch.tensor([3, 0], device=x.device), y[0, :2]),
        "index_copy_": lambda x, y: x.clone().index_copy_(0, torch.tensor([2, 0], device=x.device), y),
        "index_fill_": lambda x, y: (
            x.clone().index_fill_(1, torch.tensor([2, 0], device=x.device), 0.5) + y[:1]
        ),
        "put_": lambda x, y: x.clone().put_(torch.tensor([3, 0], device=x.device), y[0, :2]),
        "masked_fill_": lambda x, y: (
            x.clone().masked_fill_(x > 0, -1),
            y.clone().masked_fill_(y > 0, y.detach()[0, 0]),
        ),
        "masked_scatter_": lambda x, y: x.clone().masked_scatter_(x > 0, torch.cat([y, y])),
        "scatter_": lambda x, y: x.clone().scatter_(
            0, torch.tensor([[0, 1, 2, 0], [1, 2, 0, 1]], device=x.device), y
        ),
        "fill_diagonal_": lambda x, y: (x.clone().fill_diagonal_(2), y.clone().fill_diagonal_(1)),
        "tril_": lambda x, y: (x.clone().tril_(), y.clone().triu_(1)),
        "resize_": lambda x, y: (
            x.detach().clone().resize_(2, 2),
            y.detach().clone().resize_as_(x.detach()[:2, :2]),
        ),
    },
    (f32(3, 4), f32(2, 4)),
)


def _assigned(*index: object) -> object:
    """A function that writes to items of a tensor."""

    def assign(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        written = x.clone()
        for one in index:
            written[one] = y[0, 0]
        return written

    return assign


INDEXING.add(
    {
        "assigned items": _assigned(1, (0, 2), slice(0, 1), (..., 1)),
        "assigned items with steps": _assigned((slice(None), slice(1, None, 2))),
        "assigned items at lists": _assigned([0, 2], (slice(None), [1])),
        "assigned items at bools": _assigned([True, False, True]),
        "assigned items at a mask": lambda x, y: _assigned(x.detach() > 0)(x, y),
        "assigned rows": lambda x, y: _written(x, torch.tensor([2, 0], device=x.device), y),
        "assigned columns": lambda x, y: _written(x, (slice(None), 1), y[0, :3]),
        "assigned numbers": lambda x, y: _written(x, (0, slice(1, 3)), 7.0) + y[:1],
        "added items": lambda x, y: _added(x, y),
    },
    (f32(3, 4), f32(2, 4)),
)


def _written(x: torch.Tensor, at: object, value: object) -> torch.Tensor:
    written = x.clone()
    written[at] = value
    return written


def _added(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    written = x.clone()
    written[1:] += y
    written[0] *= 2
    written[:, 1].sub_(y[0, 0])
    return written


INDEXING.add(in_place("unsqueeze_", "squeeze_"), (f32(3, 4), 0), (f32(1, 4), 0))
INDEXING.add({"bincount of bytes": lambda x: torch.bincount(x, minlength=4)}, (u8(6, high=4),))
SHAPES.add(
    {
        "unfold": lambda x: (x.unfold(1, 2, 1), x.unfold(0, 2, 2)),
        "vander": lambda x: torch.vander(x.detach()[0], 3),
        "combinations": lambda x: torch.combinations(x[0]),
    },
    (f32(3, 4),),
    is_composite=True,
)
