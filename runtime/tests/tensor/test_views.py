"""Views, `data` and `detach()` share what is written to them with their tensors, as in torch."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
import torchax
from torch import nn
from torchax_compat import differentiable

Alike = Callable[..., None]


def _made(device: str) -> Any:
    return torch.arange(12.0, device=device).reshape(3, 4).clone()


WRITES: dict[str, Callable[[Any], Any]] = {
    "select": lambda x: x.select(1, 0).zero_(),
    "part of a flat view": lambda x: x.view(-1)[5:7].zero_(),
    "unbind": lambda x: [row.mul_(2) for row in x.unbind(0)[::2]],
    "chunk": lambda x: x.chunk(2, dim=1)[0].copy_(x.chunk(2, dim=1)[1]),
    "split": lambda x: [part.add_(number) for number, part in enumerate(x.split([1, 2]))],
    "t": lambda x: x.t()[1].fill_(9),
    "transpose": lambda x: x.transpose(0, 1).add_(1),
    "permute": lambda x: x.permute(1, 0)[0].mul_(3),
    "diagonal": lambda x: x.diagonal().zero_(),
    "unsqueeze": lambda x: x.unsqueeze(0).add_(1),
    "squeeze": lambda x: x[:1].squeeze(0).mul_(2),
    "squeeze of a dimension": lambda x: x.unsqueeze(1).squeeze(1).sub_(1),
    "narrow": lambda x: x.narrow(1, 1, 2).copy_(x[:, :1]),
    "view of a view": lambda x: x.t().unsqueeze(0)[0, 1].zero_(),
    "view of a part": lambda x: x[1:].view(-1)[2:4].fill_(5),
    "assigned items": lambda x: x.t().__setitem__(0, 7.0),
    "masked": lambda x: x[0].masked_fill_(x[0] > 1, -1),
    "in place under no_grad": lambda x: x.detach().add_(1),
    "data": lambda x: x.data.mul_(2),
    "data of a part": lambda x: x[1].data.fill_(4),
    "detached part of a part": lambda x: x[1:][0].detach().fill_(4),
    "data of data": lambda x: x.data.detach().data.sub_(1),
    "power in place": lambda x: x[2:, 1:].pow_(2),
    "exponential in place": lambda x: x[:1].exp_(),
    "expand": lambda x: x[:1].expand(5, 4)[3, 1].fill_(7),
    "expand in front": lambda x: x.expand(2, 3, 4)[1, 2].mul_(2),
    "expand as": lambda x: x[:, :1].expand_as(x).__setitem__((1, 3), 7.0),
    "broadcast to": lambda x: torch.broadcast_to(x[:1], (3, 4)).__setitem__((2, 0), x.max()),
    "broadcast tensors": lambda x: torch.broadcast_tensors(x[:1], x)[0][2, 1].add_(1),
    "grid": lambda x: torch.meshgrid(x[0], x[1], indexing="ij")[0][1, 2].fill_(-1),
    "unfold": lambda x: x.unfold(1, 2, 2)[0, 1].fill_(5),
    "unfold that overlaps": lambda x: x.unfold(1, 2, 1)[:, 1, 1].zero_(),
    "unfold of a turned tensor": lambda x: x.t().unfold(0, 2, 1)[2, :, 0].mul_(3),
    "as strided": lambda x: x.as_strided((2, 2), (4, 1), 1).fill_(3),
    "as strided of a part": lambda x: x[1:].as_strided((2,), (4,)).fill_(3),
    "as strided of a turned tensor": lambda x: torch.as_strided(x.t(), (3,), (1,), 2).zero_(),
    "tensor split": lambda x: torch.tensor_split(x, 2, dim=1)[1].fill_(3),
    "tensor split by its method": lambda x: x.tensor_split((1, 3), dim=1)[1].mul_(2),
    "hsplit": lambda x: x.hsplit(2)[1].zero_(),
    "vsplit": lambda x: torch.vsplit(x, 3)[2].zero_(),
    "unsafe chunk": lambda x: x.unsafe_chunk(2, 1)[0].add_(1),
    "swapaxes": lambda x: x.swapaxes(0, 1)[0].zero_(),
    "swapdims": lambda x: torch.swapdims(x, 0, 1)[1].zero_(),
    "movedim": lambda x: x.movedim(0, -1)[0].zero_(),
    "matrix transpose": lambda x: x.mT[1].neg_(),
    "adjoint": lambda x: x.adjoint()[1].neg_(),
    "diagonal of all": lambda x: torch.linalg.diagonal(x).fill_(1),
    "unflatten": lambda x: x.unflatten(1, (2, 2))[:, 1].zero_(),
    "ravel": lambda x: x.ravel()[3:5].zero_(),
    "real of real": lambda x: x.real[0].zero_(),
    "bits": lambda x: x.view(torch.int32)[0].fill_(0x3F800000),
    "smaller bits": lambda x: x.view(torch.int16)[1, 3::2].zero_(),
    "complex": lambda x: torch.view_as_complex(x.view(3, 2, 2))[0].mul_(1j),
    "imaginary part": lambda x: torch.view_as_complex(x.view(3, 2, 2)).imag.fill_(4),
    "complex bits": lambda x: x.view(torch.complex64).real[1].fill_(4),
    "another type": lambda x: x.t().copy_(torch.arange(12, device=x.device).reshape(4, 3)),
}


@pytest.mark.parametrize("name", WRITES)
def test_what_is_written_to_a_view_is_in_its_tensor(name: str, alike: Alike) -> None:
    def written(device: str) -> Any:
        x = _made(device)
        WRITES[name](x)
        return x

    alike(written)


def test_what_is_written_to_a_tensor_is_in_its_views(alike: Alike) -> None:
    def seen(device: str) -> list[Any]:
        x = _made(device)
        views = [
            x.t(),
            x.view(-1),
            x.diagonal(),
            x.unbind(1)[1],
            x[1:],
            x.detach(),
            x.data,
            x.t().view(-1, 1, 3),
            x[:1].expand(2, 4),
            torch.broadcast_to(x[:, :1], (3, 2)),
            x.unfold(1, 2, 1),
            x.as_strided((2, 3), (1, 4), 1),
            torch.tensor_split(x, 3, dim=1)[1],
            x.view(torch.int32),
            torch.view_as_complex(x.view(3, 2, 2)).imag,
            x.movedim(0, 1)[1:],
        ]
        x.add_(1)
        x[0] = 7
        return views

    alike(seen)


COMPLEX: dict[str, Callable[[Any], Any]] = {
    "real": lambda x: x.real[0].fill_(3),
    "imag": lambda x: torch.imag(x).mul_(2),
    "imag of a turned tensor": lambda x: x.t().imag[1].zero_(),
    "both": lambda x: torch.view_as_real(x)[..., 1].add_(1),
    "and back": lambda x: torch.view_as_complex(torch.view_as_real(x))[0].mul_(1j),
    "conjugate": lambda x: x.conj()[0].fill_(2 + 1j),
    "adjoint": lambda x: x.mH[0].mul_(1j),
    "bits": lambda x: x.view(torch.float32)[1].zero_(),
}


@pytest.mark.parametrize("name", COMPLEX)
def test_parts_of_complex_numbers_share_what_is_written(name: str, alike: Alike) -> None:
    def written(device: str) -> Any:
        x = torch.complex(_made(device), _made(device) - 5)
        real, both = x.real, torch.view_as_real(x)
        COMPLEX[name](x)
        return torch.view_as_real(x), real * 1, both * 1

    alike(written)


def test_gradients_go_through_what_is_written_to_views(alike: Alike) -> None:
    def loss(x: Any) -> Any:
        y = x * 2
        y[:1].expand(3, 4)[1, 0] = x[2, 3] * 3
        y.unfold(1, 2, 1)[2, 0] *= 2
        y.as_strided((2,), (5,), 1).copy_(x[1, :2])
        seen = y.detach()
        z = torch.view_as_complex(y.view(3, 2, 2))
        z.imag[1] = x[0, :2] ** 2
        y[2] *= 3
        return (y**2).sum() + seen.sum() * y[0, 0]

    def slopes(device: str) -> Any:
        x = _made(device).requires_grad_()
        computed, seen = differentiable(loss) if device == "jax" else loss, []
        for _ in range(2):
            value = computed(x)
            value.backward()
            seen.append((value.detach(), x.grad.clone()))
        return seen

    alike(slopes)


def test_bits_that_need_64_bits_raise() -> None:
    with pytest.raises(RuntimeError, match="jax_enable_x64"):
        _made("jax").view(torch.float64)


COPIES: dict[str, Callable[[Any], Any]] = {
    "reshape of a transposed tensor": lambda x: x.t().reshape(-1),
    "contiguous of a transposed tensor": lambda x: x.t().contiguous(),
    "contiguous of a part": lambda x: x[:, :2].contiguous(),
    "clone": lambda x: x.t().clone(),
    "picked elements": lambda x: x[[0, 1]],
}


@pytest.mark.parametrize("name", COPIES)
def test_what_torch_copies_is_a_copy(name: str, alike: Alike) -> None:
    def written(device: str) -> Any:
        x = _made(device)
        made = COPIES[name](x)
        made.add_(1)
        x[0] = 3
        return x, made

    alike(written)


def test_what_is_contiguous_in_torch_is_itself() -> None:
    x = _made("jax")
    view = x.view(-1)
    assert x.contiguous() is x
    assert view.contiguous() is view
    part = x[1:]
    assert part.contiguous() is part


def test_a_view_that_takes_another_shape_is_one_no_longer(alike: Alike) -> None:
    def shaped(device: str) -> Any:
        x = _made(device)
        view = x.t()
        view.resize_(2, 2)
        return x, view

    alike(lambda device: shaped(device)[0])
    assert (2, 2) == tuple(shaped("jax")[1].shape)


def test_tensors_that_are_shaped_in_place_go_on_as_such(alike: Alike) -> None:
    def shaped(device: str) -> Any:
        matrix, x = torch.arange(25.0, device=device).view(5, 5) / 9, torch.arange(5.0, device=device)
        row = x.clone()
        row.unsqueeze_(0)
        made = [nn.functional.normalize(row, dim=-1), x @ matrix @ x, torch.outer(x @ matrix, x)]
        made.append(nn.functional.cross_entropy(x @ matrix, torch.tensor(2, device=device)))
        turned = row.t_()
        return *made, turned.clone(), row.squeeze_(1), row @ x

    alike(shaped)


def test_data_that_is_replaced_leaves_what_was_taken_of_it(alike: Alike) -> None:
    def replaced(device: str) -> Any:
        x = nn.Parameter(_made(device))
        before, detached = x.data, x.detach()
        x.data = x.data * 2
        before.add_(1)
        after = x.data
        x.data = torch.zeros(2, device=device)
        return x, before, detached, after

    alike(replaced)


def test_data_of_what_was_computed_with_gradients_outlives_it(alike: Alike) -> None:
    def kept(device: str) -> Any:
        x = _made(device).requires_grad_()
        made = differentiable(lambda x: x * 2)(x) if device == "jax" else x * 2
        data = made.data
        data.add_(1)
        seen = made.tolist(), data.tolist()
        del made
        return data, seen, data + 1

    alike(kept)


@pytest.mark.xfail(reason="what is written is kept only once it was read")
def test_data_that_was_written_outlives_what_was_computed(alike: Alike) -> None:
    def kept(device: str) -> Any:
        x = _made(device).requires_grad_()
        made = differentiable(lambda x: x * 2)(x) if device == "jax" else x * 2
        data = made.data
        data.add_(1)
        del made
        return data

    alike(kept)


def test_state_dict_shares_its_tensors_with_the_module(alike: Alike) -> None:
    def written(device: str) -> Any:
        net = nn.BatchNorm1d(2).to(device)
        for name, value in net.state_dict().items():
            if "num" not in name:
                value.fill_(3)
        return net.weight, net.running_mean, copy.deepcopy(net).bias

    alike(written)


def test_data_of_what_jax_traces_has_no_gradient_and_is_written_to() -> None:
    def squared(x: Any) -> Any:
        y = x * 1
        y.data.mul_(2)
        with torch.no_grad():
            y.view(-1)[:1].add_(1)
        y.t().detach().add_(1)
        return (y * y.data + x.detach()[:1].detach()).sum()

    value, slope = jax.value_and_grad(torchax.interop.jax_view(squared))(jax.numpy.array([3.0, 1.0]))
    assert ((3 * 2 + 2) ** 2 + 3 + 3 + 3**2, [8.0, 3.0]) == (float(value), slope.tolist())


LAYOUTS: list[Callable[[Any], Any]] = [
    lambda x: torch.empty_like(x.t()).zero_().view(-1),
    lambda x: torch.empty_like(x.t()).normal_(),
    lambda x: (x.t() + 1).normal_(),
    lambda x: (x.t() * x.t()).uniform_(),
    lambda x: (x.t()[1:] + x[0, 0]).normal_(),
    lambda x: torch.randn_like(x.t()),
    lambda x: torch.empty_like(x).normal_(),
]


@pytest.mark.parametrize("number", [1, 2, 3, 4, 5, 6])
def test_elements_are_drawn_in_the_order_in_which_they_lie_in_torch(number: int, alike: Alike) -> None:
    alike(lambda device: LAYOUTS[number](_made(device)))


def test_gradients_and_parameters_are_written_to_through_views(alike: Alike) -> None:
    def written(device: str) -> Any:
        torch.manual_seed(0)
        net = nn.Linear(4, 3).to(device)

        def loss(net: Any, x: Any) -> Any:
            return net(x).square().mean()

        (differentiable(loss) if device == "jax" else loss)(net, torch.ones(2, 4).to(device)).backward()
        net.bias.data.neg_()
        for part in net.bias.data.split(2):
            nn.init.constant_(part, 0.5)
        net.weight.detach().t()[1].zero_()
        net.weight.data[1:3].uniform_(-0.1, 0.1)
        net.weight.grad[0].fill_(1.0)
        net.bias.grad.view(-1)[:1].zero_()
        gradient = net.weight.grad.detach()
        net.weight.grad.detach().copy_(gradient * 0.5)
        return net.weight, net.bias, net.weight.grad, net.bias.grad

    alike(written)


def test_views_of_what_is_filled_again_are_inputs_of_a_compiled_function(alike: Alike) -> None:
    def losses(device: str) -> Any:
        kept = torch.zeros(12, device=device)
        inputs, targets, turned = kept[:8].view(2, 4), kept[8:].view(2, 2), kept[:8].view(2, 4).t()
        net = nn.Linear(4, 2).to(device)

        def loss(net: Any, x: Any, y: Any) -> Any:
            return (net(x) - y).square().mean()

        computed, seen = differentiable(loss) if device == "jax" else loss, []
        for step in range(3):
            kept.copy_(torch.linspace(0, step, 12))
            seen += [computed(net, inputs, targets).item(), turned[0].sum()]
        return seen

    alike(losses)
