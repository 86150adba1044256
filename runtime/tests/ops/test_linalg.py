"""Determinants, counting, angles and quantisation have the values and gradients of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

Compare = Callable[..., None]
SQUARE = torch.tensor([[[2.0, 1.0], [0.5, 3.0]], [[0.0, 1.0], [2.0, 0.5]]])

DETERMINANTS: list[Callable[[Any], Any]] = [
    torch.det,
    torch.linalg.det,
    torch.Tensor.det,
    lambda x: torch.logdet(x[0]),
    lambda x: torch.slogdet(x)[1],
    lambda x: torch.linalg.slogdet(x).logabsdet,
]


@pytest.mark.parametrize("number", range(len(DETERMINANTS)))
def test_determinants(number: int, compare: Compare) -> None:
    compare(DETERMINANTS[number], SQUARE)


def test_sign_of_a_determinant_and_the_logarithm_of_a_negative_one() -> None:
    sign, _ = torch.slogdet(SQUARE.to("jax"))
    assert [1.0, -1.0] == sign.tolist()
    assert torch.logdet(SQUARE.to("jax"))[1].isnan()


ANGLES = [
    torch.tensor([1.0, -2.0, 0.0, float("nan")]),
    torch.tensor([3, -4, 0]),
    torch.tensor([1 + 1j, -2j, -1 + 0j]),
]


@pytest.mark.parametrize("x", ANGLES)
def test_angles(x: torch.Tensor) -> None:
    for function in (torch.angle, torch.Tensor.angle):
        assert torch.allclose(torch.angle(x), function(x.to("jax")).cpu(), equal_nan=True)


SUMS: list[tuple[torch.Tensor, dict[str, Any]]] = [
    (torch.tensor([True, True, False]), {}),
    (torch.tensor([[200, 100], [1, 2]], dtype=torch.uint8), {"dim": 0}),
    (torch.tensor([[1.5, 2.5]]), {"dim": (0, 1), "dtype": torch.int32}),
    (torch.tensor([[1, 2]]), {"dim": 1, "keepdim": True, "dtype": torch.float32}),
    (torch.tensor([[1.0, 2.0]]), {"dim": []}),
]


@pytest.mark.parametrize(("x", "options"), SUMS)
def test_sums_in_another_type(x: torch.Tensor, options: Any) -> None:
    due, got = x.sum(**options), x.to("jax").sum(**options)
    assert due.tolist() == got.tolist()
    assert due.is_floating_point() == got.is_floating_point()


@pytest.mark.parametrize("options", [{}, {"dim": 0}, {"dim": 1, "keepdim": True}])
def test_mode_is_the_least_of_the_most_frequent_values(options: Any) -> None:
    x = torch.tensor([[3, 1, 3, 1], [2, 2, 0, 0], [3, 1, 0, 1]])
    due, got = torch.mode(x, **options), torch.mode(x.to("jax"), **options)
    assert due.values.tolist() == got[0].tolist()
    assert due.indices.tolist() == got[1].tolist()


def test_mode_of_a_number() -> None:
    value, place = torch.mode(torch.tensor(4.0, device="jax"))
    assert (4.0, 0) == (value.item(), place.item())


def test_quantisation_of_tensors_and_channels(compare: Compare) -> None:
    x = torch.tensor([[-9.0, -0.26, 0.1], [0.74, 3.3, 60.0]])
    compare(lambda x: torch.fake_quantize_per_tensor_affine(x, 0.25, 3, 0, 31), x)
    scale, zero = torch.tensor([0.5, 0.25, 1.0]), torch.tensor([0, 3, 1], dtype=torch.int32)
    compare(
        lambda x: torch.fake_quantize_per_channel_affine(x, scale.to(x.device), zero.to(x.device), 1, 0, 31),
        x,
    )
