"""What `torch.no_grad()` means to JAX: gradients stop, and know nothing of what is written."""

from __future__ import annotations

import contextlib
import operator

import jax
import torch
import torchax
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torchax.tensor import Tensor

from .. import arrays


class NoGradStops(TorchFunctionMode):
    """Lets `torch.no_grad()` mean to JAX what it means to torch.

    What is written in place there keeps the gradient that it had, as if it had had these values before.
    What the function is given is on the device, and so goes there what of the host is joined to it.
    """

    def __torch_function__(self, func, types, args=(), kwargs=None):
        try:
            with unseen_writes(args, kwargs):
                result = func(*args, **(kwargs or {}))
        except AssertionError:
            leaves, tree = pytree.tree_flatten((args, kwargs or {}))
            moved = [arrays.on_torchax(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            if all(map(operator.is_, moved, leaves)):
                raise
            args, kwargs = pytree.tree_unflatten(moved, tree)
            with unseen_writes(args, kwargs):
                result = func(*args, **kwargs)
        if not torch.is_grad_enabled():
            given = {id(leaf) for leaf in pytree.tree_leaves((args, kwargs))}
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, Tensor) and id(leaf) not in given and arrays.is_traced(leaf):
                    leaf.apply_jax_(jax.lax.stop_gradient)
        return result


@contextlib.contextmanager
def unseen_writes(*arguments):
    """Within `torch.no_grad()`, hide from gradients what is written to tensors."""
    written = [] if torch.is_grad_enabled() else list(_sources(arguments))
    yield
    for tensor, before in written:
        after = tensor.jax()
        if after is not before and (arrays.is_traced(tensor) or isinstance(before, jax.core.Tracer)):
            arrays.put(tensor, unseen(before, after))


def _sources(arguments):
    """The tensors among arguments, or of which views are, with their arrays."""
    for leaf in pytree.tree_leaves(arguments):
        while isinstance(leaf, torchax.view.View):
            leaf = leaf.parent
        leaf = getattr(leaf, "_of", leaf)  # which has the gradient, where `detach()` or `data` gave this
        if isinstance(leaf, Tensor):
            yield leaf, leaf.jax()


def unseen(before, after):
    """The array that a write leaves of which gradients know nothing: it has those of the array before."""
    after = jax.lax.stop_gradient(after)
    is_alike = (before.shape, before.dtype) == (after.shape, after.dtype)
    if not is_alike or not jax.numpy.issubdtype(before.dtype, jax.numpy.inexact):
        return after
    return _unseen(before, after)


@jax.custom_jvp
def _unseen(before, after):
    return after


@_unseen.defjvp
def _unseen_gradient(primals, changes):
    return primals[1], changes[0]
