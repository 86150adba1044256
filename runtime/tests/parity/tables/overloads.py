"""Operators that programs call by `torch.ops.aten`, as graphs of `torch.export` and decompositions do."""

from __future__ import annotations

import torch

from ..samples import Table, definite, f32, i32, index

OVERLOADS = Table()
_aten = torch.ops.aten
OVERLOADS.add(
    {
        "aten.cdist": lambda x, y: _aten.cdist(x, y),
        "aten._cdist_forward": lambda x, y: _aten._cdist_forward(x.detach(), y.detach(), 2.0, None),
        "host tensor set to a device tensor": lambda x, y: _set_on_host(x.detach(), y.detach()),
        "resize_as_": lambda x, y: torch.resize_as_(x.detach().clone(), y.detach()),
    },
    (f32(3, 4), f32(2, 4)),
)
OVERLOADS.add(
    {"aten.scaled_dot_product_attention": lambda q, k, v: _aten.scaled_dot_product_attention(q, k, v)},
    (f32(2, 2, 4, 3),) * 3,
)
OVERLOADS.add(
    {"aten.linalg_det": lambda x: _aten.linalg_det(x), "aten.logdet": lambda x: _aten.logdet(x)},
    (definite(3, 3),),
)
OVERLOADS.add(
    {"aten.angle": lambda x: _aten.angle(x), "aten.argsort": lambda x: _aten.argsort(x, 0, descending=True)},
    (f32(3, 4),),
)
OVERLOADS.add({"aten.avg_pool1d": lambda x: _aten.avg_pool1d(x, [2])}, (f32(2, 3, 4),))
OVERLOADS.add(
    {"aten.__and__": lambda x, y: (_aten.__and__(x, y), _aten.__or__(x, y), _aten.__xor__(x, y))},
    (i32(3, 4), i32(4)),
)
OVERLOADS.add(
    {
        "aten._embedding_bag": lambda x, at: _aten._embedding_bag(
            x, at, torch.tensor([0, 2], device=at.device)
        )[0]
    },
    (f32(3, 4), index(5, below=3)),
)


def _set_on_host(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    written = torch.zeros(3, 4)
    written[1:] = y
    written[0] = x[0]
    return written
