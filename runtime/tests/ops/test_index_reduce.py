"""`index_reduce` has the values and gradients of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torchax_compat import differentiable

Alike = Callable[..., None]


@pytest.mark.parametrize("reduce", ["amax", "amin", "mean", "prod"])
@pytest.mark.parametrize("kind", ["floats", "ties", "zeros", "integers"])
@pytest.mark.parametrize(("dim", "is_included"), [(0, True), (0, False), (1, False), (-1, True)])
def test_index_reduce(reduce: str, kind: str, dim: int, *, is_included: bool) -> None:
    def run(device: str) -> Any:
        torch.manual_seed(1)
        x, source = torch.randn(4, 4), torch.randn(4, 4)
        if kind == "ties":
            x, source = x.round(), source.round()
        if kind == "zeros":
            x[0, 1] = source[1, 2] = 0
            source[0] = 0
        index = torch.tensor([0, 2, 0, 0], device=device)
        if kind == "integers":
            x, source = (x * 5).long().to(device), (source * 5).long().to(device)
            y = x.clone()
            y.index_reduce_(dim, index, source, reduce, include_self=is_included)
            return y, x.index_reduce(dim, index, source, reduce, include_self=is_included)
        x, source = x.to(device).requires_grad_(), source.to(device).requires_grad_()
        weights = torch.arange(16.0, device=device).reshape(4, 4)

        def loss(x: Any, source: Any) -> Any:
            made = torch.index_reduce(x * 1, dim, index, source, reduce, include_self=is_included)
            return (made * weights).sum()

        value = (differentiable(loss) if device == "jax" else loss)(x, source)
        value.backward()
        return value.detach(), x.grad, source.grad

    for due, found in zip(run("cpu"), run("jax"), strict=True):
        torch.testing.assert_close(
            found.cpu(), due, check_dtype=due.is_floating_point(), rtol=1e-4, atol=1e-4
        )


def test_anomalies_are_looked_for() -> None:
    weight = torch.tensor([1.0, 2.0], device="jax", requires_grad=True)
    with torch.autograd.detect_anomaly(check_nan=True):
        differentiable(lambda w: (w * w).sum())(weight).backward()
    assert [2.0, 4.0] == weight.grad.tolist()
