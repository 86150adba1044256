"""`torch.autograd.grad` and `backward` within a function that is recorded."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: B905, FBT003, N812

from __future__ import annotations

from collections import OrderedDict
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchax_compat import compile_update, differentiable, higher_order

from ..comparison import assert_equal, assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def critic() -> Any:
    return nn.Sequential(nn.Linear(3, 5), nn.Tanh(), nn.Linear(5, 1))


def both(function):
    return differentiable(higher_order(function))


def penalty(net, x):
    (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
    return ((slope.norm(2, dim=1) - 1) ** 2).mean()


def test_gradient_penalty_has_the_gradients_of_torch() -> None:
    assert_same_as_torch(penalty, critic(), X.clone().requires_grad_(), decorate=both)


def test_function_that_asks_for_gradients_is_recorded_without_being_decorated_so() -> None:
    compute_loss = assert_same_as_torch(penalty, critic(), X.clone().requires_grad_())
    assert compute_loss.compiled_function.is_recorded


def test_third_derivatives() -> None:
    def residual(net, x):
        y = net(x).sin()
        y_x = torch.autograd.grad(y, x, torch.ones_like(y), create_graph=True)[0]
        y_xx = torch.autograd.grad(y_x, x, torch.ones_like(y_x), create_graph=True)[0]
        y_xxx = torch.autograd.grad(y_xx, x, torch.ones_like(y_xx), create_graph=True)[0]
        return (y_xxx + y_xx - y_x).pow(2).mean()

    assert_same_as_torch(residual, critic(), X.clone().requires_grad_(), decorate=both)


def test_laplacian_by_gradients_of_parts_of_a_gradient() -> None:
    def compute_loss(net, x):
        x = x.clone().detach().requires_grad_(True)
        first = torch.autograd.grad(net(x), [x], grad_outputs=torch.ones_like(net(x)), create_graph=True)[0]
        bend = sum(
            torch.autograd.grad(first[..., i], [x], torch.ones_like(first[..., i]), create_graph=True)[0][
                ..., i
            ]
            for i in range(3)
        )
        return bend.pow(2).mean() + first.pow(2).mean()

    assert_same_as_torch(compute_loss, critic(), X, decorate=both)


def test_gradients_without_create_graph_are_constants() -> None:
    def compute_loss(net, x):
        (slope,) = torch.autograd.grad(net(x).sum(), x)
        return (slope * net(x)).sum()

    net = critic()
    assert_same_as_torch(compute_loss, net, X.clone().requires_grad_(), decorate=both)


def test_gradients_of_parameters_for_an_inner_step() -> None:
    def compute_loss(net, x):
        fast = OrderedDict(net.named_parameters())
        for _ in range(2):
            inner = torch.func.functional_call(net, fast, (x[:2],)).square().mean()
            gradients = torch.autograd.grad(inner, list(fast.values()), create_graph=True)
            fast = OrderedDict((name, p - 0.1 * g) for (name, p), g in zip(fast.items(), gradients))
        return torch.func.functional_call(net, fast, (x[2:],)).square().mean()

    assert_same_as_torch(compute_loss, critic(), X, decorate=both)


def test_gradients_in_half_of_the_losses_of_a_loop() -> None:
    def compute_loss(net, x, loss):
        parameters = list(net.parameters())
        for c in range(2):
            part = x[2 * c : 2 * c + 2]
            theirs = [g.detach().clone() for g in torch.autograd.grad(net(part).sum(), parameters)]
            ours = torch.autograd.grad(net(2 * part).square().sum(), parameters, create_graph=True)
            for one, other in zip(ours, theirs):
                loss += (one - other).square().sum()
        return loss

    net = critic().to("jax")
    x = X.clone().to("jax").requires_grad_()
    found = both(compute_loss)(net, x, torch.tensor(0.0).to("jax"))
    found.backward()
    plain, y = net.cpu(), X.clone().requires_grad_()
    due = compute_loss(plain, y, torch.tensor(0.0))
    due.backward()
    assert_equal((due, y.grad), (found, x.grad))


def test_weights_of_grad_outputs_are_differentiated_too() -> None:
    def compute_loss(net, x):
        weight = net(x).detach() * 2 + x.sum()
        (slope,) = torch.autograd.grad(net(x), x, grad_outputs=weight, create_graph=True)
        (bend,) = torch.autograd.grad(slope.pow(2).sum(), x, create_graph=True)
        return bend.sum() + slope.sum()

    x = X.clone().requires_grad_()
    assert_same_as_torch(compute_loss, critic(), x, decorate=both, batches=[()])


def test_gradients_of_written_parts_of_tensors() -> None:
    def compute_loss(x):
        made = torch.zeros_like(x)
        made[0].copy_(x[1] * x[2])
        made[1:, 1].add_(x[1:, 1] ** 3)
        made[2] += x[0]
        (slope,) = torch.autograd.grad((made**2).sum(), x, create_graph=True)
        return slope.pow(2).sum()

    assert_same_as_torch(compute_loss, X.clone().requires_grad_(), decorate=both, batches=[()])


def test_unused_input_has_a_gradient_of_zeros_where_it_is_allowed() -> None:
    @both
    def compute(x, y):
        first, second = torch.autograd.grad((x**2).sum(), [x, y], allow_unused=True)
        return first, second

    first, second = compute(X.to("jax").requires_grad_(), torch.ones(2, device="jax").requires_grad_())
    assert_equal((2 * X, torch.zeros(2)), (first, second))


def test_batched_gradients_raise() -> None:
    @both
    def compute(x):
        return torch.autograd.grad(x * 2, x, torch.ones(2, 4, 3, device="jax"), is_grads_batched=True)[0]

    with pytest.raises(NotImplementedError, match="is_grads_batched"):
        compute(X.to("jax").requires_grad_())


def test_gradient_of_what_was_computed_elsewhere_raises() -> None:
    x = X.to("jax").requires_grad_()
    y = (x * 2).sum()
    compute = differentiable(lambda x, y: torch.autograd.grad(y, x)[0])
    with pytest.raises(RuntimeError, match="does not find how its outputs depend on its inputs"):
        compute(x, y)


def test_without_gradients_asking_for_them_raises_as_torch_does() -> None:
    def weighed(net, x):
        error = net(x).abs().mean()
        try:
            weight = torch.autograd.grad(error, net[2].weight, retain_graph=True)[0].norm()
        except RuntimeError as raised:
            assert "does not require grad" in str(raised)  # noqa: PT017
            weight = torch.tensor(0.5)
        return error * weight.detach()

    net, compute = critic(), both(weighed)
    expected = weighed(net, X)
    with torch.no_grad():
        expected = expected, weighed(net, X)
    net.to("jax")
    found = compute(net, X.to("jax"))
    with torch.no_grad():
        assert_equal(expected, (found, compute(net, X.to("jax"))))


def test_gradient_that_is_taken_twice_within_draws_the_same_noise() -> None:
    def compute_loss(net, x):
        y = net(F.dropout(x, 0.5))
        (slope,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return (slope * y).sum()

    assert_same_as_torch(compute_loss, critic(), X.clone().requires_grad_(), decorate=both)


def test_first_run_that_is_repeated_to_be_recorded_draws_once() -> None:
    @differentiable
    def attacked(x):
        d = (x.detach().cpu() * 0 + torch.randn(x.shape)).to(x.device).requires_grad_()
        (there,) = torch.autograd.grad((x.detach() * d).sin().sum(), d)
        return ((x + there) ** 2).mean()

    torch.manual_seed(0)
    attacked(torch.ones(3, requires_grad=True, device="jax")).backward()
    drawn = torch.rand(1)
    torch.manual_seed(0)
    torch.randn(3)
    assert torch.equal(torch.rand(1), drawn)


def normalized(d):
    return d / (d.norm(dim=1, keepdim=True) + 1e-8)


def test_backward_within_gives_a_leaf_its_gradient_and_parameters_none() -> None:
    def compute_loss(net, x, d):
        d = normalized(d.clone())
        for _ in range(2):
            d.requires_grad_()
            far = net(x + 0.5 * d).square().mean()
            far.backward()
            d = normalized(d.grad)
            net.zero_grad()
        return net(x + d).square().mean()

    assert_same_as_torch(compute_loss, critic(), X, X.flip(0))


def test_inner_optimizer_steps_on_a_leaf_that_is_made_within() -> None:
    def compute_loss(net, x, d):
        d = (0.1 * d).detach().requires_grad_()
        optimizer = torch.optim.SGD([d], lr=0.5)
        for _ in range(2):
            far = (net(x + d) - net(x).detach()).square().mean()
            optimizer.zero_grad()
            (-far).backward()
            d.grad.div_(d.grad.norm() + 1e-8)
            optimizer.step()
            d.data.add_(0.01).clamp_(-0.3, 0.3)
        net.zero_grad()
        return net(x + d.detach()).square().mean()

    assert_same_as_torch(compute_loss, critic(), X, X.flip(0))


def test_backward_within_of_inputs_that_are_named_accumulates() -> None:
    def compute_loss(net, x):
        d = torch.zeros_like(x).requires_grad_()
        for factor in (1.0, 2.0):
            far = (net(x + d) * factor).sum()
            far.backward(torch.ones_like(far), retain_graph=True, inputs=[d])
        return (net(x + d.grad.sign() * 0.1) * d.grad.sum(1, keepdim=True).detach()).sum()

    assert_same_as_torch(compute_loss, critic(), X)


def test_backward_within_without_any_leaf_does_nothing() -> None:
    def compute_loss(net, x):
        d = x.detach().clone().requires_grad_()
        net(d).sum().backward()
        net(x).sum().backward()  # its parameters have no gradients of that
        net.zero_grad()
        return (net(x) * d.grad.sum()).sum()

    assert_same_as_torch(compute_loss, critic(), X)


def test_gradient_within_call_by_call_is_that_of_torch() -> None:
    def compute_loss(net, x):
        (slope,) = torch.autograd.grad(net(x).sum(), x, create_graph=True)
        return slope.pow(2).sum() * (2 if float(slope.sum()) > 100 else 1)

    assert_same_as_torch(
        compute_loss,
        critic(),
        X.clone().requires_grad_(),
        is_compiled=False,
        decorate=lambda f: differentiable(higher_order(f), compiled=False),
    )


def test_gradients_of_complex_tensors_are_as_torch_has_them() -> None:
    def compute_loss(x):
        wave = torch.fft.rfft(x, dim=1)
        (slope,) = torch.autograd.grad(wave.abs().square().sum(), wave, create_graph=True)
        (again,) = torch.autograd.grad(slope.abs().square().sum(), x, create_graph=True)
        return again.pow(2).sum()

    assert_same_as_torch(compute_loss, X.clone().requires_grad_(), decorate=both)


def test_natural_gradient_by_products_with_the_curvature() -> None:
    def flat(gradients):
        return torch.cat([one.contiguous().view(-1) for one in gradients])

    def direction(net, x):
        with torch.no_grad():
            before = net(x)
        slope = flat(torch.autograd.grad((net(x) - before + 1).square().mean(), net.parameters())).detach()
        slopes = flat(
            torch.autograd.grad((net(x) - before).square().mean(), net.parameters(), create_graph=True)
        )
        return flat(torch.autograd.grad((slopes * slope).sum(), net.parameters())).detach()

    net = critic()
    expected = direction(net, X)
    assert_equal(expected, both(direction)(net.to("jax"), X.to("jax")))


def test_recorded_function_changes_nothing_on_the_host() -> None:
    x = X.clone().requires_grad_()
    assert_equal(penalty(critic_of_ones(), x), higher_order(penalty)(critic_of_ones(), x))


def critic_of_ones() -> Any:
    net = critic()
    for p in net.parameters():
        nn.init.constant_(p, 0.3)
    return net


def test_function_that_keeps_what_it_drew_draws_nothing_at_later_calls() -> None:
    class Dynamics(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.signs = nn.Linear(3, 3), None

        def forward(self, y):
            if self.signs is None:
                self.signs = torch.randint(low=0, high=2, size=y.shape).to(y) * 2 - 1
            y = y.requires_grad_()
            slope = torch.tanh(self.layer(y))
            (turned,) = torch.autograd.grad(slope, y, self.signs, create_graph=True)
            return slope, (turned * self.signs).sum(1)

    def compute_loss(net, x):
        net.signs, y, trace = None, x, 0
        for _ in range(2):
            slope, part = net(y)
            y, trace = y + slope / 2, trace + part / 2
        return (y.square().sum(1) - trace).mean()

    assert_same_as_torch(compute_loss, Dynamics(), X, batches=[()] * 5)


def test_update_of_weights_by_gradients_that_were_asked_for() -> None:
    @compile_update
    def update(net, steps, eta):
        for p, step in zip(net.parameters(), steps):
            p.sub_(step, alpha=eta)

    @both
    def compute_steps(net, x):
        return torch.autograd.grad(net(x).square().mean(), list(net.parameters()))

    net = critic()
    expected = [
        p - 0.1 * g
        for p, g in zip(net.parameters(), torch.autograd.grad(net(X).square().mean(), list(net.parameters())))
    ]
    net.to("jax")
    update(net, compute_steps(net, X.to("jax")), 0.1)
    assert_equal(expected, [p.detach() for p in net.parameters()])


def test_recorded_function_within_another_decorated_one() -> None:
    @both
    def slope_of(net, x):
        return torch.autograd.grad(net(x).square().sum(), x, create_graph=True)[0]

    def compute_loss(net, x):
        return slope_of(net, x).square().sum() + net(x).sum()

    def plain(net, x):
        return slope_of.function.__wrapped__(net, x).square().sum() + net(x).sum()

    net, x = critic(), X.clone().requires_grad_()
    expected = torch.autograd.grad(plain(net, x), [*net.parameters(), x])
    there = X.to("jax").requires_grad_()
    differentiable(compute_loss)(net.to("jax"), there).backward()
    assert_equal(expected, tuple(p.grad for p in (*net.parameters(), there)))
