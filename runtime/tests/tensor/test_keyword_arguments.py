"""Arguments of torch's functions may be given by their names in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torchax_compat.tensor import keyword_arguments

CALLS: list[Callable[[Any], Any]] = [
    lambda x: functional.interpolate(input=x, scale_factor=2),
    lambda x: functional.pad(input=x, pad=(1, 1, 0, 1), mode="reflect"),
    lambda x: functional.linear(x, weight=x[0, 0], bias=x[0, 0, 0]),
    lambda x: torch.take_along_dim(input=x, indices=x.argsort(-1), dim=-1),
    lambda x: torch.argsort(input=x, dim=-1, descending=True),
    lambda x: torch.repeat_interleave(input=x, repeats=2, dim=1),
    lambda x: torch.linalg.det(A=x[0, 0]),
    lambda x: torch.linalg.solve(A=x[0, 0], B=x[0, 1]),
    lambda x: torch.linalg.svd(A=x[0, 0], full_matrices=False)[1],
    lambda x: torch.where(condition=x > 0, input=x, other=0.0),
    lambda x: torch.quantile(input=x, q=0.5),
    lambda x: torch.empty(size=(2, 3), device=x.device) * 0,
]


@pytest.mark.parametrize("number", range(len(CALLS)))
def test_arguments_may_be_given_by_their_names_in_torch(number: int) -> None:
    x = torch.randn(1, 2, 4, 4)
    assert torch.allclose(CALLS[number](x).float(), CALLS[number](x.to("jax")).cpu().float(), atol=1e-4)


def test_allclose_takes_its_arguments_by_name() -> None:
    x = torch.randn(3).to("jax")
    assert torch.allclose(input=x, other=x + 1e-9) is True


def test_order_of_arguments_by_name() -> None:
    def computed(x: Any, weights: Any, shift: Any) -> None: ...

    given: dict[str, Any] = {"weight": 2, "bias": 3}
    assert ((1, 2, 3), {}) == keyword_arguments.in_order(functional.linear, computed, (1,), given)
    assert ((1,), {"shift": 3}) == keyword_arguments.in_order(functional.linear, computed, (1,), {"shift": 3})
    assert ((1,), {"bias": 3}) == keyword_arguments.in_order(functional.linear, computed, (1,), {"bias": 3})
    assert ((1,), given) == keyword_arguments.in_order(functional.linear, torch.rand, (1,), given)
