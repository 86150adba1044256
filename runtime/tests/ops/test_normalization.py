"""Normalisations update their running statistics as those of torch do."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchax_compat import differentiable

MODULES: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
    "momentum": (lambda: nn.BatchNorm1d(3, momentum=0.3), (5, 3)),
    "cumulative average": (lambda: nn.BatchNorm2d(3, momentum=None), (4, 3, 2, 2)),
    "affine parameters": (lambda: nn.BatchNorm3d(3), (2, 3, 2, 2, 2)),
    "instances": (lambda: nn.InstanceNorm2d(3, affine=True, track_running_stats=True), (4, 3, 2, 2)),
    "no statistics": (lambda: nn.BatchNorm1d(3, track_running_stats=False), (5, 3)),
    "instances without statistics": (lambda: nn.InstanceNorm1d(3), (5, 3, 4)),
}


@pytest.mark.parametrize("name", MODULES)
def test_running_statistics_of_modules(name: str) -> None:
    make, shape = MODULES[name]
    host: Any = make()
    net = copy.deepcopy(host).to("jax")
    for step in range(3):
        x = torch.randn(shape) + step
        assert torch.allclose(host(x), net(x.to("jax")).cpu(), atol=1e-5)
    for key, value in host.state_dict().items():
        assert torch.allclose(value.float(), net.state_dict()[key].cpu().float(), atol=1e-5), key
    x = torch.randn(shape)
    assert torch.allclose(host.eval()(x), net.eval()(x.to("jax")).cpu(), atol=1e-4)


@pytest.mark.parametrize(
    ("function", "flag"), [(functional.batch_norm, "training"), (functional.instance_norm, "use_input_stats")]
)
@pytest.mark.parametrize("are_batches", [True, False])
def test_functions_write_the_statistics_that_they_are_given(
    function: Any, flag: str, are_batches: bool
) -> None:
    x = torch.randn(4, 3, 5)
    results = []
    for device in ("cpu", "jax"):
        statistics = torch.zeros(3, device=device), torch.ones(3, device=device)
        made = function(x.to(device), *statistics, momentum=0.2, **{flag: are_batches})
        results.append([one.cpu() for one in (made, *statistics)])
    for due, got in zip(*results, strict=True):
        assert torch.allclose(due, got, atol=1e-5)


def test_statistics_that_a_hook_of_the_program_keeps_are_not_written_twice() -> None:
    def keep(module: Any, inputs: Any) -> None:
        module.running_mean.copy_(inputs[0].mean(0))

    net = nn.BatchNorm1d(3).to("jax")
    net.register_forward_pre_hook(keep)
    x = torch.randn(5, 3)
    net(x.to("jax"))
    assert torch.allclose(x.mean(0), net.running_mean.cpu(), atol=1e-6)


def test_a_hook_that_writes_nothing_leaves_the_statistics_to_the_module() -> None:
    net = nn.BatchNorm1d(3).to("jax")
    net.register_forward_pre_hook(lambda *_: None)
    x = torch.randn(5, 3)
    net(x.to("jax"))
    assert torch.allclose(x.mean(0) * 0.1, net.running_mean.cpu(), atol=1e-6)


def test_statistics_are_written_in_compiled_functions() -> None:
    def network(params: Any, x: Any) -> Any:
        x = functional.batch_norm(
            x, params["mean"], params["var"], weight=params["weight"], training=True, momentum=0.3
        )
        return functional.instance_norm(x, params["mean 2"], params["var 2"]).square().mean()

    results = []
    for device in ("cpu", "jax"):
        names = ("mean", "var", "mean 2", "var 2", "weight")
        params = {name: torch.full((3,), float("var" in name), device=device) for name in names}
        params["weight"].fill_(1).requires_grad_()
        loss = differentiable(network) if device == "jax" else network
        for step in range(3):
            x = torch.linspace(-1, 1, 48).reshape(4, 3, 4).to(device) ** (step + 1)
            loss(params, x).backward()
        results.append([p.detach().cpu() for p in params.values()])
    for due, got in zip(*results, strict=True):
        assert torch.allclose(due, got, atol=1e-4)
