"""Tensors that are made on the device, moved there, copied from there, or change their type."""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torchax_compat import differentiable

Alike = Callable[..., None]
HOST = torch.arange(6.0).reshape(2, 3)


@pytest.mark.parametrize(
    "move",
    [
        lambda x: x.to("jax"),
        lambda x: x.to(torch.device("jax:0"), non_blocking=True),
        lambda x: x.to("jax", torch.float32),
        lambda x: x.cuda() if torch.cuda.is_available() else x.to("jax"),
        lambda x: torch.as_tensor(x, device="jax"),
        lambda x: torch.as_tensor(x, dtype=torch.float32, device="jax"),
        lambda x: torch.asarray(x, device="jax"),
        lambda x: x.to(torch.ones(1, device="jax")),
    ],
)
def test_tensors_of_the_host_are_moved(move: Callable[[Any], Any]) -> None:
    x = HOST.clone()
    moved = move(x)
    x[0] = 9
    assert "jax" == moved.device.type
    assert HOST.tolist() == moved.tolist()


def test_tensor_that_wants_a_gradient_is_moved() -> None:
    assert HOST.tolist() == HOST.clone().requires_grad_().to("jax").tolist()


@pytest.mark.parametrize("dtype", [torch.int32, torch.float16, torch.bfloat16, torch.bool, torch.uint8])
def test_tensors_get_another_type(dtype: torch.dtype, alike: Alike) -> None:
    def cast(device: str) -> list[Any]:
        x = torch.tensor([-0.5, 0.0, 1.7, 200.0], device=device).abs()
        made = x.to(dtype)
        return [made.dtype, made.float(), x.type(dtype).float(), torch.as_tensor(x, dtype=dtype).float()]

    alike(cast)


def test_a_tensor_that_has_the_type_already_is_itself() -> None:
    x = HOST.to("jax")
    assert x.to(torch.float32) is x
    assert [[0, 1, 2], [3, 4, 5]] == (x + 0.9).to(torch.int64).tolist()


MADE: list[Callable[[Any], Any]] = [
    lambda d: torch.tensor([1, 2.5], device=d),
    lambda d: torch.tensor([[True], [False]], device=d),
    lambda d: torch.tensor(np.arange(3), device=d),
    lambda d: torch.tensor([np.float32(1.5), 2], device=d),
    lambda d: torch.tensor(3, dtype=torch.float32, device=d),
    lambda d: torch.tensor([1.0], device=d, requires_grad=True),
    lambda d: torch.as_tensor([1.0, 2.0], device=d),
    lambda d: torch.zeros(2, 3, dtype=torch.int32, device=d),
    lambda d: torch.zeros(2, 3, dtype=torch.int32, device=d).to(torch.float32),
    lambda d: torch.ones((2, 3), device=d, requires_grad=True),
    lambda d: torch.full((2,), 1.5, device=d),
    lambda d: torch.arange(1, 7, 2, device=d),
    lambda d: torch.linspace(0, 1, 5, device=d),
    lambda d: torch.eye(3, device=d),
    lambda d: torch.empty(0, device=d),
    lambda d: torch.ones(2, device=d, pin_memory=False),
    lambda d: torch.scalar_tensor(2.0, device=d),
]


@pytest.mark.parametrize("number", range(len(MADE)))
def test_tensors_are_made_on_the_device(number: int, alike: Alike) -> None:
    assert "jax" == MADE[number]("jax").device.type
    alike(lambda device: [MADE[number](device), MADE[number](device).requires_grad])


def test_the_number_of_a_device_is_the_device() -> None:
    assert "jax" == torch.zeros(1, device=0).device.type
    assert "jax" == torch.zeros_like(HOST, device=0).device.type


def test_tensors_are_made_where_the_one_is_that_they_are_like() -> None:
    x = HOST.to("jax")
    for made, expected in (
        (torch.zeros_like(HOST, device="jax"), "jax"),
        (torch.ones_like(HOST, device=torch.device("jax"), requires_grad=True), "jax"),
        (HOST.new_zeros(2, device="jax"), "jax"),
        (torch.zeros_like(torch.empty(2, device="meta"), device="jax"), "jax"),
        (torch.zeros_like(x), "jax"),
        (torch.zeros_like(x, device="cpu"), "cpu"),
        (x.new_ones(2, device="cpu", dtype=torch.int32), "cpu"),
        (x.new_full((2,), 3.0), "jax"),
        (x.new_tensor([1.0], device="cpu"), "cpu"),
        (torch.zeros_like(HOST, device="cpu"), "cpu"),
        (torch.zeros_like(HOST), "cpu"),
    ):
        assert expected == made.device.type
    assert torch.ones_like(HOST, device="jax", requires_grad=True).requires_grad


def test_new_makes_tensors_of_a_size_or_of_data(alike: Alike) -> None:
    alike(
        lambda device: [
            torch.ones(2, device=device).new([1, 2]),
            torch.ones(2, device=device).new(2, 3).zero_(),
            torch.ones(2, device=device).new(torch.Size([2, 1])).zero_(),
            torch.ones(2, device=device).new(),
            torch.ones(2, device=device)[:1].new([3.0]),
            torch.ones(2, dtype=torch.int32, device=device).new_tensor([1, 2]),
        ]
    )


def test_a_tensor_that_was_made_for_it_is_given_its_type_by_out() -> None:
    x = torch.ones(2, dtype=torch.int32, device="jax")
    out = x.new()
    made = torch.zeros(2, 3, out=out)
    assert (torch.int32, [[0] * 3] * 2) == (made.dtype, made.tolist())
    assert out.tolist() == made.tolist()


SCALED: list[Callable[[Any, Any], Any]] = [
    lambda x, s: x.add(x, alpha=s),
    lambda x, s: torch.sub(x, x, alpha=s),
    lambda x, s: x.clone().add_(x, alpha=s),
    lambda x, s: x.clone().sub_(x + 1, alpha=s),
    lambda x, s: torch.addcmul(x, x, x, value=s),
    lambda x, s: x.addcdiv(x, x + 1, value=s),
    lambda x, s: x.clone().addcdiv_(x, x + 1, value=s),
    lambda x, s: x.half().add(x.half(), alpha=s),
]


@pytest.mark.parametrize("number", range(len(SCALED)))
def test_tensors_of_one_number_may_be_factors(number: int) -> None:
    x, factor = HOST.to("jax"), torch.tensor(0.5, device="jax")
    assert SCALED[number](HOST, 0.5).tolist() == SCALED[number](x, factor).tolist()


def test_other_ways_to_move_and_scale_are_torchaxs_own() -> None:
    x = HOST.to("jax")
    assert torch.float16 == HOST.to("jax", dtype=torch.float16).dtype
    assert torch.float16 == x.to(x.half()).dtype
    assert [2.0, 4.0] == torch.add(x[0, 1:], x[0, 1:]).tolist()
    assert [2.0, 3.0] == torch.add(x[0, :2], 1, alpha=2).tolist()
    assert x.new_zeros(2, device=torch.ones(1).to("jax").device).device.type == "jax"


def test_factors_that_would_change_the_type_are_read() -> None:
    x = torch.arange(3, device="jax")
    assert [0, 3, 6] == x.add(x, alpha=torch.tensor(2, device="jax")).tolist()
    with pytest.raises((RuntimeError, TypeError, ValueError)):
        x.add(x, alpha=torch.tensor([1, 2], device="jax"))


def test_data_of_a_tensor_of_the_host_may_be_given_from_the_device() -> None:
    x = torch.zeros(2, 3)
    x.data = HOST.to("jax")
    assert ("cpu", HOST.tolist()) == (x.device.type, x.tolist())


def test_tensors_of_the_host_are_moved_where_they_meet_ones_of_the_device() -> None:
    x = HOST.to("jax")
    assert (HOST * 2).tolist() == (x + HOST).tolist()
    assert (HOST + 1).tolist() == (x + torch.tensor(1.0)).tolist()
    assert [HOST.tolist()] * 2 == torch.stack([x, HOST]).tolist()
    y = HOST.clone()
    with pytest.raises(AssertionError):
        x * y.requires_grad_()


def test_cpu_returns_a_copy_of_the_tensor() -> None:
    x = HOST.to("jax")
    for made in (x.cpu(), x.to("cpu"), x[0].cpu(), x.cpu(), x.to(torch.bfloat16).cpu()):
        made.fill_(9)
    assert HOST.tolist() == x.tolist()
    assert HOST.tolist() == x.cpu().tolist()


def test_to_copies_on_demand() -> None:
    x = torch.ones(3, device="jax")
    for made in (x.to("jax", copy=True), x.to("jax", torch.float32, False, True)):  # noqa: FBT003
        made.mul_(2)
        assert [1.0] * 3 == x.tolist()
    assert x.to("jax") is x


@pytest.mark.parametrize("size", [3, 1 << 15])
def test_to_the_device_reads_at_once(size: int) -> None:
    frames = np.zeros(size, dtype=np.float32)
    x = torch.from_numpy(frames).to("jax")
    frames[:] = 100
    assert 0 == x.max().item()


def test_types_of_cuda_make_tensors_of_the_device() -> None:
    x = HOST.to("jax")
    assert ("jax", [1.0, 2.0]) == ((y := torch.cuda.FloatTensor([1, 2])).device.type, y.tolist())
    assert (torch.int32, (2, 3)) == (torch.cuda.LongTensor(x).dtype, tuple(torch.cuda.LongTensor(2, 3).shape))
    assert isinstance(x, torch.cuda.FloatTensor)
    assert not isinstance(x, torch.cuda.LongTensor)
    assert not isinstance(HOST, torch.cuda.FloatTensor)
    assert "<class 'torch.cuda.FloatTensor'>" == repr(torch.cuda.FloatTensor)


def test_type_moves_tensors_to_the_device_and_says_where_they_are() -> None:
    x = HOST.to("jax")
    assert "torch.cuda.FloatTensor" == x.type()
    assert "torch.FloatTensor" == HOST.type()
    for wanted, dtype in (
        ("torch.cuda.IntTensor", torch.int32),
        (torch.cuda.HalfTensor, torch.float16),
        (type(x), torch.float32),
        (type(x[0]), torch.float32),
    ):
        made = HOST.type(wanted)
        assert ("jax", dtype) == (made.device.type, made.dtype)
    assert torch.float16 == HOST.type(dtype="torch.cuda.HalfTensor").dtype
    assert torch.float64 == HOST.type("torch.DoubleTensor").dtype
    assert torch.nn.Linear(2, 1).type(torch.cuda.FloatTensor).weight.device.type == "jax"


def test_tensors_that_are_read_from_a_file_go_to_the_device() -> None:
    file = io.BytesIO()
    torch.save({"weight": HOST.to("jax")[1], "step": 3}, file)
    for place, expected in (("jax", "jax"), (torch.device("cuda"), "jax"), ("cpu", "cpu"), (None, "cpu")):
        file.seek(0)
        read = torch.load(file, map_location=place)
        assert (expected, [3.0, 4.0, 5.0], 3) == (
            read["weight"].device.type,
            read["weight"].tolist(),
            read["step"],
        )


def test_old_constructors_take_numbers_of_the_device() -> None:
    x = torch.tensor([3.0, 1.0, 2.0], device="jax")
    made = (
        torch.FloatTensor([x.max(), x[1]]),
        torch.LongTensor([x.argmax(), x.argmin()]),
        torch.BoolTensor([x[0] > 2]),
    )
    assert [[3.0, 1.0], [0, 1], [True]] == [one.tolist() for one in made]
    assert [3.0, 1.0, 1.0] == torch.Tensor([x.max(), x[1], 1.0]).tolist()
    assert {"cpu"} == {one.device.type for one in made}


def test_empty_tensors_of_the_host_are_joined_with_ones_of_the_device() -> None:
    tracked = torch.zeros(0)
    for number in range(3):
        tracked = torch.cat((tracked, torch.full((1,), float(number)).to("jax")))
    assert [0.0, 1.0, 2.0] == tracked.tolist()


def test_old_ways_to_make_tensors_in_a_compiled_function(alike: Alike) -> None:
    def read(x: Any, priors: Any) -> Any:
        start = torch.zeros(x.size(0), 3, out=x.data.new())
        mask = x.data.new().bool().new(x.size(0), 3).zero_()
        order = torch.arange(3, out=mask.long().data.new())
        state = (start + x.new(x.size(0), 3).zero_() + x).masked_fill(mask, 1)
        return (state[:, order.flip(0)] * priors.type(type(x.data))).sum(0)

    def made(device: str) -> Any:
        x = torch.arange(6.0).reshape(2, 3).to(device)
        priors = torch.linspace(0, 1, 3, dtype=torch.float64)
        if device == "cpu":
            return read(x, priors.type(torch.FloatTensor))
        return differentiable(lambda x: read(x, priors))(x)

    x = torch.arange(6.0).reshape(2, 3)
    due = x.flip(1).sum(0) * torch.linspace(0, 1, 3)
    assert torch.allclose(due, made("jax").cpu())
