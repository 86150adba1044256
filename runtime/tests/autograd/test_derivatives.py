"""Gradients where functions have a corner, are zero or saturate: those that torch defines."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: N812

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F
from torchax_compat import differentiable

from ..comparison import assert_equal, plain_torch

CORNERS = torch.tensor([[0.0, 0.0, 0.0], [100.0, 100.0, 1.0], [-100.0, 6.0, 0.0], [0.5, 0.25, 0.5]])
FUNCTIONS = {
    "abs": lambda x: x.abs(),
    "norm": lambda x: x.norm(dim=1),
    "norm of all": lambda x: (x * 0).norm(),
    "norm of order 0": lambda x: x.norm(0, dim=1) + x.sum() * 0,
    "norm of order 1": lambda x: x.norm(1, dim=[1]),
    "norm of one number": lambda x: x[1, 0].norm(),
    "normalize": lambda x: F.normalize(x, dim=1),
    "std": lambda x: x.std(dim=1),
    "std of the population": lambda x: torch.std(x, dim=1, correction=0),
    "std_mean": lambda x: torch.std_mean(x, dim=1)[0],
    "dist": lambda x: torch.dist(x, x.detach()),
    "cdist": lambda x: torch.cdist(x, x),
    "cdist of order 1": lambda x: torch.cdist(x, x, p=1),
    "pdist": lambda x: torch.pdist(x),
    "elu": F.elu,
    "celu": lambda x: F.celu(x, 0.5),
    "softplus": F.softplus,
    "softplus with beta": lambda x: F.softplus(x, beta=2.0, threshold=5.0),
    "mish": F.mish,
    "relu6": F.relu6,
    "hardtanh": F.hardtanh,
    "hardsigmoid": lambda x: F.hardsigmoid(x * 3),
    "hardswish": lambda x: F.hardswish(x * 3),
    "leaky_relu": lambda x: F.leaky_relu(x, 0.2),
    "clamp": lambda x: x.clamp(0, 1),
    "clamp by one bound": lambda x: x.clamp(min=0.5) + x.clamp(max=0.5),
    "clamp_min": lambda x: torch.clamp_min(x, 0.0),
    "clamp_max": lambda x: torch.clamp_max(x, 0.5),
    "max": lambda x: x.max(dim=1)[0],
    "max kept": lambda x: x.max(dim=-1, keepdim=True)[0],
    "min": lambda x: x.min(dim=0)[0],
    "binary_cross_entropy": lambda x: F.binary_cross_entropy(x.clamp(0, 1), x.detach().clamp(0, 1) * 0),
    "binary_cross_entropy of each": lambda x: F.binary_cross_entropy(
        x.clamp(0.1, 0.9), x.clamp(0.2, 0.8), reduction="none"
    ),
    "binary_cross_entropy with weights": lambda x: F.binary_cross_entropy(
        x.clamp(0, 1), x.detach().clamp(0, 1), torch.full_like(x, 2.0), reduction="sum"
    ),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_gradient_at_a_corner_is_that_of_torch(name: str) -> None:
    def compute_loss(x):
        made = FUNCTIONS[name](x)
        return (made * torch.linspace(1, 2, made.numel(), device=x.device).reshape(made.shape)).sum()

    there, host = CORNERS.to("jax").requires_grad_(), CORNERS.clone().requires_grad_()
    with plain_torch():
        expected = compute_loss(host)
        expected.backward()
    found = differentiable(compute_loss)(there)
    found.backward()
    assert_equal((expected, host.grad), (found, there.grad))


def test_whole_and_complex_numbers_have_the_values_of_torchax() -> None:
    whole = torch.tensor([[-3, 2], [5, -1]])
    assert_equal(whole.abs(), whole.to("jax").abs())
    assert_equal(whole.clamp(-1, 3), whole.to("jax").clamp(-1, 3))
    assert_equal(tuple(whole.max(dim=1)), tuple(whole.to("jax").max(dim=1)))
    complex_ = torch.complex(torch.tensor([3.0]), torch.tensor([4.0])).to("jax")
    assert [5.0] == complex_.abs().tolist()


def test_extreme_of_a_single_number_is_at_place_zero() -> None:
    value, place = torch.tensor(2.5).to("jax").max(dim=0)
    assert (2.5, 0) == (value.item(), place.item())
