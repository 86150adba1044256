"""Complex parameters: their gradients, and how optimizers step."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import pytest
import torch
from torch import nn
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.autograd import complex_numbers

from ..comparison import assert_equal, plain_torch


class Spectral(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(2, 3, dtype=torch.cfloat))
        self.shift = nn.Parameter(torch.zeros(8))

    def forward(self, x):
        mixed = torch.einsum("bm,om->bom", torch.fft.rfft(x)[..., :3], self.weight)
        return torch.fft.irfft(mixed, n=8) + self.shift


def compute_loss(net, x):
    return net(x).square().mean() + net.weight.abs().mean()


def trained(device: str, make, is_compiled: bool):
    torch.manual_seed(0)
    net, x = Spectral(), torch.randn(4, 8)
    net.to(device)
    optimizer = compile_optimizer(make(net.parameters())) if is_compiled else make(net.parameters())
    function = compute_loss if device == "cpu" else differentiable(compute_loss)
    for _ in range(3):
        optimizer.zero_grad()
        function(net, x.to(device)).backward()
        optimizer.step()
    return torch.view_as_real(net.weight.detach().cpu()), net.shift.detach().cpu()


@pytest.mark.parametrize("is_compiled", [True, False])
@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: torch.optim.Adam(p, lr=0.1),
        lambda p: torch.optim.RMSprop(p, lr=0.1),
    ],
    ids=["SGD", "Adam", "RMSprop"],
)
def test_optimizer_steps_complex_parameters_as_torch_does(make, is_compiled: bool) -> None:
    with plain_torch():
        expected = trained("cpu", make, is_compiled=False)
    assert_equal(expected, trained("jax", make, is_compiled))


def test_step_with_a_closure_computes_with_complex_parameters() -> None:
    p = nn.Parameter(torch.tensor([1.0 + 0.5j]).to("jax"))
    optimizer = torch.optim.SGD([p], lr=0.1)

    def closure():
        optimizer.zero_grad()
        loss = differentiable(lambda p: p.abs().square().sum())(p)
        loss.backward()
        assert p.is_complex()
        return loss

    assert pytest.approx(1.25) == optimizer.step(closure).item()


def test_classes_of_optimizers_keep_only_the_hooks_of_torch_once_the_runtime_is_disabled() -> None:
    class Descent(torch.optim.SGD):
        def step(self, closure=None):
            seen.append([p.is_complex() for p in self.param_groups[0]["params"]])

    def step():
        parameter.grad = torch.ones_like(parameter)
        optimizer.step()

    seen: list[list[bool]] = []
    hooks: list[int] = []
    parameter = nn.Parameter(torch.ones(2, dtype=torch.complex64).to("jax"))
    optimizer = Descent([parameter], lr=0.1)
    optimizer.register_step_pre_hook(lambda *_: hooks.append(len(seen)))
    step()
    complex_numbers._unhook_classes()
    assert Descent.step.hooked
    step()
    complex_numbers._hook_classes()
    step()
    assert [[False], [True], [False]] == seen
    assert [0, 1, 2] == hooks
