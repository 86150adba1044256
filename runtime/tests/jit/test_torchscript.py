"""TorchScript is left out on the device; what is saved is scripted or traced on the host."""

# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import copy
import io
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat import differentiable


def _read(module: Any) -> Any:
    file = io.BytesIO()
    torch.jit.save(module, file)
    file.seek(0)
    return torch.jit.load(file, map_location="cpu")


@pytest.mark.parametrize("device", ["cpu", "jax"])
def test_modules_are_traced_on_the_host_and_saved_from_the_device(device: str) -> None:
    host = nn.Sequential(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(16, 3)).eval()
    net, x = copy.deepcopy(host).to(device), torch.randn(2, 1, 4, 4)
    due = host(x)
    traced = torch.jit.trace(net, x.to(device))
    assert device == next(traced.parameters()).device.type
    assert torch.allclose(due, traced(x.to(device)).cpu(), atol=1e-6)
    assert torch.allclose(due, _read(traced)(x), atol=1e-6)


def test_functions_and_modules_that_are_scripted_stay_in_python(tmp_path: Any) -> None:
    @torch.jit.script
    def swish(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x)

    net = nn.Linear(2, 1)
    scripted = torch.jit.script(net)
    assert scripted is net
    x = torch.ones(1, 2)
    due = net(x)
    net.to("jax")
    assert torch.allclose(due, net(x.to("jax")).cpu())
    assert torch.allclose(x * torch.sigmoid(x), swish(x.to("jax")).cpu())
    scripted.save(str(tmp_path / "net.pt"))
    assert torch.allclose(due, torch.jit.load(tmp_path / "net.pt")(x))
    assert torch.allclose(due, _read(net)(x))
    assert torch.allclose(due, _read(_read(net))(x))


def test_script_modules_keep_their_methods_in_python() -> None:
    class Gated(torch.jit.ScriptModule):
        def __init__(self, width: int) -> None:
            super().__init__()
            self.inner = nn.Linear(width, width, bias=False)

        @torch.jit.script_method
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.tanh(self.inner(x))

    net = Gated(3)
    x = torch.ones(2, 3)
    due = torch.tanh(net.inner(x))
    assert torch.allclose(due, net.to("jax")(x.to("jax")).cpu(), atol=1e-6)


def test_functions_of_the_device_are_traced_with_named_inputs() -> None:
    net = nn.Bilinear(2, 2, 1).to("jax")
    x = torch.ones(3, 2).to("jax")
    traced = torch.jit.trace(net, example_kwarg_inputs={"input1": x, "input2": x})
    assert torch.equal(net(x, x), traced(x, x))

    def double(x: Any) -> Any:
        return x * 2

    assert torch.jit.trace(double, (x,)) is double


def test_scripted_functions_and_modules_are_compiled_by_jax() -> None:
    @torch.jit.script
    def swish(x: torch.Tensor) -> torch.Tensor:
        return x * torch.sigmoid(x)

    net = nn.Sequential(nn.Linear(4, 4), torch.jit.script(nn.Linear(4, 2)))
    there = copy.deepcopy(net).to("jax")
    x = torch.ones(2, 4)
    swish(net(x)).sum().backward()
    differentiable(lambda net, x: swish(net(x)).sum())(there, x.to("jax")).backward()
    for one, other in zip(net.parameters(), there.parameters(), strict=True):
        assert torch.allclose(one.grad, other.grad.cpu(), atol=1e-5)
