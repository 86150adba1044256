"""`requires_grad` of tensors within a decorated function."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: FBT003

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from ..comparison import assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


@pytest.mark.parametrize("is_read", [False, True])
def test_tensors_require_gradients_where_they_are_differentiated(is_read: bool) -> None:
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.frozen, self.layer = nn.Linear(3, 3).requires_grad_(False), nn.Linear(3, 3)

        def forward(self, x):
            seen = [x.requires_grad]
            x = self.frozen(x)
            seen.append(x.requires_grad)
            x = self.layer(x)
            with torch.no_grad():
                y = x * 2
            seen += [x.requires_grad, x[0].requires_grad, y.requires_grad]
            seen += [(x > 0).requires_grad, x.detach().requires_grad]
            return x, seen

    def compute_loss(net, x):
        out, seen = net(x)
        scale = 2.0 if is_read and out.mean().item() > 9 else 1.0
        return out.square().mean() * scale, seen

    assert_same_as_torch(compute_loss, Net(), X)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_module_that_checkpoints_what_requires_gradients(is_compiled: bool) -> None:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)

        def forward(self, x):
            if x.requires_grad:
                return x + checkpoint(self.layer, x, use_reentrant=False)
            return x + self.layer(x)

    def compute_loss(net, x):
        out = net(x)
        factor = 1.0 if is_compiled else float(out.detach().cpu().numpy().sum())
        return out.square().mean() * factor

    net = nn.Sequential(Block(), Block())
    assert_same_as_torch(compute_loss, net, X, is_compiled=is_compiled)
