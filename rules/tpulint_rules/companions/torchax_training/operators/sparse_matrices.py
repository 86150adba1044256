"""Sparse matrices on the device, which are dense there; importing this file brings them.

A sparse matrix that is moved to the device is a dense one for torchax; so is one here that is made there.
What asks for its indices and values gets those that it was made of, or those of what is not zero.
"""

from __future__ import annotations

import jax.numpy
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from .. import arrays
from .registry import register

_aten = torch.ops.aten
_make = torch.sparse_coo_tensor


def _made(indices, values, size=None, *, dtype=None, device=None, **options):
    """`torch.sparse_coo_tensor`."""
    given = [one for one in (indices, values) if isinstance(one, torch.Tensor)]
    asked = torchax.default_env()._should_use_torchax_tensor(device) if device is not None else None
    if asked is False or not (asked or any(isinstance(one, (Tensor, View)) for one in given)):
        return _make(indices, values, size, dtype=dtype, device=device, **options)
    with arrays.entered():
        indices = arrays.on_torchax(torch.as_tensor(indices))
        values = arrays.on_torchax(torch.as_tensor(values, dtype=dtype))
        if dtype is not None:
            values = values.to(dtype)
        if size is None:
            size = [*(indices.amax(1) + 1).tolist(), *values.shape[1:]]
        made = arrays.tensor(_dense(0, 0, size, indices.jax(), values.jax()))
    made.pattern = indices, values
    return made.requires_grad_() if options.get("requires_grad") else made


torch.sparse_coo_tensor = _made


def _dense(_sparse_dim, _dense_dim, size, indices, values, **_options):
    """The dense matrix of some indices and values, of which those with the same indices add up."""
    return jax.numpy.zeros(tuple(size), values.dtype).at[tuple(indices)].add(values)


register(_dense, _aten._sparse_coo_tensor_with_dims_and_tensors.default)


def _pattern(matrix):
    """The indices and the values of a matrix."""
    if getattr(matrix, "pattern", None) is None:
        places = torch.nonzero(matrix, as_tuple=True)
        return torch.stack(places), matrix[places]
    return matrix.pattern


def _coalesced(matrix, *_dims):
    """`coalesce` and `to_sparse`."""
    return arrays.tensor(arrays.on_torchax(matrix).jax())


_METHODS = {
    "coalesce": _coalesced,
    "is_coalesced": lambda matrix: getattr(matrix, "pattern", None) is None,
    "indices": lambda matrix: _pattern(matrix)[0],
    "_indices": lambda matrix: _pattern(matrix)[0],
    "values": lambda matrix: _pattern(matrix)[1],
    "_values": lambda matrix: _pattern(matrix)[1],
    "_nnz": lambda matrix: len(_pattern(matrix)[1]),
    "to_sparse": _coalesced,
    "to_sparse_coo": _coalesced,
}
for _kind in (Tensor, View):
    for _name, _method in _METHODS.items():
        setattr(_kind, _name, _method)
