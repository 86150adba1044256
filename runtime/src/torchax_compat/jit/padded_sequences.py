"""Packed sequences whose lengths are an input of a traced function: all steps of all sequences.

Only torch's own recurrent layers and `pad_packed_sequence` support them.
If other code reads their elements, of which there would be fewer, the function cannot be traced.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import torch
from torch.nn.modules import rnn as layers
from torch.nn.utils import rnn as sequences
from torchax.tensor import Tensor

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch
from . import concrete_values

#: Functions of torch's file on packed sequences that do not read elements.
_KNOWING = {"pack_padded_sequence", "pad_packed_sequence", "_packed_sequence_init_args", "__new__"}


class Padded(Tensor):
    """The elements of a packed sequence, step by step, with those beyond the ends."""

    def with_elements(self, value: Any) -> Any:
        """Other elements of the same sequences; `value` has dimensions for steps and sequences."""
        return _made(value, self.lengths, self._env)

    def elements(self) -> Any:
        """An array with dimensions for steps and sequences."""
        return self.jax().reshape(self.times, -1, *self.shape[1:])

    def unpacked(self, batch_first: Any, value: Any, total_length: Any) -> Any:
        """The result of `pad_packed_sequence`, with `value` beyond the ends."""
        inside = jnp.arange(self.times)[:, None] < self.lengths
        x = self.elements()
        x = jnp.where(inside.reshape(*inside.shape, *[1] * (x.ndim - 2)), x, jnp.asarray(value, x.dtype))
        more = max(0, total_length - self.times)
        x = jnp.pad(x, [(0, more), *[(0, 0)] * (x.ndim - 1)], constant_values=value)
        return x.swapaxes(0, 1) if batch_first else x


def padded(x: Any, lengths: Any, batch_first: Any) -> Any:
    """The elements, and the number of sequences for each step, which is the same for all."""
    value = x.jax().swapaxes(0, 1) if batch_first else x.jax()
    with no_dispatch(), DisableTorchFunction():
        sizes = torch.full((value.shape[0],), value.shape[1])
    sizes.times = value.shape[0]
    return _made(value, lengths, x._env), sizes


def _made(value: Any, lengths: Any, environment: Any) -> Any:
    made = Padded(value.reshape(-1, *value.shape[2:]), environment)
    made.lengths, made.times = lengths, value.shape[0]
    return made


def check_caller(args: Any, caller: Any) -> None:
    """Raise `UnknownAnswerError` if code outside of torch's files for such sequences reads elements."""
    if not any(type(one) is Padded for one in args):
        firsts = args[0] if args and isinstance(args[0], (list, tuple)) else ()
        if not any(type(one) is Padded for one in firsts):
            return
    code = caller.f_code
    if code.co_filename == layers.__file__:
        return
    if code.co_filename != sequences.__file__ or code.co_name not in _KNOWING:
        raise concrete_values.UnknownAnswerError
