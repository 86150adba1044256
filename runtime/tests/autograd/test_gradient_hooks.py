"""Hooks on gradients, of modules and of tensors, within a decorated function."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="var-annotated"
# ruff: noqa: ARG005, N812

from __future__ import annotations

from typing import Any

import jax
import pytest
import torch
import torchax
from torch import nn
from torch.nn import functional as F
from torchax_compat import differentiable

from ..comparison import assert_equal, assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def network() -> Any:
    return nn.Sequential(nn.Linear(3, 5), nn.ReLU(), nn.Linear(5, 2))


def noted(hook_on, function=lambda net, x: net(x).square().sum()) -> None:
    """What hooks are given is the same on both; `hook_on` registers them, with a list that they fill."""
    notes = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net, seen = network(), []
        net.to(device)
        hook_on(net, seen)
        x = X.clone().to(device).requires_grad_()
        compute = function if device == "cpu" else differentiable(function)
        for _ in range(3):
            compute(net, x).backward()
        notes.append(([None if one is None else one.cpu() for one in seen], x.grad.cpu()))
    assert len(notes[0][0]) > 0
    assert_equal(notes[0], notes[1])


def test_gradient_hook_of_a_tensor_runs_once_for_each_backward() -> None:
    def hook_on(net, seen):
        net[1].register_forward_hook(lambda module, given, result: result.register_hook(seen.append) and None)

    noted(hook_on)


def test_full_backward_hook_is_given_the_gradients_of_inputs_and_outputs() -> None:
    noted(lambda net, seen: net[2].register_full_backward_hook(lambda m, i, o: seen.extend((*i, *o))))


def test_full_backward_hook_is_given_no_gradient_of_an_input_that_needs_none() -> None:
    def hook_on(net, seen):
        net[0].register_full_backward_hook(lambda module, i, o: seen.extend((*i, *o)))

    noted(hook_on, lambda net, x: net(x.detach()).sum() + x.sum())


def test_full_backward_hook_may_replace_the_gradient() -> None:
    def hook_on(net, seen):
        net[1].register_full_backward_hook(lambda module, i, o: (F.relu(i[0]) + 1,))
        net[0].register_full_backward_hook(lambda module, i, o: seen.append(o[0]))

    noted(hook_on)


def test_full_backward_pre_hook_may_replace_the_gradient_of_the_output() -> None:
    def hook_on(net, seen):
        net[2].register_full_backward_pre_hook(lambda module, o: (o[0] * 2,))
        net[0].register_full_backward_pre_hook(lambda module, o: seen.append(o[0]))

    noted(hook_on)


def test_deprecated_backward_hook_is_given_the_gradient_of_the_output() -> None:
    noted(lambda net, seen: net[1].register_backward_hook(lambda module, i, o: seen.extend((*i, *o))))


def test_deprecated_backward_hook_is_given_no_gradients_of_the_inputs_of_a_linear_layer() -> None:
    seen: list[Any] = []
    net = network().to("jax")
    net[2].register_backward_hook(lambda module, i, o: seen.append((i, o[0].shape)))
    differentiable(lambda net, x: net(x).sum())(net, X.to("jax")).backward()
    assert [((None,), (4, 2))] == seen


def test_tensor_hook_may_replace_the_gradient() -> None:
    def compute_loss(net, x):
        hidden = net[1](net[0](x))
        hidden.register_hook(lambda gradient: gradient * 3)
        hidden.register_hook(lambda gradient: None)
        return net[2](hidden).sum()

    assert_same_as_torch(compute_loss, network(), X)


def test_hook_that_is_removed_is_not_called() -> None:
    called: list[Any] = []

    @differentiable
    def compute_loss(net, x):
        hidden = net[0](x)
        hidden.register_hook(called.append).remove()
        return hidden.sum()

    compute_loss(network().to("jax"), X.to("jax")).backward()
    assert [] == called


def test_module_hook_that_is_removed_is_not_called() -> None:
    net, called = network().to("jax"), []
    handle = net[1].register_full_backward_hook(lambda *given: called.append(given))
    compute_loss = differentiable(lambda net, x: net(x).sum())
    compute_loss(net, X.to("jax")).backward()
    handle.remove()
    compute_loss(net, X.to("jax")).backward()
    assert 1 == len(called)


def test_retain_grad_keeps_the_gradient_of_a_result() -> None:
    def compute_loss(net, x):
        hidden = net[1](net[0](x))
        hidden.retain_grad()
        return net[2](hidden).logsumexp(1).sum(), hidden

    net = network()
    loss, hidden = compute_loss(net, X)
    loss.backward(retain_graph=True)
    loss.backward()
    expected = hidden.grad
    loss, hidden = differentiable(compute_loss)(net.to("jax"), X.to("jax"))
    loss.backward(retain_graph=True)
    loss.backward()
    assert_equal(expected, hidden.grad)


def test_hook_on_what_was_computed_with_already_raises() -> None:
    @differentiable
    def compute_loss(net, x):
        hidden = net[0](x)
        result = torch.cat([hidden, hidden]).sum()
        hidden.register_hook(print)
        return result

    with pytest.raises(RuntimeError, match="must be called before the tensor is used"):
        compute_loss(network().to("jax"), X.to("jax"))


def test_outside_of_decorated_functions_hooks_are_those_of_torch() -> None:
    seen: list[Any] = []
    x = torch.ones(3, device="jax").requires_grad_()
    x.register_hook(seen.append)
    (x * 2).sum().backward()
    y = torch.ones(3, device="jax").requires_grad_() * 2
    y.retain_grad()
    y.sum().backward()
    assert ([2.0] * 3, [1.0] * 3) == (seen[0].tolist(), y.grad.tolist())


def test_jacobian_by_jax_calls_no_hooks() -> None:
    net = nn.Linear(3, 2).to("jax")
    called: list[Any] = []
    net.register_full_backward_hook(lambda *given: called.append(given))

    def compute(x):
        result = net(x)
        result.register_hook(called.append)
        return result

    jacobian = torchax.interop.torch_view(jax.jacrev(torchax.interop.jax_view(compute)))
    assert_equal(net.weight.detach(), jacobian(torch.ones(3).to("jax")))
    assert [] == called


def test_hook_of_a_module_without_traced_inputs_runs_with_those_of_torch() -> None:
    net, called = nn.Linear(3, 2), []
    net.register_full_backward_hook(lambda *given: called.append(given))
    net(X).sum().backward()
    assert 1 == len(called)


def test_full_backward_hook_of_a_module_with_views_and_numbers_among_its_inputs() -> None:
    class Scaled(nn.Module):
        def forward(self, x, factor, y):
            return x * factor + y

    def compute_loss(net, x):
        return net(x * 3, 2.0, x[:, :1]).sum()

    for device in ("cpu", "jax"):
        net, seen = Scaled(), []
        net.register_full_backward_hook(lambda module, i, o, seen=seen: seen.extend((*i, *o)))
        x = X.clone().to(device).requires_grad_()
        (compute_loss if device == "cpu" else differentiable(compute_loss))(net, x).backward()
        expected = torch.full((4, 3), 2.0), torch.full((4, 1), 3.0), torch.ones(4, 3)
        assert_equal(expected, tuple(one for one in seen if one is not None))


def test_gradient_of_complex_tensor_is_given_to_hooks_as_torch_has_it() -> None:
    seen: list[Any] = []

    def compute_loss(x):
        wave = torch.fft.rfft(x)
        wave.register_hook(seen.append)
        return wave.abs().square().sum()

    x = torch.randn(8)
    compute_loss(x.clone().requires_grad_()).backward()
    differentiable(compute_loss)(x.to("jax").requires_grad_()).backward()
    assert_equal(torch.view_as_real(seen[0]), torch.view_as_real(seen[1].cpu()))


def test_hooks_of_a_function_without_gradients_are_not_called() -> None:
    called: list[Any] = []

    @differentiable
    def compute(net, x):
        with torch.no_grad():
            net[1](net[0](x))
        return net[2](net[1](x.new_zeros(4, 5))).sum()

    net = network().to("jax")
    net[1].register_full_backward_hook(lambda *given: called.append(given))
    with torch.no_grad():
        compute(net, X.to("jax"))
    assert [] == called
