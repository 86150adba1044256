"""`torch.no_grad()` for JAX: results get no gradient, and written tensors keep theirs.

`torch.inference_mode()` is the same as `torch.no_grad()`.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Iterator
from typing import Any

import jax
import torch
import torchax
from torch.overrides import TorchFunctionMode
from torchax.tensor import Tensor

from ..adapters.torch_internals import pytree
from ..patches.declarations import TORCH, patch
from ..tensor import arrays


@patch(
    "torch.autograd.grad_mode:inference_mode.__enter__",
    why="In inference mode, tensors of torchax lack attributes, and many operations raise.",
    upstream=f"{TORCH}autograd/grad_mode.py",
)
def _enter_inference_mode(self: Any) -> None:
    self._inference_mode_context = torch.set_grad_enabled(not self.mode)  # whose exit restores the mode
    self._inference_mode_context.__enter__()


class NoGradMode(TorchFunctionMode):
    """Gives `torch.no_grad()` its effect on JAX's gradients.

    A tensor that is written in place there keeps its gradient, as if it had had the new values before.
    The function's tensors are on the device, so CPU tensors that are combined with them are moved to the
    device.
    """

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        try:
            with hidden_writes(args, kwargs):
                result = func(*args, **(kwargs or {}))
        except AssertionError:
            leaves, tree = pytree.tree_flatten((args, kwargs or {}))
            moved = [arrays.on_torchax(leaf) if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
            if all(map(operator.is_, moved, leaves)):
                raise
            args, kwargs = pytree.tree_unflatten(moved, tree)
            with hidden_writes(args, kwargs):
                result = func(*args, **kwargs)
        if not torch.is_grad_enabled():
            given = {id(leaf) for leaf in pytree.tree_leaves((args, kwargs))}
            for leaf in pytree.tree_leaves(result):
                if isinstance(leaf, Tensor) and id(leaf) not in given and arrays.is_traced(leaf):
                    leaf.apply_jax_(jax.lax.stop_gradient)
        return result


@contextlib.contextmanager
def hidden_writes(*arguments: Any) -> Iterator[Any]:
    """Within `torch.no_grad()`, hide writes to the arguments from gradients."""
    written = [] if torch.is_grad_enabled() else list(_sources(arguments))
    yield
    for tensor, before in written:
        after = tensor.jax()
        if after is not before and (arrays.is_traced(tensor) or isinstance(before, jax.core.Tracer)):
            arrays.put(tensor, hidden_write(before, after))


def _sources(arguments: Any) -> Iterator[Any]:
    """The tensors among arguments, or behind views among them, with their arrays."""
    for leaf in pytree.tree_leaves(arguments):
        while isinstance(leaf, torchax.view.View):
            leaf = leaf.parent
        leaf = getattr(leaf, "_of", leaf)  # the source of `detach()` or `data` has the gradient
        if isinstance(leaf, Tensor):
            yield leaf, leaf.jax()


def hidden_write(before: Any, after: Any) -> Any:
    """The array after a write that gradients ignore: it has the gradient of the array before."""
    after = jax.lax.stop_gradient(after)
    is_alike = (before.shape, before.dtype) == (after.shape, after.dtype)
    if not is_alike or not jax.numpy.issubdtype(before.dtype, jax.numpy.inexact):
        return after
    return _unseen(before, after)


@jax.custom_jvp
def _unseen(_before: Any, after: Any) -> Any:
    return after


@_unseen.defjvp
def _unseen_gradient(primals: Any, changes: Any) -> Any:
    return primals[1], changes[0]
