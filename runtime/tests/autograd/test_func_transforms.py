"""`torch.func` and `torch.autograd.functional` of tensors on the device."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.autograd import functional
from torch.func import functional_call, grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap
from torchax_compat import differentiable

from ..comparison import assert_equal, moved

X = torch.linspace(-1, 2, 12).reshape(4, 3)
Y = torch.linspace(1, 2, 4).reshape(4, 1)


def compared(function, *args) -> None:
    """What a function of `torch.func` gives is the same on the device."""
    torch.manual_seed(0)
    expected = function(*args)
    torch.manual_seed(0)
    assert_equal(expected, function(*moved(args, "jax")))


def square(x):
    return (x**2).sum()


def test_grad_of_one_argument() -> None:
    compared(grad(square), X)


def test_grad_of_several_arguments_of_which_some_are_chosen() -> None:
    compared(grad(lambda x, y, z: (x * y).sum() + z["a"].sum(), argnums=(0, 2)), X, Y, {"a": X})
    compared(grad(lambda x, y: (x * y).sum(), argnums=-1), X, Y)


def test_grad_with_auxiliary_values() -> None:
    compared(grad(lambda x: (square(x), {"twice": 2 * x}), has_aux=True), X)
    compared(grad_and_value(lambda x: (square(x), (x, 3 * x)), has_aux=True), X)
    assert "x" == grad(lambda x: (square(x), {"name": "x"}), has_aux=True)(X.to("jax"))[1]["name"]


def test_grad_and_value() -> None:
    compared(grad_and_value(square), X)


def test_grad_by_keyword_arguments() -> None:
    compared(lambda x, y: grad(lambda x, *, y: (x * y).sum())(x, y=y), X, Y)


def test_gradients_for_each_item_of_a_batch() -> None:
    def norms(net, x, y):
        def loss_of(parameters, item, target):
            return (functional_call(net, parameters, (item[None],))[0] - target).square().mean()

        parameters = {name: p.detach() for name, p in net.named_parameters()}
        return vmap(grad(loss_of), in_dims=(None, 0, 0))(parameters, x, y)

    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    expected = norms(net, X, Y)
    assert_equal(expected, norms(net.to("jax"), X.to("jax"), Y.to("jax")))


def test_vmap_over_other_dimensions() -> None:
    compared(vmap(lambda x: x * 2, in_dims=1, out_dims=1), X)
    compared(vmap(lambda x, y: (x + y, x.sum()), in_dims=(1, None), out_dims=(1, 0)), X, Y[:, 0])


def test_vmap_of_noise_that_differs_for_each_item() -> None:
    x = X.to("jax")
    drawn = vmap(lambda row: torch.rand_like(row), randomness="different")(x)
    assert 12 == len(set(drawn.flatten().tolist()))


def test_vjp_of_one_argument_and_of_several() -> None:
    compared(lambda x: vjp(torch.sin, x)[1](2 * x), X)
    compared(lambda x, y: vjp(lambda x, y: (x * y, y.sum()), x, y)[1]((x, y.sum())), X, Y)


def test_vjp_with_auxiliary_values() -> None:
    compared(lambda x: vjp(lambda x: (x.sin(), 2 * x), x, has_aux=True)[2], X)


def test_jvp_and_the_change_of_a_gradient() -> None:
    x, v = X.to("jax"), (X + 1).to("jax")
    assert_equal((X.sin(), X.cos() * (X + 1)), jvp(torch.sin, (x,), (v,)))
    assert_equal((2 * X, 2 * (X + 1)), jvp(grad(square), (x,), (v,)))
    assert_equal((X.sin(), X.cos() * (X + 1), X), jvp(lambda x: (x.sin(), x), (x,), (v,), has_aux=True))


def test_jvp_of_several_arguments() -> None:
    x, y = X.to("jax"), Y.to("jax")
    assert_equal((X * Y, 3 * X * Y), jvp(lambda x, y: x * y, (x, y), (2 * x, y)))


def test_jacobians_and_hessians_of_torch_func() -> None:
    x, y = X[0], Y[:, 0]
    compared(jacrev(torch.sin), x)
    compared(jacrev(lambda x, y: x * y.sum(), argnums=(0, 1), chunk_size=2), x, y)
    assert_equal(torch.diag(3 * x**2), jacfwd(lambda x: x**3)(x.to("jax")))
    assert_equal(torch.diag(6 * x), hessian(lambda x: (x**3).sum())(x.to("jax")))


def test_transforms_of_tensors_of_the_host_are_those_of_torch() -> None:
    assert_equal(2 * X, grad(square)(X))
    assert_equal(2 * X, vmap(lambda x: 2 * x)(X))
    assert_equal(X, vjp(lambda x: x, X)[1](X)[0])


def test_gradient_of_complex_input_is_as_torch_has_it() -> None:
    z = torch.complex(X, X.flip(0))
    found = grad(lambda z: z.abs().square().sum())(z.to("jax"))
    assert_equal(torch.view_as_real(2 * z), torch.view_as_real(found.cpu()))


def test_transform_within_a_decorated_function_is_differentiated() -> None:
    def compute_loss(net, x):
        return vmap(grad(lambda row: net(row).sum()))(x).square().sum()

    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1))
    compute_loss(net, X).backward()
    expected = [None if p.grad is None else p.grad.clone() for p in net.parameters()]
    net.zero_grad()
    net.to("jax")
    decorated = differentiable(compute_loss)
    decorated(net, X.to("jax")).backward()
    assert_equal(expected[:-1], [p.grad for p in net.parameters()][:-1])
    assert decorated.compiled_function.is_compiled


def both_ways(x):
    return (x**3).sum(), x.prod()


def test_functional_jacobian() -> None:
    compared(lambda x: functional.jacobian(torch.sin, x), X[0])
    compared(lambda x, y: functional.jacobian(lambda x, y: x * y.sum(), (x, y)), X[0], Y)
    compared(lambda x: functional.jacobian(both_ways, x), X[0])


def test_functional_jacobian_in_forward_mode() -> None:
    found = functional.jacobian(torch.sin, X[0].to("jax"), vectorize=True, strategy="forward-mode")
    assert_equal(torch.diag(X[0].cos()), found)


def test_functional_hessian() -> None:
    compared(lambda x: functional.hessian(lambda x: (x**3).sum(), x), X[0])
    compared(lambda x, y: functional.hessian(lambda x, y: (x**2).sum() * y.sum(), (x, y)), X[0], Y)


def test_functional_vjp_and_jvp() -> None:
    compared(lambda x, v: functional.vjp(torch.sin, x, v), X, X + 1)
    compared(lambda x: functional.vjp(square, x), X)
    compared(lambda x, v: functional.jvp(torch.sin, x, v), X, X + 1)
    compared(lambda x: functional.jvp(lambda x: x.expand(3) * 2, x), X[0, :1])


def test_functional_hvp_and_vhp() -> None:
    for product in (functional.hvp, functional.vhp):
        compared(lambda x, v, product=product: product(lambda x: (x**3).sum(), x, v), X, X + 1)


def test_functional_product_without_a_vector_needs_a_single_number() -> None:
    with pytest.raises(RuntimeError, match="a single tensor with a single element"):
        functional.vjp(torch.sin, X.to("jax"))


def test_functional_of_tensors_of_the_host_is_that_of_torch() -> None:
    assert_equal(torch.diag(2 * X[0]), functional.jacobian(lambda x: x**2, X[0]))


def test_functional_jacobian_within_a_decorated_function_is_differentiated() -> None:
    def compute_loss(x):
        return functional.jacobian(lambda x: x**3, x, create_graph=True).square().sum()

    x, y = X[0].clone().requires_grad_(), X[0].clone().to("jax").requires_grad_()
    compute_loss(x).backward()
    differentiable(compute_loss)(y).backward()
    assert_equal(x.grad, y.grad)
