"""Sparse tensors on the device, stored as dense ones.

torchax moves a sparse matrix to the device as a dense one.
So a matrix that is created on the device by `torch.sparse_coo_tensor` or `torch.sparse_csr_tensor` is dense,
too, and functions of `torch.sparse` and methods of sparse tensors work on dense ones.
Its indices and values are those that it was created from, or those of its nonzero elements.
"""

from __future__ import annotations

from typing import Any

import jax.numpy
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..patches.declarations import operator, patch
from ..tensor import arrays

_aten = torch.ops.aten
_make = torch.sparse_coo_tensor
_make_of_rows = torch.sparse_csr_tensor
_sum, _softmax, _log_softmax = torch.sparse.sum, torch.sparse.softmax, torch.sparse.log_softmax


_WHY = "torchax has no sparse tensors; it moves a sparse matrix to the device as a dense one."


@patch("torch:sparse_coo_tensor", why=_WHY)
def _made(
    indices: Any, values: Any, size: Any = None, *, dtype: Any = None, device: Any = None, **options: Any
) -> Any:
    """`torch.sparse_coo_tensor`."""
    if not _is_for_device(device, indices, values):
        given = (indices, values) if size is None else (indices, values, size)
        return _make(*given, dtype=dtype, device=device, **options)
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


def _is_for_device(device: Any, *given: Any) -> bool:
    """Whether a matrix is to be created on the device: by `device`, or by its indices and values."""
    if device is not None and not torchax.default_env()._should_use_torchax_tensor(device):
        return False
    return device is not None or any(isinstance(one, (Tensor, View)) for one in given)


@patch("torch:sparse_csr_tensor", why=_WHY)
def _made_of_rows(
    crow_indices: Any,
    col_indices: Any,
    values: Any,
    size: Any = None,
    *,
    dtype: Any = None,
    device: Any = None,
    **options: Any,
) -> Any:
    """`torch.sparse_csr_tensor`."""
    if not _is_for_device(device, crow_indices, col_indices, values):
        given = (crow_indices, col_indices, values, *(() if size is None else (size,)))
        return _make_of_rows(*given, dtype=dtype, device=device, **options)
    with arrays.entered():
        starts = arrays.on_torchax(torch.as_tensor(crow_indices))
        columns = arrays.on_torchax(torch.as_tensor(col_indices))
        places = torch.arange(len(columns), dtype=starts.dtype, device=starts.device)
        rows = torch.searchsorted(starts, places, right=True) - 1
        if size is None:
            size = [len(starts) - 1, int(columns.amax()) + 1]
        indices = torch.stack([rows.to(columns.dtype), columns])
    return _made(indices, values, size, dtype=dtype, device=device, **options)


def _dense(_sparse_dim: Any, _dense_dim: Any, size: Any, indices: Any, values: Any, **_options: Any) -> Any:
    """The dense matrix of some indices and values; values with the same indices are added."""
    return jax.numpy.zeros(tuple(size), values.dtype).at[tuple(indices)].add(values)


operator(_dense, _aten._sparse_coo_tensor_with_dims_and_tensors.default, why=_WHY)


def _pattern(matrix: Any) -> Any:
    """The indices and the values of a matrix."""
    if getattr(matrix, "pattern", None) is None:
        places = torch.nonzero(matrix, as_tuple=True)
        return torch.stack(places), matrix[places]
    return matrix.pattern


def _coalesced(matrix: Any, *_dims: Any) -> Any:
    """`coalesce`, `to_sparse` and `to_sparse_csr`."""
    return arrays.tensor(arrays.on_torchax(matrix).jax())


def _has(matrix: Any) -> Any:
    """Where a matrix has values: where it was created from one, or is not zero."""
    if getattr(matrix, "pattern", None) is None:
        return matrix != 0
    indices = matrix.pattern[0]
    return torch.zeros(matrix.shape, dtype=torch.bool, device=matrix.device).index_put(
        tuple(indices), torch.ones((), dtype=torch.bool, device=matrix.device)
    )


def _masked(matrix: Any, mask: Any) -> Any:
    """`sparse_mask`."""
    return torch.where(_has(mask), matrix, 0)


@patch("torch.sparse:sum", why=_WHY)
def _summed(input: Any, dim: Any = None, dtype: Any = None) -> Any:  # noqa: A002 # torch's name
    """`torch.sparse.sum`."""
    if not isinstance(input, (Tensor, View)):
        return _sum(input, dim, dtype)
    return input.sum(dtype=dtype) if dim is None else input.sum(dim, dtype=dtype)


def _normalized(of_sparse: Any, of_dense: Any) -> Any:
    """`torch.sparse.softmax` or `log_softmax`, which use only the values that a matrix has."""

    def function(input: Any, dim: Any, *, dtype: Any = None) -> Any:  # noqa: A002 # torch's name
        if not isinstance(input, (Tensor, View)):
            return of_sparse(input, dim, dtype=dtype)
        has, values = _has(input), input if dtype is None else input.to(dtype)
        # Not infinity, which would give NaN for rows without values.
        lowest = torch.finfo(values.dtype).min
        return torch.where(has, of_dense(torch.where(has, values, lowest), dim), 0)

    return function


patch("torch.sparse:softmax", why=_WHY)(_normalized(_softmax, torch.softmax))
patch("torch.sparse:log_softmax", why=_WHY)(_normalized(_log_softmax, torch.log_softmax))


def _added_to_product(
    input: Any,  # noqa: A002 # torch's name
    mat1: Any,
    mat2: Any,
    *,
    beta: Any = 1,
    alpha: Any = 1,
) -> Any:
    """`torch.sparse.addmm`."""
    return beta * input + alpha * (mat1 @ mat2)


operator(_added_to_product, _aten._sparse_addmm.default, why=_WHY)

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
    "to_sparse_csr": _coalesced,
    "sparse_mask": _masked,
    "sparse_dim": lambda matrix: matrix.ndim,
    "dense_dim": lambda _matrix: 0,
}
for _kind in ("torchax.tensor:Tensor", "torchax.view:View"):
    for _name, _method in _METHODS.items():
        patch(f"{_kind}.{_name}", why=_WHY)(_method)
