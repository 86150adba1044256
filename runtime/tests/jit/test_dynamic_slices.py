"""Slices between numbers that a traced function reads, and between elements of tensors."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: ARG005

from __future__ import annotations

import copy
import warnings

import pytest
import torch
from torch import nn
from torchax_compat import differentiable

from ..comparison import assert_equal, assert_same_as_torch, moved

X = torch.randn(3, 3, 16, generator=torch.Generator().manual_seed(0))


def cut(x, starts, size):
    """Another part of each item."""
    parts = torch.zeros_like(x[:, :, :size])
    for i in range(x.size(0)):
        start = starts[i]
        parts[i] = x[i, :, start : start + size]
    return parts


def same(function, batches, net=None, *, is_compiled=True):
    with warnings.catch_warnings():
        warnings.filterwarnings("error" if is_compiled else "ignore", "`.*` runs call by call")
        return assert_same_as_torch(
            function, net or nn.Conv1d(3, 4, 3, padding=1), batches=batches, is_compiled=is_compiled
        )


def test_slices_between_elements_of_tensors_are_compiled_once() -> None:
    def compute_loss(net, x, starts):
        return cut(net(x), starts, 5).square().mean()

    batches = [(X, torch.tensor([k, k + 1, 9 - k])) for k in range(6)]
    decorated = same(compute_loss, batches)
    assert len(decorated.compiled_function.known.traces) <= 3


def test_slices_between_tensors_with_an_open_end_and_other_indices() -> None:
    def compute_loss(net, x, lengths):
        h = net(x)
        return h[0, 1, lengths[0] :].sum() + h[1:2, ..., None, : lengths[1] - 4].mean()

    same(compute_loss, [(X, torch.tensor(one)) for one in ([3, 12], [3, 12], [3, 12], [3, 9])])


def test_slices_between_tensors_beside_tensors_let_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x, start, rows):
        return net(x)[rows, :, start : start + 3].sum()

    batches = [(X, torch.tensor(k), torch.tensor([0, 2])) for k in range(4)]
    same(compute_loss, batches, is_compiled=False)


class Queue(nn.Module):
    """Keeps keys where its place says, which a buffer has."""

    def __init__(self, put, size=10):
        super().__init__()
        self.put, self.size, self.layer = put, size, nn.Linear(16, 4)
        self.register_buffer("queue", torch.arange(size * 4.0).reshape(size, 4) / 40)
        self.register_buffer("place", torch.zeros(1, dtype=torch.long))

    def forward(self, x):
        keys = self.layer(x[:, 0]).tanh()
        place = int(self.place)
        with torch.no_grad():
            self.put(self, keys.detach(), place, len(keys))
            self.place.fill_((place + len(keys)) % self.size)
        return (keys @ self.queue.clone().t()).logsumexp(1)


def in_two_parts(self, keys, place, count):
    if place + count > self.size:
        first = self.size - place
        self.queue[place:] = keys[:first]
        self.queue[: count - first] = keys[first:]
    else:
        self.queue[place : place + count] = keys


def by_rows(self, keys, place, count):
    for k, row in enumerate(keys):
        self.queue[(place + k) % self.size] = row


def by_columns(self, keys, place, count):
    columns = self.queue.T.clone()
    columns[:, place % 7 : place % 7 + count] = keys.T
    self.queue.copy_(columns.T)


PUTS = {
    "a slice": lambda self, keys, place, count: self.queue[place % 7 : place % 7 + count].copy_(keys),
    "a slice of rows": lambda self, keys, place, count: self.queue[place % 7 : place % 7 + count, :].mul_(
        0.5
    ),
    "two parts": in_two_parts,
    "columns": by_columns,
    "indices": lambda self, keys, place, count: self.queue.__setitem__(
        (torch.arange(count, device=keys.device) + place) % self.size, keys
    ),
    "rows": by_rows,
}


@pytest.mark.parametrize("name", PUTS)
def test_place_in_a_queue_is_written(name: str) -> None:
    same(lambda net, x: net(x).sum(), [(X + step,) for step in range(6)], Queue(PUTS[name]))


def test_place_in_a_queue_of_columns_is_written() -> None:
    class Columns(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 4)
            self.register_buffer("queue", torch.eye(4, 8))
            self.register_buffer("pointer", torch.zeros(1, dtype=torch.long))

        def forward(self, x):
            keys = self.layer(x[:2, 0]).tanh()
            scores = keys @ self.queue.clone().detach()
            with torch.no_grad():
                at = int(self.pointer)
                self.queue[:, at : at + 2] = keys.T
                self.pointer[0] = (at + 2) % 8
            return scores.logsumexp(1).sum()

    same(lambda net, x: net(x), [(X + step,) for step in range(6)], Columns())


def test_slice_with_a_step_needs_its_numbers() -> None:
    def compute_loss(net, x, start):
        first = int(start.item())
        return net(x)[:, :, first : first + 6 : 2].sum() + net(x)[0, 0, None, first:].sum()

    net, decorated = nn.Conv1d(3, 4, 3), differentiable(compute_loss)
    there = moved(copy.deepcopy(net), "jax")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        for k in (1, 1, 2):
            found = decorated(there, X.to("jax"), torch.tensor(k).to("jax"))
            assert_equal(compute_loss(net, X, torch.tensor(k)), found)


def test_slices_between_numbers_of_the_host_are_those_of_python() -> None:
    x = torch.arange(10).to("jax")
    first = torch.tensor(2).to("jax")
    assert [2, 3] == x[first : first + 2].tolist()
    assert [8, 9] == x[torch.tensor(-2).to("jax") :].tolist()
    assert [0, 1] == x[:first].tolist()
