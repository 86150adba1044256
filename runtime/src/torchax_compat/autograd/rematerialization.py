"""`torch.utils.checkpoint.checkpoint`: the backward pass computes a function again, to keep fewer results.

PyTorch does this with hooks of its autograd, which JAX does not call.
So a function that JAX traces would keep everything, and a model that fits on a GPU because of checkpointing
would not fit on a TPU.
Here, `jax.checkpoint` does the same.
For a transformer of eight layers, the step then needs 2.3 GB of a TPU v5e instead of 6.7 GB, and 1.3 times
the cycles, by the TPU's compiler.

The function runs once, so batch norm updates its statistics once; in PyTorch, the second run updates them
again.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import torch
import torchax
from torch.utils import checkpoint
from torchax.tensor import Tensor

from ..adapters.torch_internals import pytree
from ..jit import (
    active_programs,
    argument_copies,
    attribute_owners,
    captured_output,
    concrete_values,
    random_states,
    reachable_modules,
    tensor_objects,
    trace,
)
from ..patches.declarations import TORCH, patch
from ..tensor import array_groups, arrays
from . import gradient_hooks

_LOG = logging.getLogger("torchax_compat")
_checkpoint = checkpoint.checkpoint


class _NotPossibleError(Exception):
    """The function has an effect that it would have twice, or that the outer function has to see."""


@patch(
    "torch.utils.checkpoint:checkpoint",
    why="JAX keeps the results of the function for the backward pass.",
    upstream=TORCH + "utils/checkpoint.py",
)
@functools.wraps(_checkpoint)
def _rematerialized(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    options = {name: kwargs[name] for name in kwargs.keys() & _OPTIONS}
    given = {name: value for name, value in kwargs.items() if name not in options}
    leaves, tree = pytree.tree_flatten((args, given))
    is_possible = torch.is_grad_enabled() and not _advances(function, leaves)
    part = _part(function, leaves, tree) if is_possible else None
    if part is None:
        return _checkpoint(function, *args, **kwargs)
    states = random_states.states(part.generators)
    try:
        return part.result()
    except Exception as error:  # an error of the function itself is raised again
        random_states.restore(states)
        _LOG.info("a checkpointed function keeps its results: %s", arrays.first_line(error))
        return _checkpoint(function, *args, **kwargs)


#: The options of `checkpoint`: others are arguments of the function.
_OPTIONS = {"use_reentrant", "context_fn", "determinism_check", "debug", "early_stop", "preserve_rng_state"}


def _advances(function: Any, leaves: Sequence[Any]) -> bool:
    """Whether a function can advance an iterator, which would be advanced again where JAX cannot trace it."""
    held: list[Any] = [*leaves]
    while isinstance(function, functools.partial):
        held += [*function.args, *function.keywords.values()]
        function = function.func
    bound = getattr(function, "__self__", function)
    held += getattr(bound, "__dict__", {}).values()
    for cell in getattr(function, "__closure__", None) or ():
        with contextlib.suppress(ValueError):  # it has no value yet
            held.append(cell.cell_contents)
    return any(isinstance(one, Iterator) for one in held)


def _part(function: Callable[..., Any], leaves: list[Any], tree: Any) -> _Part | None:
    """The function for these arguments; None if JAX does not differentiate it."""
    modules, others = reachable_modules.modules_and_tensors(function, leaves)
    parameters = trace.unique([*trace.parameters_on_device(modules), *others])
    views = [leaf for leaf in leaves if isinstance(leaf, torchax.view.View)]
    known = {id(view): arrays.on_torchax(view) for view in views}
    leaves = [known.get(id(leaf), leaf) for leaf in leaves]
    inputs, places = trace.numbered(leaves, parameters)
    if not all(isinstance(tensor, Tensor) for tensor in inputs):
        return None
    if not any(map(arrays.is_traced, (*parameters, *inputs))):
        return None
    objects = attribute_owners.owners(modules, leaves, function)
    part = _Part(function, leaves, tree, places, modules, parameters, objects, ())
    part.inputs, part.copies = inputs, argument_copies.copies(views, map(known.get, map(id, views)))
    return part


class _Part(trace.Trace):
    """A function within one that JAX traces, with what it gets."""

    inputs: list[torch.Tensor]
    copies: list[Any]  # of views among the arguments

    def result(self) -> Any:
        """The result of the function."""
        given = [*self.parameters, *self.inputs]
        buffers = trace.buffers_of(self.modules).values()
        made, *changes = jax.checkpoint(self._run)(
            [tensor.jax() for tensor in given],
            [buffer.jax() for buffer in buffers],
            torchax.default_env().prng_key,
        )
        self.leave(given, buffers, *changes)
        argument_copies.write_back(self.copies)
        tensors = map(arrays.tensor, made)
        leaves = [
            next(tensors) if is_tensor else leaf
            for leaf, is_tensor in zip(self.outputs, self.is_tensor, strict=True)
        ]
        return tensor_objects.with_objects(pytree.tree_unflatten(leaves, self.shape))

    def _run(self, values: Any, buffers: Any, key: Any) -> Any:
        hooks = gradient_hooks.count
        with (
            active_programs.using(None),
            concrete_values.using(None),
            contextlib.redirect_stdout(captured_output.Refused(lambda: _NotPossibleError("it prints"))),
        ):
            found = self.run(values, buffers, key, (), is_traced=False)
        if self.drew_on_host or gradient_hooks.count > hooks:
            raise _NotPossibleError("it draws random numbers on the host, or puts hooks on gradients")
        return found

    def taken(self, result: Any, inputs: Any, arguments: Any) -> Any:
        """The arrays of the tensors in a result; dictionaries and lists among the arguments are copies."""
        leaves, tree = pytree.tree_flatten(arguments)
        if tree != self.tree or not array_groups.are_same(leaves, self.with_tensors(inputs)):
            raise _NotPossibleError("it changes a dictionary or list that it gets")
        return super().taken(result, inputs, arguments)
