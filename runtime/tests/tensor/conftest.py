"""Comparison of what is done to tensors of the device with plain torch on the host."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

Alike = Callable[..., None]


@pytest.fixture
def alike() -> Alike:
    """Compare what functions of a device give on the device with what plain torch gives on the host."""
    return _alike


def _alike(*functions: Callable[[str], Any], tolerance: float = 1e-5) -> None:
    import torch
    from torch.utils._python_dispatch import _disable_current_modes

    for function in functions:
        torch.manual_seed(0)
        with _disable_current_modes():
            due = _plain(function("cpu"))
        torch.manual_seed(0)
        _assert_same(due, _plain(function("jax")), tolerance)


def _plain(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return (tuple(value.shape), value.is_floating_point(), value.detach().tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(one) for one in value]
    return value


def _assert_same(due: Any, got: Any, tolerance: float) -> None:
    assert type(due) is type(got)
    if isinstance(due, (list, tuple)):
        assert len(due) == len(got), (due, got)
        for one, other in zip(due, got, strict=True):
            _assert_same(one, other, tolerance)
    elif isinstance(due, float):
        assert pytest.approx(due, rel=tolerance, abs=tolerance, nan_ok=True) == got
    else:
        assert due == got
