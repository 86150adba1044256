"""Parameters that a marked function freezes and thaws while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

FROZEN = """\
import torch
import torch.nn as nn
import torchax
from torchax_training import differentiable

torchax.enable_globally()


def make():
    torch.manual_seed(0)
    return nn.Linear(3, 3), nn.Linear(3, 1)


def compute_loss(actor, critic, x):
    {body}


def trained(function, actor, critic, device):
    found = []
    critic.requires_grad_({first})
    for step in range(4):
        actor.zero_grad()
        critic.zero_grad()
        x = torch.linspace(-1, 1, 12).reshape(4, 3) + step
        function(actor, critic, x.to(device)).backward()
        for one in (*actor.parameters(), *critic.parameters()):
            grad = None if one.grad is None else one.grad.cpu()
            found.append((grad, one.requires_grad))
    return found


def same(one, other):
    if one[1] != other[1] or (one[0] is None) != (other[0] is None):
        return False
    return one[0] is None or torch.allclose(one[0], other[0], atol=1e-5)


plain = trained(compute_loss, *make(), "cpu")
models = [one.to("jax") for one in make()]
marked = differentiable(compute_loss, compiled={compiled})
found = trained(marked, *models, "jax")
print([same(one, other) for one, other in zip(found, plain)].count(True), marked.is_compiled)
"""

BODIES = {
    "frozen and thawed": """\
hidden = actor(x)
    known = critic(x).mean()
    for one in critic.parameters():
        one.requires_grad = False
    value = critic(hidden)
    for one in critic.parameters():
        one.requires_grad = True
    return known - value.mean() + critic(hidden.detach()).pow(2).mean()""",
    "frozen and left so": """\
hidden = actor(x)
    critic.requires_grad_(False)
    return critic(hidden).pow(2).mean()""",
    "thawed behind a use": """\
value = critic(actor(x)).mean()
    critic.weight.requires_grad = True
    value = value + critic(actor(x)).pow(2).mean()
    critic.weight.requires_grad_(False)
    return value""",
    "thawed and left so": """\
critic.requires_grad_(requires_grad=True)
    return critic(actor(x)).pow(2).mean()""",
}


@pytest.mark.parametrize("compiled", [True, False])
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("body", BODIES)
def test_what_is_frozen_while_a_loss_is_computed_has_the_gradients_of_torch(
    body: str, first: bool, compiled: bool, printed: Callable[[str], str]
) -> None:
    program = FROZEN.format(body=BODIES[body], first=first, compiled=compiled)
    assert printed(program) == f"16 {compiled}\n"
