"""`Module.parameters()` and `Module.zero_grad()` do what PyTorch's do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import nn


class Named(nn.Module):
    """A module that hides one of its modules."""

    def __init__(self) -> None:
        super().__init__()
        self.hidden, self.shown = nn.Linear(2, 2), nn.Linear(3, 3)

    def named_modules(self, memo: Any = None, prefix: str = "", _: bool = True) -> Iterator[Any]:  # type: ignore[override]
        yield prefix, self
        yield from self.shown.named_modules(memo, f"{prefix}.shown")


class Chosen(nn.Module):
    """A module that chooses its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.other = nn.Linear(2, 2), nn.Linear(3, 3)

    def named_parameters(self, *args: Any, **kwargs: Any) -> Iterator[Any]:
        return self.other.named_parameters(*args, **kwargs)


def nested() -> nn.Module:
    return nn.Sequential(nn.Linear(2, 3), nn.Sequential(nn.BatchNorm1d(3), nn.Tanh()), nn.Linear(3, 1))


def shared() -> nn.Module:
    one = nn.Linear(2, 2)
    other = nn.Linear(2, 2, bias=False)
    other.weight = one.weight
    return nn.ModuleList([one, nn.Sequential(one, other), nn.Linear(2, 2)])


def without_some() -> nn.Module:
    made = nn.Sequential(nn.Linear(2, 2, bias=False), nn.ReLU())
    made.register_module("nothing", None)
    made.register_parameter("none", None)
    return made


def with_hidden_module() -> nn.Module:
    return nn.Sequential(nn.Linear(4, 4), Named(), nn.Linear(5, 5))


def with_chosen_parameters() -> nn.Module:
    return Chosen()


def within_chosen_parameters() -> nn.Module:
    return nn.Sequential(Chosen(), nn.Linear(5, 5))


def of_one_object() -> nn.Module:
    made = nested()
    made.named_parameters = lambda *_, **__: iter([("first", made[0].weight)])  # type: ignore[method-assign]
    return made


MODELS = [
    *(nested, shared, without_some, with_hidden_module),
    *(with_chosen_parameters, within_chosen_parameters, of_one_object),
]


@pytest.mark.parametrize("recurse", [True, False])
@pytest.mark.parametrize("make", MODELS)
def test_parameters_are_those_that_have_names_in_this_order(
    make: Callable[[], nn.Module], recurse: bool
) -> None:
    model = make()
    due = [p for _, p in model.named_parameters(recurse=recurse)]
    assert list(map(id, due)) == list(map(id, model.parameters(recurse=recurse)))


def test_parameters_are_looked_for_one_by_one() -> None:
    model = nested()
    found = []
    for p in model.parameters():
        found.append(p)
        if len(found) == 1:
            model[2].bias = None
    assert len(found) == 5


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_zero_grad_of_a_module(device: str) -> None:
    model = nn.Linear(2, 1).to(device)
    for p in model.parameters():
        p.grad = torch.ones_like(p)
    model.zero_grad(set_to_none=False)
    assert [[[0.0, 0.0]], [0.0]] == [p.grad.tolist() for p in model.parameters() if p.grad is not None]
    model.zero_grad()
    assert [None, None] == [p.grad for p in model.parameters()]
