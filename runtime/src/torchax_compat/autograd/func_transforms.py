"""`torch.func` transforms of torchax tensors, such as `vmap`, `grad`, `vjp`, `jvp` and Jacobians, by JAX.

PyTorch's versions do not see the gradients of torchax's computations, and wrap tensors in a type that torchax
does not know.
The functions that `vmap`, `grad` and others call are replaced, since programs import these by name.
PyTorch's Jacobians consist of these, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import (
    broadcast_to_and_flatten,
    chunked_standard_basis,
    grad_and_value_impl,
    grad_impl,
    jvp_with_argnums,
    pytree,
    vjp_with_argnums,
    vmap_impl,
)
from ..jit import active_programs, host_random
from ..patches.declarations import TORCH, patch
from ..tensor import arrays
from . import no_grad
from .complex_numbers import conjugated

_KINDS = (Tensor, View)
_map, _vjp, _jvp = vmap_impl, vjp_with_argnums, jvp_with_argnums
_grad, _grad_and_value = grad_impl, grad_and_value_impl


def are_on_torchax(*values: Any) -> bool:
    """Whether one of the tensors is a torchax tensor."""
    return any(isinstance(leaf, _KINDS) for leaf in pytree.tree_leaves(values))


class ArrayFunction:
    """A function of tensors as a function of arrays; results that are not tensors are those of the trace."""

    def __init__(
        self,
        function: Callable[..., Any],
        args: Any,
        kwargs: dict[str, Any],
        places: Any,
        *,
        has_aux: bool = False,
    ) -> None:
        self.function, self.kwargs, self.places, self.has_aux = function, kwargs, places, has_aux
        self.leaves, self.tree = pytree.tree_flatten(args)

    def values(self) -> Any:
        """The arrays of its tensor arguments."""
        return [arrays.on_torchax(self.leaves[i]).jax() for i in self.places]

    def __call__(self, *values: Any, key: Any = None) -> Any:
        """The arrays of its results and of its auxiliary results; `key` is the state of random numbers."""
        leaves = list(self.leaves)
        for i, value in zip(self.places, values, strict=False):
            leaves[i] = arrays.tensor(value)
        environment = torchax.default_env()
        with contextlib.ExitStack() as stack:
            for one in (
                arrays.entered(),
                torch.enable_grad(),
                no_grad.NoGradMode(),
                active_programs.using(None),
            ):
                stack.enter_context(one)
            if key is not None:
                stack.enter_context(environment.override_property(prng=key))
                stack.enter_context(host_random.collecting(None))
            result = self.function(*pytree.tree_unflatten(leaves, self.tree), **self.kwargs)
        aux = None
        if self.has_aux:
            result, aux = result
        made, self.shape = pytree.tree_flatten(result)
        others, self.aux_shape = pytree.tree_flatten(aux)
        self.aux = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in others]
        return [array_of(leaf) for leaf in made], [array_of(x) for x in others if isinstance(x, torch.Tensor)]

    def result(self, values: Any) -> Any:
        """Arrays as tensors, in the structure of its result."""
        return pytree.tree_unflatten(list(map(arrays.tensor, values)), self.shape)

    def rest(self, values: Any) -> Any:
        """The auxiliary results of a function with `has_aux`."""
        values = iter(values)
        leaves = [arrays.tensor(next(values)) if leaf is None else leaf for leaf in self.aux]
        return pytree.tree_unflatten(leaves, self.aux_shape)


def array_of(leaf: Any) -> Any:
    """The JAX array of a tensor or number."""
    return arrays.on_torchax(leaf if isinstance(leaf, torch.Tensor) else torch.tensor(leaf)).jax()


@patch(
    "torch._functorch.apis:vmap_impl",
    why="PyTorch wraps tensors in a type that torchax does not know.",
    upstream=TORCH + "_functorch/apis.py",
)
def _mapped(
    function: Callable[..., Any],
    in_dims: Any,
    out_dims: Any,
    randomness: Any,
    chunk_size: Any,
    *args: Any,
    **kwargs: Any,
) -> Any:
    """`vmap(function, ...)(*args, **kwargs)`."""
    if not are_on_torchax(args, kwargs):
        return _map(function, in_dims, out_dims, randomness, chunk_size, *args, **kwargs)
    tree = pytree.tree_structure(args)
    dims = broadcast_to_and_flatten(in_dims, tree)
    places = [i for i, dim in enumerate(dims) if dim is not None]
    plain = ArrayFunction(function, args, kwargs, places)
    values, dims = plain.values(), [dims[i] for i in places]
    count = values[0].shape[dims[0]]
    keys = None
    if randomness == "different":
        environment = torchax.default_env()
        environment.prng_key, own = jax.random.split(environment.prng_key)
        keys = jax.random.split(own, count)
    made, _ = jax.vmap(lambda values, key: plain(*values, key=key), (dims, None if keys is None else 0))(
        values, keys
    )
    places = broadcast_to_and_flatten(out_dims, plain.shape)
    return plain.result(
        [
            value if not to else jax.numpy.moveaxis(value, 0, to)
            for value, to in zip(made, places, strict=False)
        ]
    )


def _places(args: Any, argnums: Any) -> Any:
    """The positions of the leaves of the arguments `argnums`, or of all, and these arguments."""
    numbers = range(len(args)) if argnums is None else [argnums] if isinstance(argnums, int) else argnums
    numbers = [number % len(args) for number in numbers]
    counts = [len(pytree.tree_leaves(one)) for one in args]
    starts = [sum(counts[:i]) for i in range(len(args))]
    return [starts[i] + k for i in numbers for k in range(counts[i])], [args[i] for i in numbers]


def _shaped(values: Any, chosen: Any, argnums: Any) -> Any:
    """Arrays in the structure of the arguments to which they belong."""
    leaves = list(map(arrays.tensor, values))
    if isinstance(argnums, int):
        (chosen,) = chosen
    else:
        chosen = tuple(chosen)
    return pytree.tree_unflatten(leaves, pytree.tree_flatten(chosen)[1])


@patch(
    "torch._functorch.eager_transforms:grad_and_value_impl",
    why="PyTorch's gradients do not include what torchax computes.",
    upstream=TORCH + "_functorch/eager_transforms.py",
)
def _differentiated(
    function: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: dict[str, Any]
) -> Any:
    """`grad_and_value(function, argnums, has_aux)(*args, **kwargs)`."""
    if not are_on_torchax(args, kwargs):
        return _grad_and_value(function, argnums, has_aux, args, kwargs)
    places, chosen = _places(args, argnums)
    plain = ArrayFunction(function, args, kwargs, places, has_aux=has_aux)

    def scalar(values: Any) -> Any:
        (value,), others = plain(*values)
        return value.reshape(()), (value, others)

    gradients, (value, others) = jax.grad(scalar, has_aux=True)(plain.values())
    value = plain.result([value])
    return _shaped(conjugated(gradients), chosen, argnums), (value, plain.rest(others)) if has_aux else value


@patch(
    "torch._functorch.eager_transforms:grad_impl",
    why="PyTorch's gradients do not include what torchax computes.",
    upstream=TORCH + "_functorch/eager_transforms.py",
)
def _gradient(
    function: Callable[..., Any], argnums: Any, has_aux: bool, args: Any, kwargs: dict[str, Any]
) -> Any:
    """`grad(function, argnums, has_aux)(*args, **kwargs)`."""
    if not are_on_torchax(args, kwargs):
        return _grad(function, argnums, has_aux, args, kwargs)
    gradients, value = _differentiated(function, argnums, has_aux, args, kwargs)
    return (gradients, value[1]) if has_aux else gradients


@patch(
    "torch._functorch.eager_transforms:_vjp_with_argnums",
    why="PyTorch's gradients do not include what torchax computes.",
    upstream=TORCH + "_functorch/eager_transforms.py",
)
def _pulled_back(function: Callable[..., Any], *args: Any, argnums: Any = None, has_aux: bool = False) -> Any:
    """`vjp(function, *args)`, for the arguments `argnums`."""
    if not are_on_torchax(args):
        return _vjp(function, *args, argnums=argnums, has_aux=has_aux)
    places, chosen = _places(args, argnums)
    plain = ArrayFunction(function, args, {}, places, has_aux=has_aux)
    made, pullback, others = jax.vjp(plain, *plain.values(), has_aux=True)

    def pulled(
        cotangents: Any,
        retain_graph: bool = True,  # noqa: ARG001 # torch's; JAX keeps the residuals, and differentiates all
        create_graph: Any = None,  # noqa: ARG001 # torch's
    ) -> Any:
        found = pullback(conjugated([array_of(one) for one in pytree.tree_leaves(cotangents)]))
        whole = len(args) == 1 and argnums is None
        found = conjugated(found)
        return _shaped(found, chosen, argnums) if not whole else (_shaped(found, chosen, 0),)

    return (plain.result(made), pulled, *([plain.rest(others)] if has_aux else []))


@patch(
    "torch._functorch.eager_transforms:_jvp_with_argnums",
    why="PyTorch's gradients do not include what torchax computes.",
    upstream=TORCH + "_functorch/eager_transforms.py",
)
def _pushed_forward(
    function: Callable[..., Any],
    args: Any,
    tangents: Any,
    argnums: Any,
    *,
    strict: bool = False,
    has_aux: bool,
) -> Any:
    """`jvp(function, args, tangents)`, for the arguments `argnums`."""
    if not are_on_torchax(args, tangents):
        return _jvp(function, args, tangents, argnums, strict=strict, has_aux=has_aux)
    places, _ = _places(args, argnums)
    plain = ArrayFunction(function, args, {}, places, has_aux=has_aux)
    along = [array_of(one) for one in pytree.tree_leaves(tangents)]
    made, changes, others = jax.jvp(plain, plain.values(), along, has_aux=True)
    return (plain.result(made), plain.result(changes), *([plain.rest(others)] if has_aux else []))


_basis = chunked_standard_basis


@patch(
    "torch._functorch.eager_transforms:_chunked_standard_basis_for_",
    why="PyTorch writes the basis through a view, which is a copy on torchax.",
    upstream=TORCH + "_functorch/eager_transforms.py",
)
def _basis_of(tensors: Any, counts: Any, chunk_size: Any = None) -> Iterator[Any]:
    """The standard basis of the space of some tensors, in chunks; torch writes it through a view."""
    if not are_on_torchax(tensors):
        yield from _basis(tensors, counts, chunk_size)
        return
    total = sum(counts)
    for first in range(0, total, chunk_size or total):
        rows = torch.eye(total, device="jax")[first : first + (chunk_size or total)].clone()
        parts = rows.split(list(counts), dim=1)
        yield tuple(
            part.reshape(part.shape[0], *one.shape).to(one.dtype)
            for part, one in zip(parts, tensors, strict=False)
        )
