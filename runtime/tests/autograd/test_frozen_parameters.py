"""Parameters that a decorated function freezes and thaws while it runs."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: FBT003

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat import differentiable

from ..comparison import assert_equal


def frozen_and_thawed(actor, critic, x):
    hidden = actor(x)
    known = critic(x).mean()
    for one in critic.parameters():
        one.requires_grad = False
    value = critic(hidden)
    for one in critic.parameters():
        one.requires_grad = True
    return known - value.mean() + critic(hidden.detach()).pow(2).mean()


def frozen_and_left_so(actor, critic, x):
    hidden = actor(x)
    critic.requires_grad_(False)
    return critic(hidden).pow(2).mean()


def thawed_after_a_use(actor, critic, x):
    value = critic(actor(x)).mean()
    critic.weight.requires_grad = True
    value = value + critic(actor(x)).pow(2).mean()
    critic.weight.requires_grad_(False)
    return value


def thawed_and_left_so(actor, critic, x):
    critic.requires_grad_(requires_grad=True)
    return critic(actor(x)).pow(2).mean()


def frozen_written_and_thawed(actor, critic, x):
    critic.weight.requires_grad = False
    critic.weight.mul_(0.5)
    value = critic(actor(x)).mean()
    critic.weight.requires_grad = True
    return value + critic(actor(x)).pow(2).mean()


BODIES = [
    frozen_and_thawed,
    frozen_and_left_so,
    thawed_after_a_use,
    thawed_and_left_so,
    frozen_written_and_thawed,
]


def trained(function, device: str, first: bool) -> list[Any]:
    torch.manual_seed(0)
    actor, critic, found = nn.Linear(3, 3).to(device), nn.Linear(3, 1).to(device), []
    critic.requires_grad_(first)
    for step in range(4):
        actor.zero_grad()
        critic.zero_grad()
        x = torch.linspace(-1, 1, 12).reshape(4, 3) + step
        function(actor, critic, x.to(device)).backward()
        found += [
            (None if one.grad is None else one.grad.clone(), one.requires_grad)
            for one in (*actor.parameters(), *critic.parameters())
        ]
    return [*found, critic.weight.detach()]


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("body", BODIES)
def test_parameters_frozen_while_a_loss_is_computed_have_the_gradients_of_torch(
    body, first, compiled
) -> None:
    decorated = differentiable(body, compiled=compiled)
    assert_equal(trained(body, "cpu", first), trained(decorated, "jax", first))
    assert compiled == decorated.compiled_function.is_compiled


def test_error_after_freezing_leaves_parameters_as_they_were() -> None:
    @differentiable
    def compute_loss(net, x):
        net.requires_grad_(False)
        raise ValueError("of the function")

    net = nn.Linear(3, 1).to("jax")
    with pytest.raises(ValueError, match="of the function"):
        compute_loss(net, torch.ones(2, 3).to("jax"))
    assert all(p.requires_grad for p in net.parameters())


def test_error_after_thawing_leaves_parameters_frozen() -> None:
    @differentiable
    def compute_loss(net, x):
        net.requires_grad_(True)
        raise ValueError("of the function")

    net = nn.Linear(3, 1).to("jax").requires_grad_(False)
    with pytest.raises(ValueError, match="of the function"):
        compute_loss(net, torch.ones(2, 3).to("jax"))
    assert not any(p.requires_grad for p in net.parameters())


def test_freezing_of_a_tensor_that_is_no_parameter() -> None:
    @differentiable
    def compute_loss(net, x):
        y = x.detach().clone().requires_grad_(False)
        return (net(x) * y.sum()).sum()

    net = nn.Linear(3, 1).to("jax")
    compute_loss(net, torch.ones(2, 3).to("jax")).backward()
    assert_equal(torch.full((1, 3), 12.0), net.weight.grad)


def test_without_gradients_thawing_sets_the_flag_alone() -> None:
    @differentiable
    def compute(net, x):
        net.requires_grad_(True)
        return net(x).sum()

    net = nn.Linear(3, 1).to("jax").requires_grad_(False)
    with torch.no_grad():
        assert not compute(net, torch.ones(2, 3).to("jax")).requires_grad
    assert all(p.requires_grad for p in net.parameters())
