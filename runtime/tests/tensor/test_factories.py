"""Tensors that are created from tensors, and from sizes and bounds that are tensors."""

# ruff: noqa: ARG005

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from torch import nn, tensor
from torchax_compat import differentiable

Alike = Callable[..., None]


class Numbers(NamedTuple):
    """Tensors of one element, and a tensor of four."""

    square: Any
    row: Any
    real: Any
    four: Any


def _numbers(device: str) -> Numbers:
    return Numbers(
        tensor([[3]], device=device),
        tensor([1], device=device),
        tensor(2.5, device=device),
        torch.arange(4.0, device=device),
    )


OF_TENSORS: dict[str, Callable[[Numbers, str], Any]] = {
    "tensors": lambda n, d: torch.tensor([n.square, n.square]),
    "as a tensor": lambda n, d: torch.as_tensor((n.square, n.row)),
    "as an array": lambda n, d: torch.asarray([n.square, n.row]),
    "nested": lambda n, d: torch.tensor([[n.square, n.row], [n.row, n.square]]),
    "beside a number": lambda n, d: torch.tensor([n.square, 2, n.row]),
    "behind a number": lambda n, d: torch.tensor([2, n.row]),
    "beside a real number": lambda n, d: torch.tensor([n.row, 2.5]),
    "real beside whole": lambda n, d: torch.tensor([n.real, n.row]),
    "truth values": lambda n, d: torch.tensor([n.row > 0, True]),
    "of another type": lambda n, d: torch.tensor([n.square, n.row], dtype=torch.float32),
    "halves": lambda n, d: torch.tensor([n.real.half(), n.real.half()]).float(),
    "rounded": lambda n, d: torch.tensor([n.real.bfloat16() / 3, 1.0]),
    "beside a number of numpy": lambda n, d: torch.tensor([np.float32(1), n.real]),
    "all of a tensor": lambda n, d: torch.tensor(list(n.four)).sum(),
    "parts": lambda n, d: torch.tensor([n.four[0:1], n.four[1:2]], device=d),
    "on the device": lambda n, d: torch.tensor([n.square, n.row], device=d),
    "on the device, nested": lambda n, d: torch.tensor([[n.square, 1], [n.row, 2]], device=d),
    "on the device, of another type": lambda n, d: torch.as_tensor(
        [n.square, n.row], dtype=torch.float32, device=d
    ),
    "on the device, truth values": lambda n, d: torch.tensor([n.row > 0, n.row > 5], device=d),
    "positions": lambda n, d: torch.tensor([[n.four.argmax()], [n.four.argmin(keepdim=True)]], device=d),
    "one": lambda n, d: torch.tensor(n.square),
    "one on the device": lambda n, d: torch.tensor(n.square, device=d),
    "one of another type": lambda n, d: torch.tensor(n.square, dtype=torch.float32, device=d),
    "new": lambda n, d: n.four.new_tensor([[n.square, n.real]]),
    "classes": lambda n, d: (torch.FloatTensor([n.real, n.real]), torch.LongTensor([n.row, n.square])),
}


@pytest.mark.parametrize("name", OF_TENSORS)
@pytest.mark.parametrize("place", ["device", "host"])
def test_each_tensor_of_one_element_gives_a_number(name: str, place: str, alike: Alike) -> None:
    alike(lambda device: OF_TENSORS[name](_numbers(device if place == "device" else "cpu"), device))


def test_numbers_of_the_device_are_on_the_host_unless_told() -> None:
    numbers = _numbers("jax")
    assert "cpu" == torch.tensor([numbers.square, numbers.row]).device.type
    assert "jax" == torch.tensor([numbers.square, numbers.row], device="jax").device.type
    assert "jax" == torch.tensor([tensor(1), tensor(2)], device="jax").device.type
    assert (torch.int64, torch.float16) == (
        torch.tensor([numbers.row]).dtype,
        torch.tensor([numbers.real.half()]).dtype,
    )


@pytest.mark.parametrize("device", ["cpu", "jax", None])
def test_tensors_of_several_elements_raise(device: str | None) -> None:
    with pytest.raises(ValueError, match="only one element tensors"):
        torch.tensor([_numbers("jax").four, _numbers("jax").four], device=device)


def test_a_copy_does_not_share_writes() -> None:
    source = torch.zeros(2, device="jax")
    made = torch.tensor(source, device="jax")
    source += 1
    assert [0.0, 0.0] == made.tolist()


def test_numbers_of_a_compiled_function(alike: Alike) -> None:
    def loss(x: Any) -> Any:
        weights = torch.tensor([x.sum(), 2.0], device=x.device)
        return (x * weights).sum()

    def slopes(device: str) -> Any:
        x = torch.ones(2, device=device).requires_grad_()
        value = (differentiable(loss) if device == "jax" else loss)(x)
        value.backward()
        return value, x.grad

    alike(slopes)


class Sizes(NamedTuple):
    """Numbers of the host, or of the device."""

    three: Any
    one: Any
    real: Any
    lengths: Any


SIZED: dict[str, Callable[[Sizes, Any, str], Any]] = {
    "arange": lambda n, x, d: torch.arange(n.three, device=d),
    "arange of bounds": lambda n, x, d: torch.arange(n.one, n.three, n.one, device=d),
    "arange by name": lambda n, x, d: torch.arange(start=n.one, end=n.three, device=d),
    "arange of reals": lambda n, x, d: torch.arange(n.real, device=d),
    "arange backwards": lambda n, x, d: torch.arange(n.three - 1, -1, -1, device=d),
    "mask of lengths": lambda n, x, d: (
        torch.arange(n.lengths.max(), device=d)[None] < n.lengths.to(d)[:, None]
    ),
    "full": lambda n, x, d: torch.full((2,), n.three, device=d),
    "full of a real": lambda n, x, d: torch.full([n.three, 2], n.real, device=d),
    "full by name": lambda n, x, d: torch.full(size=(n.three,), fill_value=n.real, device=d),
    "full of another type": lambda n, x, d: torch.full((2,), n.three, dtype=torch.float32, device=d),
    "linspace": lambda n, x, d: torch.linspace(n.one, n.real, n.three, device=d),
    "linspace by name": lambda n, x, d: torch.linspace(start=0, end=n.real, steps=n.three, device=d),
    "logspace": lambda n, x, d: torch.logspace(n.one, n.three, 3, device=d),
    "randint": lambda n, x, d: torch.randint(0, n.three, (4,), device=d),
    "randint of a size": lambda n, x, d: torch.randint(n.three, (n.three,), device=d),
    "randint by name": lambda n, x, d: torch.randint(low=n.one, high=n.three, size=(n.three,), device=d),
    "randint like": lambda n, x, d: torch.randint_like(x, n.one, n.three),
    "zeros": lambda n, x, d: torch.zeros(n.three, 2, device=d),
    "zeros of a tuple": lambda n, x, d: torch.zeros((n.three, n.one), device=d),
    "ones": lambda n, x, d: torch.ones(tuple(torch.stack([n.three, n.one])), device=d),
    "eye": lambda n, x, d: torch.eye(n.three, device=d),
    "randn": lambda n, x, d: torch.randn(n.three, 2, device=d),
    "randperm": lambda n, x, d: torch.randperm(n.three, device=d),
    "like a tensor": lambda n, x, d: (x.new_zeros(n.three, 2), x.new_full((n.three,), n.real)),
    "of a tensor": lambda n, x, d: (x[:1].expand(n.three, 4), x.view(n.three, -1), x.repeat(n.three, 1)),
    "one hot": lambda n, x, d: nn.functional.one_hot(torch.arange(3, device=d), num_classes=n.three),
    "picked": lambda n, x, d: (x.index_select(0, n.one), x.narrow(0, n.one, n.three - 1)),
}


@pytest.mark.parametrize("name", SIZED)
@pytest.mark.parametrize("place", ["device", "host"])
def test_sizes_and_bounds_are_tensors(name: str, place: str, alike: Alike) -> None:
    def made(device: str) -> Any:
        where = device if place == "device" else "cpu"
        numbers = Sizes(*(torch.tensor(one, device=where) for one in (3, 1, 2.5, [3, 1, 2])))
        return SIZED[name](numbers, torch.arange(12.0, device=device).reshape(3, 4), device)

    alike(made)
