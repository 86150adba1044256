"""Indices that mix numbers, lists, ranges, arrays, and tensors of the host and of the device."""

# ruff: noqa: ARG005, FBT003

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import tensor
from torchax_compat import differentiable

Alike = Callable[..., None]


def _made(device: Any) -> Any:
    return torch.arange(24.0, device=device).reshape(2, 3, 4).clone()


#: Indices, which may be on the device.
INDICES: dict[str, Callable[[Any], Any]] = {
    "number of the host": lambda d: tensor(1),
    "negative number of the host": lambda d: tensor(-1),
    "number of the device": lambda d: tensor(1, device=d),
    "truth value": lambda d: True,
    "truth value of the host": lambda d: tensor(True),
    "no truth": lambda d: tensor(False),
    "number and slice": lambda d: (tensor(1), slice(None)),
    "slice and number": lambda d: (slice(None), tensor(2)),
    "rest and number": lambda d: (..., tensor(2)),
    "numbers of both": lambda d: (tensor(1, device=d), tensor(0)),
    "new dimension and number": lambda d: (None, tensor(1)),
    "range and number": lambda d: (range(2), 1),
    "slice, range, number": lambda d: (slice(None), range(2), 1),
    "number and list": lambda d: (1, [0, 2]),
    "number, slice, list": lambda d: (1, slice(None), [0, 2]),
    "slice, list, slice, number": lambda d: (None, [0, 1], slice(None), 1),
    "list and number": lambda d: ([0, 1], 1),
    "list, slice, list": lambda d: ([0, 1], slice(None), [0, 2]),
    "list, new dimension, list": lambda d: ([0, 1], None, [0, 2]),
    "list, rest, number": lambda d: ([0, 1], ..., 1),
    "rest, list, number": lambda d: (..., [0, 1], 1),
    "list and number of the host": lambda d: ([0, 1], tensor(1)),
    "array and number": lambda d: (np.array([0, 1]), 1),
    "number and array": lambda d: (0, np.array([0, 1])),
    "array of one number": lambda d: np.array(1),
    "tensors and list": lambda d: (tensor([0, 1], device=d), [1, 2], tensor(0)),
    "list of numbers of the device": lambda d: (0, [tensor(0, device=d), tensor(1, device=d)]),
    "list of lists": lambda d: ([[0, 1]], 1),
    "list of nothing": lambda d: ([], 1),
    "truth values and number": lambda d: ([True, False], 1),
    "mask of the host and number": lambda d: (tensor([True, False]), 1),
    "mask, slice, number": lambda d: (tensor([True, False], device=d), slice(None), 1),
    "mask of two dimensions": lambda d: (tensor([[True, False, True]] * 2, device=d), 1),
    "slice of numbers of the host": lambda d: slice(tensor(0), tensor(1)),
    "slice of numbers of the device": lambda d: (slice(None), slice(tensor(1, device=d), None)),
    "slice of numbers of numpy": lambda d: slice(np.int64(0), np.int64(1)),
}


@pytest.mark.parametrize("name", INDICES)
def test_elements_are_read_and_computed_with(name: str, alike: Alike) -> None:
    def read(device: str) -> Any:
        part = _made(device)[INDICES[name](device)]
        return part, part * 2, (1 - part).sum(), _made(device).permute(2, 0, 1)[:2, :2].sum()

    alike(read)


@pytest.mark.parametrize("name", INDICES)
def test_elements_are_set(name: str, alike: Alike) -> None:
    def assigned(device: str) -> Any:
        x, y, z, whole = _made(device), _made(device), _made(device), _made(device).long()
        index = INDICES[name](device)
        x[index] = x.max() + 1
        y[index] = -y[index].clone()
        z[index] += 2
        whole[index] = tensor([3], device=device)
        return x, y, z, whole

    alike(assigned)


@pytest.mark.parametrize("name", INDICES)
def test_what_torch_takes_as_a_view_shares_writes(name: str, alike: Alike) -> None:
    def written(device: str) -> Any:
        x = _made(device)
        part = x[INDICES[name](device)]
        part += 1
        x -= 0.5
        return x, part

    alike(written)


@pytest.mark.parametrize("name", [one for one in INDICES if one not in ("no truth", "list of nothing")])
def test_elements_in_a_compiled_function(name: str, alike: Alike) -> None:
    def loss(x: Any) -> Any:
        y = x * 2
        index = INDICES[name](x.device.type)
        y[index] = y[index] * 3
        part = y[index]
        part += 1
        return (y**2).sum() + (x[index] ** 2).sum()

    def slopes(device: str) -> Any:
        x = _made(device).requires_grad_()
        computed, seen = differentiable(loss) if device == "jax" else loss, []
        for _ in range(2):
            value = computed(x)
            value.backward()
            seen.append((value.detach(), x.grad.clone()))
        return seen

    alike(slopes)


def test_a_number_of_the_device_is_an_input_of_a_compiled_function(alike: Alike) -> None:
    def loss(x: Any, at: Any) -> Any:
        y = x * 2
        y[at] = y[at] * 3
        row, column = y[at - 1], y[:, at]
        row *= 2
        column += 1
        return (y**2).sum() + x[at, :2].sum()

    def slopes(device: str) -> Any:
        x = _made(device).requires_grad_()
        computed, seen = differentiable(loss) if device == "jax" else loss, []
        for at in (1, 0, 1):
            value = computed(x, tensor(at, device=device))
            value.backward()
            seen.append((value.detach(), x.grad.clone()))
        return seen

    alike(slopes)


def test_one_element_is_written_at_many_places(alike: Alike) -> None:
    def written(device: str) -> Any:
        places = torch.zeros(8, dtype=torch.long, device=device)
        rows, table = torch.zeros(8, 2, device=device), torch.zeros(4, 8, device=device)
        token = tensor([5], device=device)
        for i in range(8):
            places[i] = token + i
            rows[i] = (token + i)[None].float()
            rows[i, 1] = tensor([[0.5 * i]], device=device)
            table[i % 4, i] = token.float()
            table[-1][i] = tensor([i + 1.0])
        return places, rows, table

    alike(written)


def test_a_table_of_the_device_is_read_at_numbers_of_the_host(alike: Alike) -> None:
    def read(device: str) -> Any:
        table, seen = torch.linspace(0.1, 0.9, 8, device=device), []
        for at in torch.arange(7, -1, -2):
            a, before = table[at], table[at - 1] if at > 0 else torch.tensor(1.0, device=device)
            seen += [1 - a, a**0.5, (before - a).sqrt(), table[: at + 1].prod(), table[None, at].mean()]
        return seen

    alike(read)
