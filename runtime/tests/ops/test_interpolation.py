"""Pictures of other sizes, and samples at places of a grid, have the values and gradients of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional

Compare = Callable[..., None]
LINEAR = {1: "linear", 2: "bilinear", 3: "trilinear"}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize(
    ("options", "align_corners"),
    [({"size": [3, 8, 4]}, True), ({"scale_factor": [2, 1.5, 0.5]}, False), ({"size": [7, 2, 5]}, None)],
)
def test_linear_interpolation(count: int, options: Any, align_corners: bool | None, compare: Compare) -> None:
    options = {name: one[:count] for name, one in options.items()}
    x = torch.randn(2, 2, *[4, 6, 5][:count])
    compare(
        lambda x: functional.interpolate(x, mode=LINEAR[count], align_corners=align_corners, **options), x
    )


@pytest.mark.parametrize("mode", ["nearest", "nearest-exact"])
@pytest.mark.parametrize(
    "options",
    [{"size": (8, 3)}, {"size": (5, 7)}, {"scale_factor": 2}, {"scale_factor": (0.5, 1.7)}],
)
def test_interpolation_by_the_nearest_element(mode: str, options: Any, compare: Compare) -> None:
    compare(lambda x: functional.interpolate(x, mode=mode, **options), torch.randn(2, 2, 4, 6))


def test_interpolation_may_compute_the_scale_anew(compare: Compare) -> None:
    x = torch.randn(1, 2, 5, 7)
    compare(
        lambda x: functional.interpolate(x, scale_factor=1.5, mode="bilinear", recompute_scale_factor=True), x
    )


def test_interpolation_of_scales_that_round_to_the_size_that_there_is(compare: Compare) -> None:
    compare(
        lambda x: functional.interpolate(x, scale_factor=(1.3, 1.0)), torch.randn(1, 1, 3, 4), gradients=False
    )
    compare(lambda x: functional.interpolate(x, scale_factor=1.3), torch.randn(1, 1, 3), gradients=False)


def test_interpolation_along_many_elements_takes_two_at_each_place(compare: Compare) -> None:
    compare(lambda x: functional.interpolate(x, size=2200, mode="linear"), torch.randn(1, 1, 1100))


@pytest.mark.parametrize("mode", ["bilinear", "bicubic"])
@pytest.mark.parametrize("align_corners", [True, False])
@pytest.mark.parametrize("size", [(3, 4), (1, 13)])
def test_interpolation_without_aliases(
    mode: str, align_corners: bool, size: tuple[int, int], compare: Compare
) -> None:
    x = torch.randn(1, 2, 8, 10)
    compare(
        lambda x: functional.interpolate(x, size, mode=mode, antialias=True, align_corners=align_corners), x
    )


def test_interpolation_that_torchax_computes(compare: Compare) -> None:
    compare(lambda x: functional.interpolate(x, (4, 8), mode="area"), torch.randn(1, 2, 4, 4))
    x = torch.randint(0, 9, (1, 1, 2, 2), dtype=torch.uint8)
    assert torch.equal(
        functional.interpolate(x, scale_factor=2), functional.interpolate(x.to("jax"), scale_factor=2).cpu()
    )


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("sizes", [[3, 5, 2], [2, 3, 5]])
def test_adaptive_average_pool(count: int, sizes: list[int], compare: Compare) -> None:
    pool = getattr(functional, f"adaptive_avg_pool{count}d")
    wanted: Any = sizes[:1] if count == 1 else [*sizes[: count - 1], None]
    compare(lambda x: pool(x, wanted), torch.randn(2, 2, *[6, 7, 5][:count]))


@pytest.mark.parametrize(
    ("mode", "padding", "align_corners"),
    [
        ("bilinear", "zeros", True),
        ("bilinear", "border", False),
        ("bilinear", "reflection", False),
        ("nearest", "zeros", False),
        ("nearest", "border", True),
        ("nearest", "reflection", True),
        ("bicubic", "zeros", False),
        ("bicubic", "reflection", True),
    ],
)
def test_grid_sample(mode: str, padding: str, align_corners: bool, compare: Compare) -> None:
    x, grid = torch.randn(2, 2, 5, 6), torch.rand(2, 3, 4, 2) * 3 - 1.5
    compare(
        lambda x, grid: functional.grid_sample(x, grid, mode, padding, align_corners=align_corners),
        x,
        grid,
        tolerance=2e-5,
    )


@pytest.mark.parametrize("mode", ["bilinear", "nearest"])
def test_grid_sample_of_three_dimensions(mode: str, compare: Compare) -> None:
    x, grid = torch.randn(1, 2, 3, 4, 5), torch.rand(1, 2, 3, 2, 3) * 2 - 1
    compare(lambda x, grid: functional.grid_sample(x, grid, mode, align_corners=True), x, grid)


def test_grid_sample_by_reflection_in_a_picture_of_one_element(compare: Compare) -> None:
    x, grid = torch.randn(1, 1, 1, 4), torch.rand(1, 2, 2, 2) * 3 - 1.5
    compare(
        lambda x: functional.grid_sample(x, grid.to(x.device), padding_mode="reflection", align_corners=True),
        x,
    )


def test_grid_sample_by_whole_pixels_gives_the_pixels(compare: Compare) -> None:
    x = torch.randn(1, 1, 7, 9)
    rows, columns = torch.meshgrid(torch.arange(7.0) + 1, torch.arange(9.0) - 2, indexing="ij")
    grid = torch.stack([columns / 8 * 2 - 1, rows / 6 * 2 - 1], -1)[None]
    compare(lambda x, grid: functional.grid_sample(x, grid, align_corners=True), x, grid, gradients=False)
    shifted = torch.nn.functional.pad(x, (2, 0, 0, 1))[..., 1:, :-2]
    got = functional.grid_sample(x.to("jax"), grid.to("jax"), align_corners=True).cpu()
    assert torch.allclose(shifted, got, atol=1e-5)


@pytest.mark.parametrize("function", [torch.floor, torch.ceil, torch.trunc, torch.Tensor.long])
def test_rounding(function: Any) -> None:
    x = torch.tensor([-1.5, -0.2, 0.0, 2.0, 2.7])
    assert function(x).tolist() == function(x.to("jax")).tolist()


def test_patches_of_pictures(compare: Compare) -> None:
    compare(lambda x: functional.unfold(x, (2, 3), padding=1, stride=2), torch.randn(1, 2, 5, 4))
