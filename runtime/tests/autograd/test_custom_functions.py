"""Custom `torch.autograd.Function`s within a decorated function."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: ARG004, FBT003, N812

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
import torchax
from torch import nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint
from torchax_compat import differentiable, higher_order

from ..comparison import assert_equal, assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


class StraightThrough(Function):
    @staticmethod
    def forward(ctx, x, bits=4):
        levels = 2**bits - 1
        return torch.round(x * levels) / levels

    @staticmethod
    def backward(ctx, grad):
        return grad, None


class Scaled(Function):
    """With a context of its own, and three times the gradient of its weight."""

    @staticmethod
    def forward(x, weight):
        return x @ weight.t()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        x, weight = ctx.saved_tensors
        return grad @ weight if ctx.needs_input_grad[0] else None, 3 * (grad.t() @ x)


class Quantised(Function):
    @staticmethod
    def forward(ctx, z, book):
        index = ((z[:, None] - book) ** 2).sum(2).argmin(1)
        ctx.save_for_backward(index, book)
        ctx.mark_non_differentiable(index)
        return book[index], index

    @staticmethod
    def backward(ctx, grad, _):
        index, book = ctx.saved_tensors
        chosen = F.one_hot(index, len(book)).to(grad.dtype)
        return grad.clone(), chosen.t() @ grad


class Floor(Function):
    """Writes its argument in place, and takes the gradient by its output."""

    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        x.clamp_(min=0.1)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    @once_differentiable
    def backward(ctx, grad):
        (y,) = ctx.saved_variables
        return 2 * grad * (y > 0.1)


class Clipped(Function):
    """Its `backward` needs the value of the gradient."""

    @staticmethod
    def forward(ctx, x):
        return x * 1.5

    @staticmethod
    def backward(ctx, grad):
        if grad.norm() > 1e-3:
            grad = grad / grad.norm()
        return grad


class Checkpoint(Function):
    """Computes the forward pass anew on the way back."""

    @staticmethod
    def forward(ctx, function, count, *args):
        ctx.function, ctx.inputs, ctx.params = function, list(args[:count]), list(args[count:])
        with torch.no_grad():
            return function(*ctx.inputs)

    @staticmethod
    def backward(ctx, *gradients):
        ctx.inputs = [x.detach().requires_grad_(True) for x in ctx.inputs]
        with torch.enable_grad():
            outputs = ctx.function(*[x.view_as(x) for x in ctx.inputs])
        given = torch.autograd.grad(outputs, ctx.inputs + ctx.params, gradients, allow_unused=True)
        return (None, None, *given)


def test_straight_through_gradient_is_that_of_backward() -> None:
    assert_same_as_torch(
        lambda net, x: StraightThrough.apply(net(x)).square().sum(),
        nn.Linear(3, 2),
        X.clone().requires_grad_(),
    )


def test_function_with_setup_context_uses_its_backward() -> None:
    weight = torch.linspace(0, 1, 6).reshape(2, 3).requires_grad_()
    assert_same_as_torch(lambda x, w: Scaled.apply(x, w).square().sum(), X.clone().requires_grad_(), weight)


def test_default_arguments_of_forward_with_setup_context() -> None:
    class Doubled(Function):
        @staticmethod
        def forward(x, factor=2.0):
            return x * factor

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.factor = inputs[1]

        @staticmethod
        def backward(ctx, grad):
            return grad * ctx.factor * 5, None

    assert_same_as_torch(lambda x: Doubled.apply(x).square().sum(), X.clone().requires_grad_())


def test_result_that_is_not_differentiable_has_no_gradient() -> None:
    def compute_loss(z, book):
        near, index = Quantised.apply(z, book)
        return (near * torch.arange(12, device=z.device).reshape(4, 3)).sum(), index

    book = torch.randn(5, 3).requires_grad_()
    assert_same_as_torch(compute_loss, X.clone().requires_grad_(), book)


def test_argument_that_is_marked_dirty_is_changed() -> None:
    def compute_loss(x):
        hidden = x * 2
        found = Floor.apply(hidden)
        return (found * 3 + hidden).sum()

    assert_same_as_torch(compute_loss, X.clone().requires_grad_())


def test_backward_that_needs_a_value_is_not_compiled() -> None:
    def compute_loss(x):
        return Clipped.apply(x).square().sum()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert_same_as_torch(compute_loss, X.clone().requires_grad_())
    assert any("the backward pass is not compiled" in str(one.message) for one in caught)


def test_forward_that_is_computed_anew_in_backward_is_differentiated_itself() -> None:
    def compute_loss(net, x):
        return Checkpoint.apply(lambda t: torch.tanh(net(t)), 1, x, *net.parameters()).square().mean()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X.clone().requires_grad_())


@pytest.mark.parametrize("use_reentrant", [True, False])
def test_checkpoint_of_torch_has_the_gradients_of_what_it_computes(use_reentrant: bool) -> None:
    def compute_loss(net, x):
        def mixed(x):
            with torch.no_grad():
                scale = x.abs().mean()
            return torch.tanh(net(x)) * scale

        return checkpoint(mixed, x * 2, use_reentrant=use_reentrant).sum()

    assert_same_as_torch(compute_loss, nn.Linear(3, 2), X.clone().requires_grad_())


def test_function_applied_without_gradients_only_computes() -> None:
    def compute_loss(x):
        with torch.no_grad():
            fixed = StraightThrough.apply(x)
        return (x * fixed).sum()

    assert_same_as_torch(compute_loss, X.clone().requires_grad_())


def test_gradient_that_is_wider_than_its_input_is_summed() -> None:
    class Shifted(Function):
        @staticmethod
        def forward(ctx, x, bias):
            return x + bias

        @staticmethod
        def backward(ctx, grad):
            return grad, 2 * grad

    bias = torch.zeros(3).requires_grad_()
    x = X.to("jax").requires_grad_()
    there = bias.detach().to("jax").requires_grad_()
    differentiable(lambda x, b: Shifted.apply(x, b).square().sum())(x, there).backward()
    assert_equal(4 * X.sum(0), there.grad)


def test_gradients_of_outputs_without_any_are_zeros_or_none() -> None:
    class Pair(Function):
        @staticmethod
        def forward(ctx, x, materialize):
            ctx.set_materialize_grads(materialize)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, first, second):
            return first if second is None else first + second + 1, None

    def compute_loss(x, materialize):
        return Pair.apply(x, materialize)[0].sum()

    assert_same_as_torch(compute_loss, X.clone().requires_grad_(), True)
    assert_same_as_torch(compute_loss, X.clone().requires_grad_(), False)


def test_what_backward_writes_to_saved_tensors_is_left_there() -> None:
    class Memory(Function):
        @staticmethod
        def forward(ctx, x, memory, rows):
            ctx.save_for_backward(x, memory, rows)
            return x @ memory.t()

        @staticmethod
        def backward(ctx, grad):
            x, memory, rows = ctx.saved_tensors
            found = grad @ memory
            memory.index_copy_(0, rows, (memory[rows] + x.detach()) / 2)
            return found, None, None

    class Bank(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("memory", torch.eye(6, 3))

        def forward(self, x, rows):
            return Memory.apply(self.layer(x), self.memory, rows)

    def compute_loss(net, x, rows):
        return net(x, rows).logsumexp(1).sum()

    batches = [(torch.arange(4) + k,) for k in range(3)]
    assert_same_as_torch(compute_loss, Bank(), X, batches=batches)


def test_what_backward_writes_to_a_part_of_a_tensor_is_left_there() -> None:
    class Noted(Function):
        @staticmethod
        def forward(ctx, x, notes):
            ctx.notes = notes
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            if grad.sum() > 0:  # so that it is not compiled
                ctx.notes.add_(grad.sum())
            return grad * 2, None

    notes = torch.zeros(4).to("jax")
    compute_loss = differentiable(lambda x: Noted.apply(x, notes[1:3]).sum())
    for _ in range(2):
        compute_loss(X.to("jax").requires_grad_()).backward()
    assert [0.0, 24.0, 24.0, 0.0] == notes.tolist()


def test_what_backward_writes_to_a_buffer_of_a_module_is_left_there() -> None:
    class Counted(Function):
        @staticmethod
        def forward(ctx, x, layer):
            ctx.layer = layer
            return x * 2

        @staticmethod
        def backward(ctx, grad):
            ctx.layer.seen.add_(grad.abs().sum())
            grad = grad * 2
            grad[grad < 0] = 0
            return grad, None

    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.register_buffer("seen", torch.zeros(()))

        def forward(self, x):
            return Counted.apply(self.layer(x), self).sin()

    assert_same_as_torch(lambda net, x: net(x).sum(), Layer(), X)


class Softplus(Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return F.softplus(x)

    @staticmethod
    def backward(ctx, grad):
        (x,) = ctx.saved_tensors
        return grad * torch.sigmoid(x)


class LeakyBackward(Function):
    @staticmethod
    def forward(ctx, gradient, out):
        ctx.save_for_backward(out)
        given = torch.where(out > 0, gradient, gradient * 0.2)
        return given, given.sum(0)

    @staticmethod
    def backward(ctx, of_gradient, of_bias):
        (out,) = ctx.saved_tensors
        known = of_gradient + of_bias
        return torch.where(out > 0, known, known * 0.2), None


class Leaky(Function):
    @staticmethod
    def forward(ctx, x, bias):
        out = F.leaky_relu(x + bias, 0.2)
        ctx.save_for_backward(out)
        return out

    @staticmethod
    def backward(ctx, gradient):
        (out,) = ctx.saved_tensors
        return LeakyBackward.apply(gradient, out)


def test_gradient_of_a_custom_gradient() -> None:
    def penalty(net, x):
        (slope,) = torch.autograd.grad(Softplus.apply(net(x)).sum(), x, create_graph=True)
        return ((slope.norm(2, dim=1) - 1) ** 2).mean()

    assert_same_as_torch(
        penalty,
        nn.Linear(3, 2),
        X.clone().requires_grad_(),
        decorate=lambda f: differentiable(higher_order(f)),
    )


def test_gradient_of_a_backward_that_applies_another_custom_function() -> None:
    def penalty(net, bias, x):
        (slope,) = torch.autograd.grad(Leaky.apply(net(x), bias).square().sum(), x, create_graph=True)
        return slope.pow(2).sum(1).mean()

    bias = torch.zeros(2).requires_grad_()
    found = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net, b = nn.Linear(3, 2).to(device), bias.detach().to(device).requires_grad_()
        x = X.clone().to(device).requires_grad_()
        function = penalty if device == "cpu" else differentiable(higher_order(penalty))
        function(net, b, x).backward()
        found.append((net.weight.grad.cpu(), b.grad.cpu()))
    assert_equal(found[0], found[1])


def test_sparse_matrix_that_is_saved_keeps_its_indices() -> None:
    class Product(Function):
        @staticmethod
        def forward(ctx, indices, values, b):
            a = torch.sparse_coo_tensor(indices, values, (4, 4))
            ctx.save_for_backward(a, b)
            return torch.matmul(a, b)

        @staticmethod
        def backward(ctx, gradient):
            a, b = ctx.saved_tensors
            edges = a._indices()[0] * 4 + a._indices()[1]
            return None, gradient.matmul(b.t()).view(-1)[edges], a.t().matmul(gradient)

    indices = torch.tensor([[0, 1, 2, 3], [1, 0, 3, 3]])
    values = torch.linspace(1, 2, 4).requires_grad_()
    assert_same_as_torch(
        lambda i, v, b: Product.apply(i, v, b).square().sum(), indices, values, X.clone().requires_grad_()
    )


def test_gradient_of_complex_result_is_given_to_backward_as_torch_has_it() -> None:
    class Wave(Function):
        @staticmethod
        def forward(ctx, x):
            return torch.complex(x, 2 * x)

        @staticmethod
        def backward(ctx, grad):
            return grad.real + 2 * grad.imag

    x: Any = X.clone().requires_grad_()
    assert_same_as_torch(lambda x: (Wave.apply(x) * (1 + 2j) + 1).abs().square().sum(), x)


def test_transform_of_jax_alone_takes_the_gradient_from_backward() -> None:
    def loss(x):
        return (StraightThrough.apply(x) ** 2).sum()

    _, gradient = torchax.interop.jax_jit(torchax.interop.jax_value_and_grad(loss))(X.to("jax"))
    assert_equal(2 * torch.round(X * 15) / 15, gradient)
