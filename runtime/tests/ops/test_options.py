"""Options of operators that torchax does not know, or takes otherwise, are those of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
from torch.nn import functional
from torchax_compat.tensor import arrays, compiled_operations

Compare = Callable[..., None]
EDGES = torch.tensor([-1.5, -0.5, -0.5, 0.0, 0.7, 1.2])


@pytest.mark.parametrize(
    "options", [{}, {"right": True}, {"side": "right"}, {"side": "left"}, {"out_int32": True}]
)
def test_searchsorted(options: Any) -> None:
    values = torch.tensor([[-0.5, 0.0, 3.0], [0.7, -2.0, 0.5]])
    rows = torch.stack([EDGES, EDGES + 1])
    for sequence in (EDGES, rows):
        due = torch.searchsorted(sequence, values, **options)
        assert due.tolist() == torch.searchsorted(sequence.to("jax"), values.to("jax"), **options).tolist()
    assert (
        torch.searchsorted(EDGES, 0.7, **options).item()
        == torch.searchsorted(EDGES.to("jax"), 0.7, **options).item()
    )


def test_searchsorted_of_a_sequence_that_is_not_sorted() -> None:
    order = torch.tensor([3, 0, 5, 1, 2, 4])
    mixed = torch.empty(6).index_copy(0, order, EDGES)
    values = torch.tensor([0.1, 0.7])
    due = torch.searchsorted(mixed, values, sorter=order)
    got = torch.searchsorted(mixed.to("jax"), values.to("jax"), sorter=order.to("jax"))
    assert due.tolist() == got.tolist()


@pytest.mark.parametrize("right", [True, False])
def test_bucketize(right: bool) -> None:
    values = torch.tensor([[-0.5, 0.0], [9.0, 1.2]])
    due = torch.bucketize(values, EDGES, right=right)
    assert due.tolist() == torch.bucketize(values.to("jax"), EDGES.to("jax"), right=right).tolist()
    assert torch.bucketize(0.0, EDGES, right=right).item() == torch.bucketize(
        0.0, EDGES.to("jax"), right=right
    )


@pytest.mark.parametrize(("stride", "include"), [(None, True), (2, False), (3, True)])
def test_average_pool_in_ceil_mode(stride: int | None, include: bool, compare: Compare) -> None:
    compare(
        lambda x: functional.avg_pool2d(x, 3, stride, 1, ceil_mode=True, count_include_pad=include),
        torch.randn(2, 3, 7, 8),
    )


def test_average_pool_with_other_options(compare: Compare) -> None:
    x = torch.randn(2, 3, 7, 8)
    compare(lambda x: functional.avg_pool2d(x, (2, 3), ceil_mode=True, divisor_override=4), x)
    compare(lambda x: functional.avg_pool2d(x, (2, 3), 2, (1, 0)), x)
    compare(lambda x: functional.avg_pool1d(x, 3, ceil_mode=True), x[0])


BAGS = torch.tensor([1, 2, 4, 5, 4, 3, 2, 1]), torch.tensor([0, 3, 3, 6])


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize(("padding", "has_end"), [(None, True), (4, False)])
def test_embedding_bag(mode: str, padding: int | None, has_end: bool, compare: Compare) -> None:
    indices, offsets = BAGS
    offsets = torch.cat([offsets, torch.tensor([8])]) if has_end else offsets
    compare(
        lambda weight: functional.embedding_bag(
            indices.to(weight.device),
            weight,
            offsets.to(weight.device),
            mode=mode,
            padding_idx=padding,
            include_last_offset=has_end,
        ),
        torch.randn(6, 3),
    )


def test_embedding_bag_with_weights_of_each_index(compare: Compare) -> None:
    def bag(weight: torch.Tensor, shares: torch.Tensor) -> torch.Tensor:
        indices, offsets = (one.to(weight.device) for one in BAGS)
        return functional.embedding_bag(indices, weight, offsets, mode="sum", per_sample_weights=shares)

    compare(bag, torch.randn(6, 3), torch.rand(8))


SQUARE = torch.eye(3) * 3 + torch.arange(9.0).reshape(3, 3) / 9


@pytest.mark.parametrize(
    ("right", "left"), [((3,), True), ((3, 2), True), ((2, 3), False), ((4, 3, 2), True), ((3, 3), True)]
)
def test_linear_equations(right: tuple[int, ...], left: bool, compare: Compare) -> None:
    a, b = SQUARE, torch.randn(right)
    if right[0] == 4:
        compare(lambda a, b: torch.linalg.solve_ex(a, b, left=left)[0], a, b)
    compare(lambda a, b: torch.linalg.solve(a, b, left=left), a, b)


def test_one_right_side_for_each_of_a_batch_of_equations(compare: Compare) -> None:
    compare(torch.linalg.solve, torch.stack([SQUARE, SQUARE.T]), torch.randn(2, 3))


def test_take_along_dim(compare: Compare) -> None:
    x = torch.randn(2, 3, 4)
    compare(lambda x: torch.take_along_dim(x, x[:1].argsort(2), 2), x)
    compare(lambda x: torch.take_along_dim(x[:1], x.argsort(2), -1), x)
    compare(lambda x: x.take_along_dim(x.argsort(2)), x)


@pytest.mark.parametrize("dim", [0, 1, 2, -1])
def test_gather(dim: int, compare: Compare) -> None:
    x = torch.randn(2, 3, 4)
    compare(lambda x: x.gather(dim, x.argsort(dim)), x)
    compare(lambda x: x.gather(dim, x[:1, :2].argsort(dim)), x)
    compare(lambda x: x.gather(dim, x[:0].argsort(0)), x)


def test_gather_of_a_number_or_at_one(compare: Compare) -> None:
    compare(lambda x: x.gather(0, torch.zeros_like(x, dtype=torch.int64)), torch.randn(()))
    compare(lambda x: x.gather(0, x.argmax()), torch.randn(3))


def test_the_gradient_of_a_cross_entropy_is_scattered_row_by_row() -> None:
    labels = torch.tensor([1, 0, 4], device="jax")

    def loss(logits: Any) -> Any:
        return functional.cross_entropy(arrays.tensor(logits), labels).jax()

    program = str(jax.make_jaxpr(jax.grad(loss))(jax.numpy.ones((3, 5))))
    assert 1 == program.count("scatter-add")
    assert "operand_batching_dims=(0,)" in program.partition("scatter-add")[2].partition("]")[0]


@pytest.mark.parametrize("name", ["fftfreq", "rfftfreq"])
def test_frequencies_of_fourier_transforms(name: str) -> None:
    make = getattr(torch.fft, name)
    assert torch.allclose(make(7, 0.5), make(7, 0.5, device="jax").cpu())
    assert "jax" == make(7, device="jax").device.type


@pytest.mark.parametrize("options", [{}, {"norm": "ortho"}, {"norm": "forward"}])
def test_inverse_fourier_transforms_of_real_numbers(options: Any, compare: Compare) -> None:
    fft = torch.fft
    compare(lambda x: fft.irfft2(fft.rfft2(x)[..., :3], s=(5, 7), **options), torch.randn(2, 5, 7))
    compare(lambda x: fft.irfftn(fft.rfftn(x), s=(4, 6, 5), **options), torch.randn(3, 6, 7))


def test_numpy_may_be_forced() -> None:
    assert [1.0, 1.0] == torch.ones(2, device="jax").numpy(force=True).tolist()


@pytest.mark.parametrize("place", [0, 2, -1])
def test_select_takes_a_place(place: int, compare: Compare) -> None:
    compare(lambda x: x.select(1, place), torch.randn(2, 3))


def test_select_is_compiled_once_for_all_places(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_operations, "PATIENCE", 0.0)
    monkeypatch.setattr(compiled_operations, "_operations", {})
    x = torch.arange(10.0, device="jax").reshape(5, 2)
    rows = [torch.select(x, 0, place).tolist() for place in (0, 1, 2, 3, -1)]
    assert x[[0, 1, 2, 3, 4]].tolist() == rows
    compiled = [key for key, one in compiled_operations._operations.items() if one.compiled is not None]
    assert [torch.ops.aten.select.int] == [key[0] for key in compiled]


BITS: list[Callable[[Any], Any]] = [
    lambda x: x & 0xFFFFFFFF,
    lambda x: x | 0x80000001,
    lambda x: x ^ 0xDEADBEEF,
    lambda x: torch.bitwise_and(x, 6),
    lambda x: torch.bitwise_xor(x, x.flip(0)),
    lambda x: x * 0x9E3779B1,
    lambda x: x * 3,
    lambda x: (x > 2) & (x < 9),
]


@pytest.mark.parametrize("number", range(len(BITS)))
def test_operations_of_bits_have_the_lower_32_bits_of_torchs(number: int) -> None:
    x = torch.tensor([1, 5, 123456, 8])
    due, got = BITS[number](x), BITS[number](x.to("jax")).cpu()
    assert (due.long() & 0xFFFFFFFF).tolist() == (got.long() & 0xFFFFFFFF).tolist()
