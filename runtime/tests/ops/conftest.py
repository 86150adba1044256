"""Comparison of operators on the device with plain torch on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Compare = Callable[..., None]


@pytest.fixture(autouse=True)
def _device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute all on the device: after calls with other shapes, the host may compute an operation."""
    from torchax_compat.tensor import dynamic_shapes

    monkeypatch.setattr(dynamic_shapes, "few_numbers", lambda: 0)


@pytest.fixture
def compare() -> Compare:
    """Compare values and gradients of a function with those of plain torch on the host."""
    return _compare


def _compare(
    function: Callable[..., Any],
    *inputs: Any,
    gradients: bool = True,
    is_compiled: bool = True,
    tolerance: float = 1e-5,
) -> None:
    import jax
    import torch
    import torchax
    from torch.utils import _pytree as pytree
    from torch.utils._python_dispatch import _disable_current_modes

    with _disable_current_modes():
        host = [x.detach().clone().requires_grad_(gradients) for x in inputs]
        expected = pytree.tree_leaves(function(*host))
        weights = [torch.randn_like(one) for one in expected] if gradients else []
        due = torch.autograd.grad(expected, host, weights) if gradients else ()
    if not gradients:
        _assert_close(pytree.tree_leaves(function(*[x.to("jax") for x in inputs])), expected, tolerance)
        return

    def on_device(*values: Any) -> Any:
        return torchax.interop.jax_view(pytree.tree_leaves(function(*torchax.interop.torch_view(values))))

    def with_gradients(values: Any, cotangents: Any) -> Any:
        made, pullback = jax.vjp(on_device, *values)
        return made, pullback(cotangents)

    if is_compiled:
        with_gradients = jax.jit(with_gradients, compiler_options={"xla_backend_optimization_level": 0})
    made, got = with_gradients([x.detach().numpy() for x in inputs], [one.numpy() for one in weights])
    _assert_close(made, expected, tolerance)
    _assert_close(got, due, tolerance)


def _assert_close(got: Any, expected: Any, tolerance: float) -> None:
    import numpy as np

    assert len(expected) == len(got)
    for one, other in zip(got, expected, strict=True):
        value = one.detach().numpy() if hasattr(one, "detach") else np.asarray(one)
        due = other.detach().numpy()
        assert due.shape == value.shape
        scale = max(1.0, float(np.abs(due).max(initial=0)))
        np.testing.assert_allclose(value, due, rtol=tolerance, atol=tolerance * scale)
