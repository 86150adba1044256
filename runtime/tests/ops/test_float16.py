"""Operators have the values of torch for float16 tensors whose squares and products overflow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torchax.interop import jax_jit

F = torch.nn.functional

X = ((torch.linspace(-1000, 1000, 64).sin() * 900).reshape(8, 8)).half()

OPERATORS: dict[str, Callable[[Any], Any]] = {
    "layer_norm": lambda x: F.layer_norm(x, (8,), x[0] / 900, x[1] / 900),
    "group_norm": lambda x: F.group_norm(x, 2),
    "instance_norm": lambda x: F.instance_norm(x[None]),
    "batch_norm": lambda x: F.batch_norm(x, None, None, training=True),
    "batch_norm in evaluation": lambda x: F.batch_norm(x, x[0], x[1].abs()),
    "std": lambda x: x.std(-1),
    "std_mean": lambda x: torch.stack(torch.std_mean(x, -1)),
    "norm": lambda x: x.norm(dim=-1),
    "norm in float32": lambda x: torch.linalg.vector_norm(x, dim=-1, dtype=torch.float32),
    "dist": lambda x: torch.dist(x, x.flip(0)),
    "normalize": lambda x: F.normalize(x, dim=-1),
    "cosine_similarity": lambda x: F.cosine_similarity(x, x.flip(0), dim=-1),
    "softplus": lambda x: F.softplus(x / 60),
    "mish": F.mish,
    "avg_pool1d": lambda x: F.avg_pool1d((x * 60)[None], 4),
    "attention": lambda x: F.scaled_dot_product_attention(x[None], x[None], x[None]),
    "causal attention": lambda x: F.scaled_dot_product_attention(*[x[None]] * 3, is_causal=True),
    "masked attention": lambda x: F.scaled_dot_product_attention(*[x[None]] * 3, attn_mask=x > 0),
    "attention with a bias": lambda x: F.scaled_dot_product_attention(*[x[None]] * 3, attn_mask=x),
}


@pytest.mark.parametrize("name", OPERATORS)
@pytest.mark.parametrize("jitted", [False, True])
def test_values_and_dtypes_are_those_of_torch(name: str, jitted: bool) -> None:
    function = OPERATORS[name]
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        expected = function(X)
    found = (jax_jit(function) if jitted else function)(X.to("jax")).cpu()
    assert expected.isfinite().all()
    torch.testing.assert_close(found, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("name", ["layer_norm", "group_norm", "std", "norm", "causal attention"])
def test_gradients_are_those_of_torch(name: str, compare: Callable[..., None]) -> None:
    compare(OPERATORS[name], X, tolerance=5e-3)
