"""Packed sequences: `pack_padded_sequence` and `pad_packed_sequence`.

Their lengths are Python integers: in a compiled function, they come from a list, or from a CPU tensor that is
not an input.
If the lengths are an input, sequences stay padded while a function is traced (`jit/padded_sequences.py`), so
that it is compiled once for all lengths.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import (
    DisableTorchFunction,
    no_dispatch,
    pack_padded_sequence,
    pad_packed_sequence,
)
from ..jit import call_by_call, concrete_values, deferred_scalars, padded_sequences
from ..patches.declarations import operator


def _packed(x: Any, lengths: Any, batch_first: Any) -> Any:
    times = x.shape[1 if batch_first else 0]
    if concrete_values.is_active() and isinstance(lengths, (Tensor, View)):
        known = lengths.jax()
        in_order = (known.min() > 0) & (known[:-1] >= known[1:]).all()
        if bool(Tensor(in_order, x._env)) and concrete_values.is_replaying():
            return padded_sequences.padded(x, known, batch_first)
    lengths = _numbers(lengths)
    if lengths.size != x.shape[0 if batch_first else 1]:
        raise RuntimeError(
            "`lengths` must have one element for each sequence: expected "
            f"{x.shape[0 if batch_first else 1]}, got {lengths.size}"
        )
    if lengths.min() <= 0 or (np.diff(lengths) > 0).any():
        raise RuntimeError("`lengths` must be positive, and in descending order if `enforce_sorted` is True")
    steps, rows = positions_of(lengths)
    data = _at(x.jax(), *((rows, steps) if batch_first else (steps, rows)))
    sizes = _on_host((lengths[None] > np.arange(lengths.max())[:, None]).sum(axis=1))
    sizes.times = times if concrete_values.is_active() else None
    return Tensor(data, x._env), sizes


def _unpacked(data: Any, batch_sizes: Any, batch_first: Any, padding_value: Any, total_length: Any) -> Any:
    times = getattr(batch_sizes, "times", None)
    if type(data) is padded_sequences.Padded:
        longest = data.lengths.max()
    else:
        sizes, lengths = lengths_of(batch_sizes)
        longest = jnp.asarray(len(sizes))
    if times is not None and concrete_values.is_active() and total_length < times:
        is_whole = bool(Tensor(longest == times, data._env))
        if type(data) is padded_sequences.Padded and not is_whole:
            raise deferred_scalars.ValueNeededError(
                "the longest sequence of the batch is shorter than the padded input"
            )
    if type(data) is padded_sequences.Padded:
        made = data.unpacked(batch_first, padding_value, total_length)
        return Tensor(made, data._env), call_by_call.OnHost(data.lengths, data._env)
    if 0 < total_length < len(sizes):
        raise RuntimeError(f"`total_length` must be at least {len(sizes)}, got {total_length}")
    steps, rows = positions_of(lengths)
    shape = max(len(sizes), total_length), int(sizes[0])
    made = _spread(data.jax(), steps, rows, shape, padding_value, batch_first)
    return Tensor(made, data._env), _on_host(lengths)


_WHY = "torchax lacks packed sequences."
operator(_packed, pack_padded_sequence, why=_WHY, is_jax_function=False)
operator(_unpacked, pad_packed_sequence, why=_WHY, is_jax_function=False)


@jax.jit
def _at(x: Any, *places: Any) -> Any:
    return x[places]


@functools.partial(jax.jit, static_argnums=(3, 5))
def _spread(data: Any, steps: Any, rows: Any, shape: Any, value: Any, batch_first: Any) -> Any:
    made = jnp.full((*shape, *data.shape[1:]), value, data.dtype).at[steps, rows].set(data)
    return made.swapaxes(0, 1) if batch_first else made


def lengths_of(batch_sizes: Any) -> Any:
    """The number of sequences at each step, and the length of each sequence."""
    sizes = _numbers(batch_sizes)
    return sizes, (sizes[:, None] > np.arange(sizes[0])).sum(axis=0)


def positions_of(lengths: Any) -> Any:
    """The step and the sequence of each element, in the order of a packed sequence."""
    return np.nonzero(np.arange(lengths.max())[:, None] < lengths)


def _numbers(tensor: torch.Tensor) -> Any:
    """The values of an integer tensor; an input of a compiled function does not have them."""
    return np.asarray(tensor.jax() if isinstance(tensor, (Tensor, View)) else tensor.detach())


def _on_host(numbers: Any) -> Any:
    with no_dispatch(), DisableTorchFunction():
        return torch.from_numpy(numbers.astype(np.int64))
