"""`torch.no_grad()` and `detach()` within a decorated function: gradients stop, writes are unseen."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: B905, FBT003, N812

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchax_compat import differentiable

from ..comparison import assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def test_gradients_stop_within_no_grad() -> None:
    def compute_loss(net, x):
        with torch.no_grad():
            weight = net(x).softmax(1)
        return (weight * net(x)).sum()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X)


def test_inference_within_no_grad_may_be_differentiated_behind() -> None:
    def compute_loss(net, x):
        with torch.no_grad():
            x = x * 2
            with torch.enable_grad():
                hidden = net(x)
        return hidden.sum()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X)


def test_parameter_that_is_written_without_gradients_keeps_its_gradient() -> None:
    class Unit(nn.Linear):
        def forward(self, x):
            with torch.no_grad():
                self.weight.copy_(F.normalize(self.weight, dim=1))
                self.bias.data.mul_(0.5)
            return super().forward(x)

    assert_same_as_torch(lambda net, x: net(x).square().mean(), Unit(3, 2), X)


def test_parameter_that_is_written_by_data_keeps_its_gradient() -> None:
    class Bounded(nn.Linear):
        def forward(self, x):
            self.weight.data = torch.renorm(self.weight.data, p=2, dim=0, maxnorm=0.4)
            self.bias.detach().clamp_(-0.3, 0.3)
            return super().forward(x)

    assert_same_as_torch(lambda net, x: net(x).square().mean(), Bounded(3, 2), X)


def test_input_that_is_written_without_gradients_keeps_its_gradient() -> None:
    def compute_loss(x, net):
        with torch.no_grad():
            x.clamp_(0, 1)
            x[0].mul_(0.5)
        hidden = net(x)
        with torch.no_grad():
            hidden.add_(0.1)
        return hidden.square().mean()

    assert_same_as_torch(compute_loss, X.clone().requires_grad_(), nn.Linear(3, 2))


def test_what_is_made_without_gradients_may_be_written_in_place() -> None:
    def compute_loss(net, x):
        scores = net(x)
        with torch.no_grad():
            wanted = net(x.flip(0))
            best = wanted.new_zeros(4, 2)
            best.add_(wanted.softmax(1))
            best.sub_(best.sum(0).div_(4))
        return (best - scores).square().mean()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X)


def test_whole_numbers_that_are_written_without_gradients() -> None:
    def compute_loss(net, part):
        with torch.no_grad():
            low, high = part.floor().to(torch.int64), part.ceil().to(torch.int64)
            low[part > 0] -= 1
            high[part == 0] += 1
        return (net(part) * (high + low)[:, :2]).mean()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X)


def test_write_of_another_shape_without_gradients_stops_them() -> None:
    def compute_loss(net, x):
        hidden = net(x)
        with torch.no_grad():
            hidden.resize_(2, 2)
        return net(x).sum() + hidden.sum() * 0

    net = nn.Linear(3, 2).to("jax")
    differentiable(compute_loss)(net, X.to("jax")).backward()
    torch.testing.assert_close(net.bias.grad.cpu(), torch.full((2,), 4.0))


def test_gradient_of_what_was_detached_is_none_of_the_other() -> None:
    def compute_loss(net, x):
        hidden = net(x)
        other = hidden.detach()
        return (hidden * other).sum() + (hidden.data * 2).sum()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X)


@pytest.mark.parametrize("is_compiled", [True, False])
def test_tensors_of_the_host_that_are_joined_to_those_of_the_device_go_there(is_compiled: bool) -> None:
    def compute_loss(net, x, target):
        padded = torch.cat([target, torch.zeros(4, 1)], dim=1).to(x.device)
        return (net(torch.cat([x, padded], dim=1)) * torch.ones(2)).square().mean()

    host_target = X[:, :2].clone()
    function = differentiable(compute_loss, compiled=is_compiled)
    net = nn.Linear(6, 2)
    expected = compute_loss(net, X, host_target)
    found = function(net.to("jax"), X.to("jax"), host_target)
    torch.testing.assert_close(found.cpu(), expected)


def test_what_cannot_be_mixed_raises_as_without_the_decorator() -> None:
    @differentiable
    def compute_loss(net, x):
        raise AssertionError("of the function")

    with pytest.raises(AssertionError, match="of the function"):
        compute_loss(nn.Linear(3, 2).to("jax"), X.to("jax"))


def test_parameters_that_follow_others_without_gradients() -> None:
    class Contrast(nn.Module):
        def __init__(self):
            super().__init__()
            self.query, self.key = nn.Linear(3, 3), nn.Linear(3, 3).requires_grad_(False)

        def forward(self, x):
            with torch.no_grad():
                for query, key in zip(self.query.parameters(), self.key.parameters()):
                    key.data = key.data * 0.9 + query.data * 0.1
                key = F.normalize(self.key(x), dim=1)
            return F.normalize(self.query(x), dim=1) @ key.t()

    assert_same_as_torch(lambda net, x: net(x).logsumexp(1).sum(), Contrast(), X)


def test_in_place_module_on_views_within_no_grad() -> None:
    def compute_loss(net, x):
        seen = torch.zeros(4, 3, device=x.device)
        with torch.no_grad():
            seen[1:3].copy_(x[1:3])
            seen.t()[0].add_(1)
        return (net(x) * seen.sum(1, keepdim=True)).sum()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X)


def test_parameters_that_are_listed_in_an_attribute_are_those_of_the_module() -> None:
    class Stack(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Parameter(torch.full((4, 3), 0.5))
            self.second = nn.Parameter(torch.full((2, 4), 0.25))

        def forward(self, x):
            self.learned = [self.first, self.second]
            for weight in self.learned:
                x = torch.tanh(F.linear(x, weight))
            return x

    assert_same_as_torch(lambda net, x: net(x).square().mean(), Stack(), X)


def test_layers_that_are_made_in_each_call_draw_their_weights() -> None:
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.key = nn.Linear(3, 3)

        def forward(self, x):
            output = nn.Linear(3, 3).to(x.device)(self.key(x))
            return nn.LayerNorm(3).to(output.device)(output + x)

    def compute_loss(net, x):
        return (net(x)[:, 0] ** 2).mean()

    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        assert_same_as_torch(compute_loss, Attention(), X, is_compiled=False)


@pytest.mark.parametrize("decorated", [False, True])
def test_inference_mode_is_no_grad(decorated: bool) -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.LayerNorm(4)).eval()
    expected = net(X).detach()
    net.to("jax")

    def compute(x):
        hidden = net(x)
        hidden[:, 0] = hidden.narrow(1, 1, 1).squeeze(1)
        return torch.tensordot(hidden, torch.eye(4, device="jax"), 1), torch.is_grad_enabled()

    if decorated:
        result, enabled = torch.inference_mode()(compute)(X.to("jax"))
    else:
        with torch.inference_mode():
            result, enabled = compute(X.to("jax"))
            with torch.inference_mode(mode=False):
                assert torch.is_grad_enabled()
    expected[:, 0] = expected[:, 1]
    torch.testing.assert_close(result.cpu(), expected)
    assert (False, True) == (enabled, torch.is_grad_enabled())
