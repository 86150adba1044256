"""Operations are compiled once their calls took long, or computed on the host where shapes keep changing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import jax
import pytest
import torch
from torch import nn
from torchax_compat.tensor import compiled_operations, dynamic_shapes

Alike = Callable[..., None]


@pytest.fixture(autouse=True)
def _anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing was computed before."""
    for name in ("_operations", "_decompositions"):
        monkeypatch.setattr(compiled_operations, name, {})
    monkeypatch.setattr(dynamic_shapes.keeps_changing, "__defaults__", ({},))


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_operations, "PATIENCE", 0.0)


@pytest.fixture
def compilations() -> Iterator[list[str]]:
    """What JAX compiles."""
    events: list[str] = []

    def listen(event: str, *_: Any, **__: Any) -> None:
        if "backend_compile" in event:
            events.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    yield events
    jax.monitoring.unregister_event_duration_listener(listen)


def _compiled(func: Any) -> int:
    known = [one for key, one in compiled_operations._operations.items() if key[0] is func]
    return sum(one.compiled is not None for one in known)


def test_numbers_that_change_are_inputs_of_what_is_compiled(at_once: None) -> None:
    x, count = torch.ones(3).to("jax"), torch.tensor([2]).to("jax")
    for step in range(6):
        x = x * (1 + step / 4)
        count = count * (1 + step / 4)
    assert [14.765625] * 3 == x.tolist()
    assert torch.float32 == count.dtype
    assert 2 == _compiled(torch.ops.aten.mul.Tensor)


def test_numbers_that_stay_are_constants_of_what_is_compiled(at_once: None) -> None:
    x = torch.ones(3).to("jax")
    for _ in range(3):
        x = x * 0.5 + 1.0
    assert [1.875] * 3 == x.tolist()
    assert 1 == _compiled(torch.ops.aten.mul.Tensor)


def test_what_needs_the_values_of_numbers_is_compiled_for_each(at_once: None) -> None:
    x = torch.ones(1, 1, 3).to("jax")
    for _ in range(3):
        for step in range(6):
            made = nn.functional.interpolate(x, scale_factor=1 + step / 2)
            assert int(3 * (1 + step / 2)) == made.shape[-1]
    assert _compiled(nn.functional.interpolate) > compiled_operations.MOST_FLOATS


def test_what_cannot_be_compiled_runs_as_it_is(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_shapes, "few_numbers", lambda: 0)
    x = torch.tensor([1.0, 0.0, 2.0]).to("jax")
    for _ in range(4):
        assert [[0], [2]] == x.nonzero().tolist()
    assert 0 == _compiled(torch.ops.aten.nonzero.default)


def test_a_row_that_is_set_is_the_same_operation_at_each_place(at_once: None) -> None:
    x = torch.zeros(6, 2, device="jax")
    for step in range(6):
        x[step] = torch.ones(2, device="jax") * step
    x[:, 1] = 2.0
    assert [[float(step), 2.0] for step in range(6)] == x.tolist()
    assert 1 == _compiled(compiled_operations.with_part)


def test_an_operation_whose_compiled_version_fails_runs_as_it_is(at_once: None) -> None:
    x = torch.ones(3).to("jax")
    for _ in range(3):
        x.sin()
    (known,) = [
        one for key, one in compiled_operations._operations.items() if key[0] is torch.ops.aten.sin.default
    ]

    def fails(*_: Any) -> None:
        raise RuntimeError

    known.compiled = fails
    assert torch.allclose(torch.ones(3).sin(), x.sin().cpu())
    assert (None, False) == (known.compiled, known.is_watched)
    assert torch.allclose(torch.ones(3).sin(), x.sin().cpu())


def test_no_more_operations_are_watched_than_that(at_once: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiled_operations, "MOST_WATCHED", 0)
    x = torch.ones(3).to("jax")
    for _ in range(3):
        assert [2.0] * 3 == (x + 1).tolist()
    assert {} == compiled_operations._operations


def test_operations_that_are_made_of_others_are_compiled_at_once(alike: Alike) -> None:
    def losses(device: str) -> Any:
        x, y = torch.linspace(0.1, 0.9, 6, device=device), torch.linspace(0.2, 0.7, 6, device=device)
        return [nn.functional.huber_loss(x, y, delta=d / 9) for d in range(1, 4)]

    alike(losses)
    assert compiled_operations._decompositions


def test_no_more_combinations_of_arguments_are_compiled_than_that(
    alike: Alike, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiled_operations, "MOST_DECOMPOSITIONS", 1)
    test_operations_that_are_made_of_others_are_compiled_at_once(alike)
    assert all(len(known) == 1 for known in compiled_operations._decompositions.values())


def test_an_operation_with_many_shapes_is_left_to_the_host(compilations: list[str], alike: Alike) -> None:
    def sums(device: str) -> Any:
        x = torch.arange(40, device=device)
        return [x[:n].flip(0).cumsum(0) // 2 for n in range(1, 16)]

    alike(sums)
    before = len(compilations)
    x = torch.arange(40, device="jax")
    for n in range(16, 30):
        (x[:n].flip(0).cumsum(0) // 2).tolist()
    assert before == len(compilations)


def test_what_values_decide_the_shape_of_is_not_compiled_for_each(compilations: list[str]) -> None:
    way, going = torch.zeros(99, device="jax"), torch.ones(99, dtype=torch.bool, device="jax")
    speed = torch.arange(1, 100, device="jax") / 50
    counts = []
    for _ in range(30):
        places = going.nonzero(as_tuple=True)[0]
        way[places] += speed[places]
        going[places] = way[places] < 6
        way[going] = way[going] + 0.01
        counts.append(len(compilations))
    assert len(places) < 80
    assert counts[19] == counts[-1]
    assert 99 == (way >= 6).sum().item() + going.sum().item()


def test_boxes_that_suppress_each_other(alike: Alike) -> None:
    def apart(device: str) -> Any:
        left = (torch.arange(12) * 7 % 12).float().to(device)
        scores = (torch.arange(12) * 11 % 12).to(device)
        right = left + 1 + scores % 3
        order, kept = scores.sort(0, descending=True)[1], []
        while order.numel() > 0:
            i, rest = order[0], order[1:]
            kept.append(i.item())
            common = right[rest].clamp(max=right[i].item()) - left[rest].clamp(min=left[i].item())
            share = common.clamp(min=0) / (right[rest] - left[rest])
            order = rest[(share <= 0.5).nonzero().squeeze(1)]
        return kept

    alike(apart)


def test_types_of_the_host_that_the_device_has_not_are_cast() -> None:
    for n in range(1, 7):
        x = torch.arange(2 * n, device="jax").reshape(n, 2)
        assert (torch.int32, torch.float32) == ((x + 1).dtype, (x / 2).dtype)
        assert torch.bfloat16 == (x.to(torch.bfloat16) + 1).dtype
        zeros = torch.zeros_like(x, dtype=torch.float32, device="jax")
        assert ("jax", torch.float32) == (zeros.device.type, zeros.dtype)
    norm = nn.BatchNorm1d(2).to("jax")
    for n in range(2, 8):
        norm(torch.ones(n, 2, device="jax"))
    assert torch.allclose(torch.tensor(1 - 0.9**6), norm.running_mean.cpu(), atol=1e-5)


def test_shapes_that_come_often_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    counts: dict[Any, Any] = {}
    found = [dynamic_shapes.keeps_changing("sum", shape, counts) for shape in (1, 2, 3, 4, 5, 5, 1)]
    assert [False] * 4 + [True, True, False] == found
    assert [True] * 14 + [False] == [dynamic_shapes.keeps_changing("sum", 5, counts) for _ in range(15)]
    monkeypatch.setattr(dynamic_shapes, "MOST_COUNTED", 6)
    assert dynamic_shapes.keeps_changing("sum", 6, counts)
    assert dynamic_shapes.keeps_changing("sum", 7, counts)
    assert {1, 2, 3, 4, 5, 7} == set(counts["sum"])


def test_the_host_takes_and_sets_items_where_indices_keep_changing(alike: Alike) -> None:
    def changed(device: str) -> Any:
        x, seen = torch.arange(40.0, device=device), []
        for n in range(1, 12):
            places = torch.arange(n, device=device)
            x[places] = x[places] + 1
            x[x > 30 + n / 3] = 0.5
            x[[0, n]] = 2.0
            seen += [x[1:n].sum(), x[None, places].clone(), x[list(range(n))].clone()]
        return x, seen

    alike(changed)


def test_conditions_that_are_truth_values_are_computed_on_the_host() -> None:
    for n in range(1, 8):
        x = jax.numpy.arange(n)
        (made,) = jax.tree.leaves(dynamic_shapes.computed(torch.ops.aten.where.self, [True, x, x + 1], {}))
        assert x.tolist() == made.tolist()
