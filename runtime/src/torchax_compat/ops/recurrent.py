"""Recurrent layers (LSTM, GRU and RNN) as loops of JAX.

torchax unrolls the steps of a sequence: two small LSTM layers take 10 s to compile on a CPU host for 35
steps, and more than two minutes for 200 steps.
With `jax.lax.scan` they take one second for any length, and run faster.
Elements beyond the end of a packed sequence are computed, and dropped.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torchax.ops import mappings
from torchax.tensor import Tensor

from ..jit import padded_sequences
from ..patches.declarations import operator
from . import packed_sequences


def _lstm_step(state: Any, gates: Any, weight: Any, bias: Any, projection: Any) -> Any:
    hidden, cell = state
    gates = gates + hidden @ weight.T + bias
    enter, forget, candidate, leave = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
    hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
    if projection is not None:
        hidden = hidden @ projection.T
    return hidden, cell


def _gru_step(state: Any, gates: Any, weight: Any, bias: Any, _projection: Any) -> Any:
    (hidden,) = state
    of_input, of_hidden = (jnp.split(one, 3, axis=-1) for one in (gates, hidden @ weight.T + bias))
    reset = jax.nn.sigmoid(of_input[0] + of_hidden[0])
    update = jax.nn.sigmoid(of_input[1] + of_hidden[1])
    candidate = jnp.tanh(of_input[2] + reset * of_hidden[2])
    return ((1 - update) * candidate + update * hidden,)


def _simple_step(activation: Any) -> Any:
    return lambda state, gates, weight, bias, _: (activation(gates + state[0] @ weight.T + bias),)


def _layers(step: Any) -> Any:
    """The implementation of a function such as `torch.lstm`, with `step` for each item of a sequence."""

    def run(x: Any, *given_args: Any, env: Any) -> Any:
        has_sizes = isinstance(given_args[2], (list, tuple))
        sizes, *args = given_args if has_sizes else (None, *given_args)
        start, weights, has_biases, count, dropout, train, bidirectional, *batch_first = args
        whole = x if type(x) is padded_sequences.Padded else None
        given = x, list(start) if isinstance(start, (list, tuple)) else [start], list(weights)
        given = jax.tree.map(_array, given)
        kind = env.param.autocast_dtype
        kind = jnp.result_type(*jax.tree.leaves(given)) if kind is None else mappings.t2j_dtype(kind)
        lengths = places = shape = None
        if whole is not None:
            given, lengths = (whole.elements(), *given[1:]), whole.lengths
        elif sizes is not None:
            sizes, lengths = packed_sequences.lengths_of(sizes)
            places, shape = packed_sequences.positions_of(lengths), (len(sizes), len(lengths))
        dropout = dropout if train and count > 1 else 0.0
        directions = 2 if bidirectional else 1
        noise = _noise(env, given, dropout, count - 1, directions, jnp.dtype(kind), any(batch_first))
        layout = count, directions, bool(has_biases), any(batch_first), shape
        output, *ends = _computed(step, layout, jnp.dtype(kind), *given, noise, places, lengths)
        output = Tensor(output, env) if whole is None else whole.with_elements(output)
        return output, *(Tensor(array, env) for array in ends)

    return run


def _array(tensor: torch.Tensor) -> Any:
    if not isinstance(tensor, Tensor):
        raise AssertionError(
            "a recurrent layer and its inputs must be on the same device: move both to 'jax'"
        )
    return tensor.jax()


def _noise(
    env: Any, given: Any, dropout: Any, count: int, directions: Any, kind: Any, batch_first: Any
) -> Any:
    """The dropout factors of the outputs of each layer but the last; empty without dropout."""
    if not dropout:
        return ()
    x, _, weights = given
    first = (x.shape[1], x.shape[0], *x.shape[2:-1]) if batch_first else x.shape[:-1]
    like = Tensor(jnp.zeros((*first, directions * weights[1].shape[1]), kind), env)
    return [torch.nn.functional.dropout(torch.ones_like(like), dropout).jax() for _ in range(count)]


@functools.partial(jax.jit, static_argnums=(0, 1, 2))
def _computed(
    step: Any, layout: Any, kind: Any, x: Any, start: Any, weights: Any, noise: Any, places: Any, lengths: Any
) -> Any:
    """The outputs of the last layer, and the states of all layers at the ends of the sequences."""
    count, directions, has_biases, batch_first, shape = layout
    x, start, weights = jax.tree.map(lambda array: array.astype(kind), (x, start, weights))
    if places is not None:
        x = jnp.zeros((*shape, x.shape[1]), kind).at[places].set(x)
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    each = len(weights) // (count * directions)
    ends = []
    for layer in range(count):
        if layer and len(noise):
            x *= (
                noise[layer - 1]
                if places is None
                else jnp.ones(x.shape, kind).at[places].set(noise[layer - 1])
            )
        outputs = []
        for number in range(layer * directions, (layer + 1) * directions):
            own = weights[number * each : (number + 1) * each]
            biases = own[2:4] if has_biases else (jnp.zeros((), kind),) * 2
            projection = own[-1] if each in (3, 5) else None
            at_each = functools.partial(_at_each, step, own[1], biases[1], projection, lengths)
            given = jnp.arange(len(x)), x @ own[0].T + biases[0]
            first = tuple(part[number] for part in start)
            last, output = jax.lax.scan(at_each, first, given, reverse=number % directions == 1)
            outputs.append(output)
            ends.append(last)
        x = jnp.concatenate(outputs, axis=-1)
    x = jnp.swapaxes(x, 0, 1) if batch_first else x
    return (x if places is None else x[places]), *(jnp.stack(parts) for parts in zip(*ends, strict=True))


def _at_each(step: Any, weight: Any, bias: Any, projection: Any, lengths: Any, state: Any, given: Any) -> Any:
    time, gates = given
    new = step(state, gates, weight, bias, projection)
    if lengths is not None:
        inside = (time < lengths)[:, None]
        new = tuple(jnp.where(inside, one, old) for one, old in zip(new, state, strict=True))
    return new, new[0]


for _function, _step in (
    (torch.lstm, _lstm_step),
    (torch.gru, _gru_step),
    (torch.rnn_tanh, _simple_step(jnp.tanh)),
    (torch.rnn_relu, _simple_step(jax.nn.relu)),
):
    operator(
        _layers(_step),
        _function,
        why="torchax unrolls the steps of a sequence, which takes minutes to compile.",
        is_jax_function=False,
        needs_env=True,
    )
