"""Text, numbers and lists of tensors of the device, and tensors that are made of them."""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
import torchax
from torch import nn
from torchax_compat import differentiable

Alike = Callable[..., None]

PRINTED: list[tuple[Callable[[Any], Any], str]] = [
    (lambda x: x, "tensor([-1.,  0.,  1.,  2.], device='jax:0')"),
    (lambda x: x[1:3], "tensor([0., 1.], device='jax:0')"),
    (lambda x: x.long().reshape(2, 2), "tensor([[-1,  0],\n        [ 1,  2]], device='jax:0')"),
    (lambda x: x > 0, "tensor([False, False,  True,  True], device='jax:0')"),
    (lambda x: x.half(), "tensor([-1.,  0.,  1.,  2.], device='jax:0', dtype=torch.float16)"),
    (
        lambda x: nn.Parameter(x),
        "Parameter containing:\ntensor([-1.,  0.,  1.,  2.], device='jax:0', requires_grad=True)",
    ),
    (lambda x: x.sum(), "tensor(2., device='jax:0')"),
]


@pytest.mark.parametrize("number", range(len(PRINTED)))
def test_tensors_print_as_those_of_a_gpu(number: int) -> None:
    make, text = PRINTED[number]
    made = make(torch.linspace(-1, 2, 4).to("jax"))
    assert text == str(made) == repr(made)


def test_what_was_computed_with_gradients_prints_its_node() -> None:
    x = torch.ones(2, device="jax", requires_grad=True)
    made = differentiable(lambda x: x.sum())(x)
    assert str(made).startswith("tensor(2., device='jax:0', grad_fn=<")


def test_what_jax_traces_prints_as_torchax_has_it() -> None:
    texts = []

    def traced(x: Any) -> Any:
        texts.append(str(x))
        return x

    jax.jit(torchax.interop.jax_view(traced))(jax.numpy.ones(2))
    assert "Tensor" in texts[0]


def test_text_of_a_tensor_is_another_one_for_each_call_of_a_compiled_function() -> None:
    texts = []

    @differentiable
    def loss(x: Any) -> Any:
        texts.append(f"{x} {x.sum()}")
        return x.sum()

    for number in range(3):
        loss(torch.full((1,), float(number)).to("jax"))
    assert [f"tensor([{n}.], device='jax:0') {n}.0" for n in range(3)] == texts[-3:]


def test_one_number_takes_a_format(alike: Alike) -> None:
    alike(
        lambda device: [
            f"{torch.ones(2, device=device).sum():.3f}",
            f"{torch.ones(2, device=device).mean()}",
            f"{torch.tensor(3, device=device):5d}",
            f"{float(torch.ones(1, device=device)[0]):.2e}",
        ]
    )
    assert "tensor([1., 1.], device='jax:0')" == f"{torch.ones(2, device='jax')}"


def test_lists_and_arrays(alike: Alike) -> None:
    alike(
        lambda device: [
            torch.arange(4, device=device).reshape(2, 2).tolist(),
            torch.arange(4, device=device)[1:].tolist(),
            torch.arange(4.0, device=device).numpy(force=True).tolist(),
            torch.tensor(2.5, device=device).tolist(),
        ]
    )
    assert [1.0, 2.0] == torch.arange(3.0, device="jax")[1:].numpy().tolist()


def test_lists_of_what_jax_differentiates_are_its_values() -> None:
    def squared(x: Any) -> Any:
        return (x * x.tolist()[0]).sum()

    value, slope = jax.value_and_grad(torchax.interop.jax_view(squared))(jax.numpy.array([3.0]))
    assert (9.0, [3.0]) == (float(value), slope.tolist())


def test_a_tensor_of_a_tensor_is_a_copy_on_its_device() -> None:
    x = torch.arange(3.0).to("jax")
    for made in (torch.tensor(x), torch.asarray(x, copy=True), torch.tensor(x[:]), torch.asarray(x).clone()):
        made[0] = 5
        assert ("jax", 0.0) == (made.device.type, x[0].item())
    assert torch.tensor(x, dtype=torch.int32).dtype == torch.int32
    assert "cpu" == torch.tensor(x, device="cpu").device.type
    assert torch.tensor(x, requires_grad=True).requires_grad
    assert torch.Tensor(x).tolist() == x.tolist()
    assert torch.as_tensor(x) is x


def test_a_tensor_of_several_tensors_holds_their_numbers_on_the_host() -> None:
    x = torch.arange(3.0).to("jax")
    whole = torch.arange(6).reshape(2, 3).to("jax")
    made = torch.tensor([x[1], x.sum()])
    assert ("cpu", [1.0, 3.0]) == (made.device.type, made.tolist())
    assert [[1], [4]] == torch.as_tensor([[whole[0, 1]], [whole[1, 1]]]).tolist()
    assert "jax" == torch.tensor([x[1], 2.0], device="jax").device.type


def test_asarray_keeps_what_it_is_given_unless_it_is_to_copy(alike: Alike) -> None:
    alike(
        lambda device: [
            torch.asarray(0.75, device=device),
            torch.asarray([1, 2], dtype=torch.float32, device=device),
            torch.asarray(torch.ones(2, device=device), dtype=torch.int32),
            torch.asarray(torch.ones(2, device=device), requires_grad=True).requires_grad,
        ]
    )


def test_sizes_and_bounds_may_be_tensors_of_one_number(alike: Alike) -> None:
    alike(
        lambda device: [
            torch.arange(torch.tensor([2, 3], device=device).max(), device=device),
            torch.zeros(2, torch.tensor(3, device=device)),
            torch.zeros((2, torch.tensor(3, device=device)), device=device),
            torch.linspace(0, torch.tensor(2.0, device=device), 3),
            torch.full((2, torch.tensor(1, device=device)), torch.tensor(2.0, device=device)),
            torch.full((2, torch.tensor(1, device=device)), 2.0, device=device),
            torch.full(size=(2,), fill_value=1.0, device=device),
            torch.full((2, torch.tensor(3, device=device)), 0.5),
            torch.eye(torch.tensor(2, device=device), device=device),
            torch.randperm(torch.tensor(3, device=device)).sort()[0],
            torch.zeros(torch.Size([2]), device=device),
        ]
    )


def test_parameters_of_parts_of_tensors_are_their_own() -> None:
    x = torch.arange(6.0).reshape(3, 2).to("jax")
    part = nn.Parameter(x[1:], requires_grad=False)
    with torch.no_grad():
        part += 1
    assert (False, [[3.0, 4.0], [5.0, 6.0]]) == (part.requires_grad, part.tolist())
    assert [[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]] == x.tolist()
    assert isinstance(part, nn.Parameter)
    assert isinstance(nn.Parameter(torch.ones(2)), nn.Parameter)


def test_parameters_of_what_jax_traces_are_no_part_of_the_graph() -> None:
    def squared(x: Any) -> Any:
        return (x * nn.Parameter(x)).sum()

    assert [3.0] == jax.grad(torchax.interop.jax_view(squared))(jax.numpy.array([3.0])).tolist()


def test_new_tensor_has_the_type_and_the_device_of_the_tensor(alike: Alike) -> None:
    alike(
        lambda device: [
            torch.ones(1, dtype=torch.float16, device=device).new_tensor([1, 2]).float(),
            torch.ones(1, device=device).new_tensor(3),
            torch.ones(1, device=device).new_tensor([1], dtype=torch.int32),
            torch.ones(1, device=device).new_tensor(data=[1.0], requires_grad=True).requires_grad,
            torch.ones(1, device=device).new_tensor(torch.ones(2, device=device)),
        ]
    )


@pytest.mark.parametrize("is_whole", [True, False])
def test_rand_like_draws_where_the_tensor_is(is_whole: bool) -> None:
    x = torch.zeros(4)
    there = x.to("jax") if is_whole else torch.zeros(5).to("jax")[:4]
    torch.manual_seed(1)
    due = torch.rand_like(x)
    torch.manual_seed(1)
    got = torch.rand_like(there)
    assert (due.tolist(), "jax", "cpu") == (got.tolist(), got.device.type, due.device.type)
    assert torch.float16 == torch.rand_like(there, dtype=torch.float16).dtype


def test_new_by_the_name_of_a_device() -> None:
    x = torch.ones(2, dtype=torch.float16, device="jax")
    made = x.new(2, device="jax")
    assert ("jax", torch.float16, 2) == (made.device.type, made.dtype, len(made))
    assert ("cpu", 2) == ((y := x.new(2, device="cpu")).device.type, len(y))
    assert [1.0, 1.0] == x.new(x, device="jax").tolist()


def test_allclose_is_a_truth_value(alike: Alike) -> None:
    alike(
        lambda device: [
            torch.allclose(torch.ones(2, device=device), torch.ones(2, device=device) + 1e-9),
            torch.ones(2, device=device).allclose(torch.zeros(2, device=device), atol=0.5),
        ]
    )
    same = jax.jit(torchax.interop.jax_view(lambda x: torch.allclose(x, x)))(jax.numpy.ones(2))
    assert bool(same)


def test_tensors_have_the_memory_format_that_is_asked_for() -> None:
    x = torch.ones(1, 2, 3, 3, device="jax").contiguous(memory_format=torch.channels_last)
    assert x.is_contiguous(memory_format=torch.channels_last)
    assert x.is_contiguous()
    assert not x.is_contiguous(memory_format=torch.channels_last_3d)
    assert x[None].is_contiguous(memory_format=torch.channels_last_3d)
