"""Convolutions have the values and gradients of torch, in each way in which the runtime computes them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from jax._src.interpreters import ad
from jax.extend.core import primitives
from torch.nn import functional
from torchax_compat.ops import convolutions_on_cpu

PLAIN = [
    # kernel, stride, padding, dilation, groups
    ((3,), (1,), (0,), (1,), 1),
    ((3,), (2,), (1,), (2,), 3),
    ((3, 2), (1, 2), (1, 0), (1, 1), 1),
    ((2, 3), (2, 1), (0, 1), (2, 1), 3),
    ((3, 3), (1, 1), (1, 1), (1, 1), 6),
    ((2, 1, 3), (1, 2, 1), (0, 0, 1), (1, 1, 2), 1),
    ((2, 2, 2), (2, 1, 1), (1, 0, 1), (1, 2, 1), 3),
    ((12, 11), (1, 1), (5, 5), (1, 1), 3),
]
TRANSPOSED = [
    # kernel, stride, padding, output padding, groups, dilation
    ((3,), (2,), (1,), (1,), 1, (1,)),
    ((3,), (3,), (0,), (2,), 3, (2,)),
    ((3, 2), (2, 2), (1, 0), (1, 0), 1, (1, 1)),
    ((2, 3), (1, 2), (0, 1), (0, 1), 3, (2, 1)),
    ((2, 2, 3), (2, 1, 1), (0, 0, 1), (1, 0, 0), 1, (1, 1, 1)),
    ((2, 1, 2), (2, 2, 1), (0, 0, 0), (0, 1, 0), 3, (1, 1, 1)),
    ((12, 11), (2, 1), (5, 5), (1, 0), 3, (1, 1)),
]


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "groups"), PLAIN)
def test_convolution(
    kernel: Any, stride: Any, padding: Any, dilation: Any, groups: int, compare: Callable[..., None]
) -> None:
    convolve = getattr(functional, f"conv{len(kernel)}d")
    x, weight = torch.randn(2, 6, *[7, 6, 8][: len(kernel)]), torch.randn(6, 6 // groups, *kernel)
    compare(lambda x, w, b: convolve(x, w, b, stride, padding, dilation, groups), x, weight, torch.randn(6))


@pytest.mark.parametrize(("kernel", "stride", "padding", "more", "groups", "dilation"), TRANSPOSED)
def test_transposed_convolution(
    kernel: Any,
    stride: Any,
    padding: Any,
    more: Any,
    groups: int,
    dilation: Any,
    compare: Callable[..., None],
) -> None:
    spread = getattr(functional, f"conv_transpose{len(kernel)}d")
    x, weight = torch.randn(2, 6, *[5, 4, 6][: len(kernel)]), torch.randn(6, 2, *kernel)
    bias = torch.randn(2 * groups)
    compare(lambda x, w, b: spread(x, w, b, stride, padding, more, groups, dilation), x, weight, bias)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_convolution_of_pictures_that_are_not_larger_than_the_kernel(
    size: int, compare: Callable[..., None]
) -> None:
    x, weight = torch.randn(2, 3, size, size), torch.randn(4, 3, 3, 3)
    compare(lambda x, w: functional.conv2d(x, w, padding=1), x, weight)
    compare(lambda x, w: functional.conv_transpose2d(x, w), torch.randn(2, 4, size, size), weight)


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_of_a_single_picture(groups: int, compare: Callable[..., None]) -> None:
    weight = torch.randn(4, 4 // groups, 3, 3)
    compare(lambda x, w: functional.conv2d(x, w, groups=groups), torch.randn(4, 6, 6), weight)


def test_one_setting_stands_for_all_dimensions(compare: Callable[..., None]) -> None:
    x, weight = torch.randn(1, 2, 5, 5), torch.randn(2, 1, 3, 3)
    compare(
        lambda x, w: torch.convolution(x, w, None, [2], [1], [1], False, [0], 2),  # noqa: FBT003
        x,
        weight,
    )


@pytest.mark.parametrize("groups", [1, 4])
def test_convolution_in_half_precision_has_the_dtype_of_its_input(groups: int) -> None:
    x, weight = torch.randn(1, 4, 4, 4, 4), torch.randn(4, 4 // groups, 2, 2, 2)
    got = functional.conv3d(x.to("jax").bfloat16(), weight.to("jax").bfloat16(), groups=groups)
    assert torch.bfloat16 == got.dtype
    assert torch.allclose(functional.conv3d(x, weight, groups=groups), got.float().cpu(), atol=0.3)


def test_kernels_of_one_place_and_accelerators_are_left_to_xla(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not convolutions_on_cpu.is_slow((5, 5), (1, 1), 2, (0, 0))
    assert convolutions_on_cpu.is_slow((5, 5), (3, 3), 2, (0, 0))
    monkeypatch.setattr(convolutions_on_cpu, "_is_on_cpu", lambda: False)
    assert not convolutions_on_cpu.is_slow((5, 5), (3, 3), 2, (0, 0))


def test_weight_gradient_of_a_strided_transposed_convolution_by_sliding_the_input(
    monkeypatch: pytest.MonkeyPatch, compare: Callable[..., None]
) -> None:
    # JAX 0.10.2 asks its own rule first, beside which the runtime's is not used.
    monkeypatch.delitem(ad.fancy_transposes, primitives.conv_general_dilated_p, raising=False)
    x, weight = torch.randn(2, 3, 5, 4), torch.randn(3, 2, 3, 2)
    compare(lambda x, w: functional.conv_transpose2d(x, w, None, 2, 1, (1, 0)), x, weight)
    compare(lambda x, w: functional.conv2d(x, w, None, 2, 1), torch.randn(1, 2, 6, 5), weight)
