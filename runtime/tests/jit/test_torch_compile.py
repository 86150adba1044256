"""`torch.compile` leaves functions and modules as they are: its compiler cannot trace code on torchax."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchax.interop import jax_jit


@pytest.mark.parametrize("options", [{}, {"fullgraph": True}, {"mode": "max-autotune"}, {"disable": True}])
def test_functions(options: Any) -> None:
    @torch.compile  # type: ignore[untyped-decorator]
    def inner(x: torch.Tensor) -> torch.Tensor:
        return torch.cat([x, x])

    compiled = torch.compile(**options)(lambda x: inner(x).norm())
    x = torch.ones(8, device="jax")
    assert compiled(x).item() == 4
    assert jax_jit(compiled)(x).item() == 4


def test_modules() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU()).to("jax")
    x = torch.ones(4, 3, device="jax")
    expected = model(x).cpu()
    compiled = torch.compile(model, fullgraph=True)
    assert torch.equal(expected, compiled(x).cpu())
    assert {f"_orig_mod.{name}" for name in model.state_dict()} == set(compiled.state_dict())
    assert compiled._orig_mod is model
    model.compile(dynamic=True)
    assert torch.equal(expected, model(x).cpu())
