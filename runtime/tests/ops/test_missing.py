"""Operators that torchax lacks have the values and gradients of torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional
from torch.nn.utils import prune
from torchax_compat import differentiable

Compare = Callable[..., None]

WITH_GRADIENTS: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {
    "mT": (lambda x: torch.ops.aten.mT(x) @ x, [(2, 3, 4)]),
    "ldexp": (lambda x: torch.ldexp(x, torch.tensor([1.0, 2.0, -1.0, 0.0], device=x.device)), [(3, 4)]),
    "bilinear": (lambda x, y, w, b: functional.bilinear(x, y, w, b), [(5, 3), (5, 4), (2, 3, 4), (2,)]),
    "fold": (lambda x: functional.fold(x, (4, 5), (2, 3), 2, 1, (2, 1)), [(2, 12, 6)]),
    "fold of one picture": (lambda x: functional.fold(x, (4, 5), 2), [(8, 12)]),
    "adaptive max pool of two dimensions": (
        lambda x: functional.adaptive_max_pool2d(x, (3, None)),
        [(2, 3, 7, 5)],
    ),
    "adaptive max pool of three": (lambda x: functional.adaptive_max_pool3d(x, (2, 3, 1)), [(1, 2, 5, 4, 3)]),
    "sort": (lambda x: x.sort(1, descending=True)[0], [(3, 6)]),
    "sort of a number": (lambda x: torch.sort(x)[0], [()]),
    "batch_norm": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        [(4, 3, 2, 2), (3,), (3,)],
    ),
}


@pytest.mark.parametrize("name", WITH_GRADIENTS)
def test_operator_with_gradients(name: str, compare: Compare) -> None:
    function, shapes = WITH_GRADIENTS[name]
    compare(function, *[torch.randn(shape) for shape in shapes])


def test_nextafter_has_the_neighbouring_numbers(compare: Compare) -> None:
    x, y = torch.tensor([1.0, -1.0, 3.0]), torch.tensor([2.0, -2.0, 3.0])
    assert torch.equal(torch.nextafter(x, y), torch.nextafter(x.to("jax"), y.to("jax")).cpu())


def test_distributions_check_their_arguments() -> None:
    with pytest.raises(ValueError, match="scale"):
        torch.distributions.Normal(torch.zeros(2, device="jax"), torch.tensor([1.0, -1.0], device="jax"))


def test_fill_takes_a_tensor() -> None:
    x, y = torch.zeros(2, 3, device="jax"), torch.zeros(3, 3, device="jax")
    x.fill_(torch.tensor(2.0, device="jax"))
    y[1:].fill_(torch.tensor(3.0))
    assert [[2.0] * 3] * 2 == x.tolist()
    assert [[0.0] * 3] + [[3.0] * 3] * 2 == y.tolist()


EQUAL = torch.tensor([[2.0, 1.0, 2.0, 1.0, 3.0, 2.0], [1.0, float("nan"), 1.0, 0.0, float("nan"), 1.0]])


@pytest.mark.parametrize("descending", [True, False])
@pytest.mark.parametrize(("dim", "stable"), [(0, True), (-1, False)])
def test_order_of_equal_elements_and_nan(descending: bool, stable: bool, dim: int) -> None:
    x = EQUAL.T if dim == 0 else EQUAL
    for function in (
        lambda x: torch.argsort(x, dim=dim, descending=descending, stable=stable),
        lambda x: torch.sort(x, stable=stable, dim=dim, descending=descending)[1],
        lambda x: torch.sort(x.nan_to_num(4).long(), stable=stable, dim=dim, descending=descending)[1],
    ):
        assert function(x).tolist() == function(x.to("jax")).tolist()  # type: ignore[no-untyped-call]


def test_argsort_of_a_number_is_its_only_place() -> None:
    assert 0 == torch.argsort(torch.tensor(3.0, device="jax")).item()


def test_batch_norm_keeps_half_precision() -> None:
    x = torch.randn(4, 3, 2, 2)
    mean, variance = torch.zeros(3), torch.ones(3)
    got = functional.batch_norm(x.to("jax").half(), mean.to("jax"), variance.to("jax"))
    assert torch.float16 == got.dtype
    assert torch.allclose(functional.batch_norm(x, mean, variance), got.float().cpu(), atol=2e-3)


@pytest.mark.parametrize("name", ["bartlett", "blackman", "hamming", "hann", "kaiser"])
def test_windows_of_signals(name: str) -> None:
    window = getattr(torch, f"{name}_window")
    got = window(8, periodic=False, device="jax")
    assert "jax" == got.device.type
    assert torch.allclose(window(8, periodic=False), got.cpu(), atol=1e-6)
    assert "cpu" == window(8).device.type


@pytest.mark.parametrize("shape", [(2, 3, 8, 9), (3, 8, 9)])
def test_adaptive_max_pool_gives_the_places_of_the_largest_elements(shape: tuple[int, ...]) -> None:
    x = torch.randn(shape)
    for one in (x, (x * 10).long()):
        values, places = functional.adaptive_max_pool2d(one.float(), 3, return_indices=True)
        got = functional.adaptive_max_pool2d(one.float().to("jax"), 3, return_indices=True)
        assert torch.allclose(values, got[0].cpu())
        assert places.tolist() == got[1].tolist()


@pytest.mark.parametrize(("count", "wide"), [(1, 2), (2, 2), (2, 3), (3, 2)])
def test_max_unpool_puts_back_what_pooling_kept(count: int, wide: int, compare: Compare) -> None:
    pool, unpool = getattr(functional, f"max_pool{count}d"), getattr(functional, f"max_unpool{count}d")
    sizes = [8 + wide % 2] * count
    compare(lambda x: unpool(*pool(x, wide, 2, return_indices=True), wide, 2), torch.randn(1, 2, *sizes))


LABELS = torch.tensor([[1, 2, 2], [3, 1, 4]])


@pytest.mark.parametrize(("reduction", "zero_infinity"), [("mean", True), ("sum", False), ("none", False)])
def test_ctc_loss(reduction: str, zero_infinity: bool, compare: Compare) -> None:
    lengths, of_targets = torch.tensor([7, 6]), torch.tensor([3, 2])
    compare(
        lambda x: functional.ctc_loss(
            x.log_softmax(-1), LABELS, lengths, of_targets, 0, reduction, zero_infinity=zero_infinity
        ),
        torch.randn(7, 2, 5),
    )


def test_ctc_loss_of_targets_one_behind_the_other_and_of_one_sequence(compare: Compare) -> None:
    x = torch.randn(7, 2, 5)
    joined = torch.tensor([1, 2, 2, 3, 1])
    compare(lambda x: functional.ctc_loss(x.log_softmax(-1), joined, (7, 6), (3, 2)), x, is_compiled=False)
    compare(
        lambda x: functional.ctc_loss(x.log_softmax(-1), LABELS[0], torch.tensor(7), torch.tensor(3)), x[:, 0]
    )
    got = functional.ctc_loss(
        x.to("jax").log_softmax(-1), LABELS.to("jax"), torch.tensor([7, 7]).to("jax"), torch.tensor([3, 3])
    )
    assert torch.allclose(functional.ctc_loss(x.log_softmax(-1), LABELS, (7, 7), (3, 3)), got.cpu())


def test_ctc_loss_of_a_target_that_does_not_fit_is_infinite_unless_it_counts_as_zero() -> None:
    x = torch.randn(2, 1, 5).log_softmax(-1)
    given = LABELS[:1], (2,), (3,)
    assert float("inf") == functional.ctc_loss(x.to("jax"), *given).item()
    assert 0 == functional.ctc_loss(x.to("jax"), *given, zero_infinity=True).item()


PRUNED: list[Callable[[Any], Any]] = [
    lambda net: prune.l1_unstructured(net, "weight", 3),
    lambda net: prune.ln_structured(net, "weight", 0.5, n=2, dim=0),
    lambda net: prune.random_unstructured(net, "weight", 3),
    lambda net: prune.random_structured(net, "weight", 1, dim=1),
]


@pytest.mark.parametrize("remove", PRUNED)
def test_pruning_masks_the_same_weights(remove: Callable[[Any], Any]) -> None:
    host, net = torch.nn.Linear(4, 3), torch.nn.Linear(4, 3).to("jax")
    net.load_state_dict(host.state_dict())
    for one in (host, net):
        torch.manual_seed(1)
        remove(one)
    assert torch.equal(host.weight_mask, net.weight_mask.cpu())
    assert torch.allclose(host(torch.ones(4)), net(torch.ones(4, device="jax")).cpu(), atol=1e-6)


def test_order_of_hundreds_of_elements_most_of_which_equal_others() -> None:
    torch.manual_seed(0)
    y = torch.randint(0, 4, (200,)).float()
    holes = torch.where(y == 1, torch.nan, y)
    for function in (
        torch.argsort,
        lambda x: x.nan_to_num(9).int().argsort(descending=True),
        lambda x: torch.sort(x, descending=True)[1],
        lambda x: torch.sort(x, stable=True)[1],
        lambda x: torch.sort(x.reshape(20, 10), dim=0)[1],
        lambda x: torch.argsort(x > 2, descending=True),
    ):
        for x in (y, holes):
            assert function(x).tolist() == function(x.to("jax")).tolist()


def test_pruned_layers_are_trained() -> None:
    results = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net = torch.nn.Linear(4, 3).to(device)
        prune.l1_unstructured(net, "weight", 5)

        def loss(net: Any, x: Any) -> Any:
            return net(x).square().sum()

        x = torch.linspace(-1, 1, 8).reshape(2, 4).to(device)
        for _ in range(2):
            made = (loss if device == "cpu" else differentiable(loss))(net, x)
            made.backward()
        gradient = net.weight_orig.grad
        prune.remove(net, "weight")
        results.append([gradient.cpu(), net.weight.detach().cpu()])
    for due, got in zip(*results, strict=True):
        assert torch.allclose(due, got, atol=1e-4)
