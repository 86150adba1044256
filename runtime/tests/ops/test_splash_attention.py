"""Splash attention gives the results and gradients of PyTorch's attention; the kernel is interpreted here."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import torch
from torch.nn import functional
from torchax_compat.ops import splash_attention


@pytest.mark.parametrize("is_causal", [False, True])
@pytest.mark.parametrize(("length", "of_keys", "scale"), [(256, 256, None), (128, 384, 0.2)])
def test_results_and_gradients_are_those_of_torch(
    length: int, of_keys: int, scale: float | None, is_causal: bool
) -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(2, 2, length, 64), (2, 2, of_keys, 64), (2, 2, of_keys, 64)]
    given = [torch.randn(shape, generator=generator).requires_grad_() for shape in shapes]
    expected = functional.scaled_dot_product_attention(*given, is_causal=is_causal, scale=scale)
    expected.square().mean().backward()

    def loss(*given: jax.Array) -> tuple[jax.Array, jax.Array]:
        out = splash_attention.attended(*given, scale, is_causal=is_causal, interprets=True)
        return jnp.square(out).mean(), out

    inputs = [jnp.asarray(one.detach().numpy()) for one in given]
    found, actual = jax.grad(loss, argnums=(0, 1, 2), has_aux=True)(*inputs)
    np.testing.assert_allclose(expected.detach().numpy(), actual, rtol=2e-4, atol=2e-5)
    for tensor, gradient in zip(given, found, strict=True):
        assert tensor.grad is not None
        np.testing.assert_allclose(tensor.grad.numpy(), gradient, rtol=2e-3, atol=2e-6)


@pytest.mark.parametrize(
    ("least", "length", "dropout", "backend", "expected"),
    [
        ("1024", 1024, 0.0, "tpu", True),
        ("1024", 1024, 0.0, "cpu", False),
        ("1024", 1024, 0.1, "tpu", False),
        ("1024", 896, 0.0, "tpu", False),
        ("1024", 1100, 0.0, "tpu", False),
        ("", 1024, 0.0, "tpu", False),
    ],
)
def test_it_is_used_for_long_sequences_on_a_tpu(
    least: str, length: int, dropout: float, backend: str, expected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(splash_attention.VARIABLE, least)
    monkeypatch.setattr(jax, "default_backend", lambda: backend)
    arrays = [jax.ShapeDtypeStruct((1, 2, length, 64), jnp.float32)] * 3
    assert expected == splash_attention.is_used(*arrays, dropout, has_groups=False)
