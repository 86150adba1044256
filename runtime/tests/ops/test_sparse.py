"""Sparse matrices on the device, which are dense there, compute what those of torch do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

INDICES, VALUES = torch.tensor([[0, 1, 1, 0], [2, 0, 2, 2]]), torch.tensor([3.0, 4.0, 5.0, 1.0])
DENSE = [[0.0, 0.0, 4.0], [4.0, 0.0, 5.0]]


def _matrix(device: str) -> Any:
    return torch.sparse_coo_tensor(INDICES, VALUES, (2, 3), device=device)


MADE: dict[str, Callable[[], Any]] = {
    "device": lambda: _matrix("jax"),
    "values of the device": lambda: torch.sparse_coo_tensor(INDICES, VALUES.to("jax"), (2, 3)),
    "size of its indices": lambda: torch.sparse_coo_tensor(INDICES.to("jax"), VALUES.to("jax")),
    "lists": lambda: torch.sparse_coo_tensor(INDICES.tolist(), VALUES.tolist(), (2, 3), device="jax"),
    "moved": lambda: _matrix("cpu").to("jax"),
    "rows": lambda: torch.sparse_csr_tensor(
        torch.tensor([0, 1, 3]), torch.tensor([2, 0, 2]), torch.tensor([4.0, 4.0, 5.0]), (2, 3), device="jax"
    ),
    "rows without a size": lambda: torch.sparse_csr_tensor(
        *(one.to("jax") for one in (torch.tensor([0, 1, 3]), torch.tensor([2, 0, 2]))), [4.0, 4.0, 5.0]
    ),
}


@pytest.mark.parametrize("name", MADE)
def test_matrices_that_are_made_or_moved(name: str) -> None:
    matrix = MADE[name]()
    assert "jax" == matrix.device.type
    assert DENSE == matrix.to_dense().tolist()


def test_matrices_of_the_host_stay_there() -> None:
    matrix = _matrix("cpu")
    rows = torch.sparse_csr_tensor(torch.tensor([0, 1]), torch.tensor([1]), torch.tensor([2.0]))
    assert torch.sparse_coo == matrix.layout
    assert torch.sparse_csr == rows.layout
    assert torch.sparse_coo == torch.sparse_coo_tensor(INDICES, VALUES).layout
    assert torch.sparse_csr == torch.sparse_csr_tensor([0, 1], [1], [2.0], (1, 2), device="cpu").layout
    assert 17.0 == torch.sparse.sum(matrix).item() + 4.0
    assert [4.0, 0.0, 9.0] == torch.sparse.sum(matrix, 0).to_dense().tolist()
    for function in (torch.sparse.softmax, torch.sparse.log_softmax):
        assert torch.sparse_coo == function(matrix.coalesce(), 1).layout


def test_matrix_of_a_type_with_gradients() -> None:
    matrix = torch.sparse_coo_tensor(
        INDICES, VALUES, (2, 3), dtype=torch.float16, device="jax", requires_grad=True
    )
    assert (torch.float16, True) == (matrix.dtype, matrix.requires_grad)


def test_indices_and_values_are_those_that_the_matrix_was_made_of() -> None:
    host, matrix = _matrix("cpu"), _matrix("jax")
    assert host._indices().tolist() == matrix._indices().tolist()
    assert host._values().tolist() == matrix._values().tolist()
    assert (host._nnz(), host.is_coalesced()) == (matrix._nnz(), matrix.is_coalesced())
    assert (host.sparse_dim(), host.dense_dim()) == (matrix.sparse_dim(), matrix.dense_dim())


def test_indices_and_values_of_a_coalesced_matrix_are_those_of_what_is_not_zero() -> None:
    host, matrix = _matrix("cpu").coalesce(), _matrix("jax").coalesce()
    assert matrix.is_coalesced()
    assert host.indices().tolist() == matrix.indices().tolist()
    assert host.values().tolist() == matrix.values().tolist()
    assert 3 == matrix._nnz() == torch.tensor(DENSE).to("jax").to_sparse()._nnz()


CALLS: list[Callable[[Any], Any]] = [
    lambda m: torch.sparse.mm(m, torch.ones(3, 2, device=m.device)),
    lambda m: m @ torch.ones(3, device=m.device),
    lambda m: torch.sparse.addmm(
        torch.ones(2, 2, device=m.device), m, torch.ones(3, 2, device=m.device), beta=2, alpha=3
    ),
    lambda m: torch.sparse.sum(m),
    lambda m: torch.sparse.sum(m, 1),
    lambda m: torch.sparse.sum(m, dtype=torch.float64).float(),
    lambda m: torch.sparse.softmax(m, 1),
    lambda m: torch.sparse.softmax(m, 0, dtype=torch.float32),
    lambda m: torch.sparse.log_softmax(m, 1),
    lambda m: torch.full((2, 3), 2.0, device=m.device).sparse_mask(m),
    lambda m: m.t(),
    lambda m: m.to_sparse_csr(),
]


@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize("is_made_there", [True, False])
def test_operations(number: int, is_made_there: bool) -> None:
    host = _matrix("cpu").coalesce()
    matrix = _matrix("jax") if is_made_there else host.to("jax")
    due, got = CALLS[number](host), CALLS[number](matrix)
    assert torch.allclose(due.to_dense(), got.cpu().to_dense(), atol=1e-6)
