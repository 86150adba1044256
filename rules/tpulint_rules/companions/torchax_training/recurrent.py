"""Recurrent layers as loops of JAX; importing this file brings that in.

torchax writes out each step of a sequence: two LSTM layers over 35 steps take 28 s to compile on a CPU host,
and over 200 steps more than two minutes.
As `jax.lax.scan` they take one second, whatever the length, and run faster.
Packed sequences go torchax's own way.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import torch
import torchax
from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # which registers functions
from torchax.tensor import OperatorNotFound


def _lstm_step(state, gates, weight, bias, projection):
    hidden, cell = state
    gates = gates + hidden @ weight.T + bias
    enter, forget, candidate, leave = jnp.split(gates, 4, axis=-1)
    cell = jax.nn.sigmoid(forget) * cell + jax.nn.sigmoid(enter) * jnp.tanh(candidate)
    hidden = jax.nn.sigmoid(leave) * jnp.tanh(cell)
    if projection is not None:
        hidden = hidden @ projection.T
    return hidden, cell


def _gru_step(state, gates, weight, bias, _projection):
    (hidden,) = state
    of_input, of_hidden = (jnp.split(one, 3, axis=-1) for one in (gates, hidden @ weight.T + bias))
    reset = jax.nn.sigmoid(of_input[0] + of_hidden[0])
    update = jax.nn.sigmoid(of_input[1] + of_hidden[1])
    candidate = jnp.tanh(of_input[2] + reset * of_hidden[2])
    return ((1 - update) * candidate + update * hidden,)


def _simple_step(activation):
    return lambda state, gates, weight, bias, _: (activation(gates + state[0] @ weight.T + bias),)


def _layers(step):
    """The function of torch, such as `torch.lstm`, whose layers do such a step for each item of a sequence."""

    def run(x, start, weights, has_biases, count, dropout, train, bidirectional, batch_first=None, *, env):
        if batch_first is None:  # the arguments are those of a packed sequence, for another implementation
            raise OperatorNotFound("packed sequences")
        start = tuple(start) if isinstance(start, (tuple, list)) else (start,)
        kind = env.param.autocast_dtype
        kind = jnp.result_type(x, *weights) if kind is None else torchax.ops.mappings.t2j_dtype(kind)
        x, start, weights = jax.tree.map(lambda array: array.astype(kind), (x, start, list(weights)))
        x = jnp.swapaxes(x, 0, 1) if batch_first else x
        directions = 2 if bidirectional else 1
        each = len(weights) // (count * directions)
        ends = []
        for layer in range(count):
            if layer and train and dropout:
                kept = jax.random.bernoulli(env.get_and_rotate_prng_key(), 1 - dropout, x.shape)
                x = jnp.where(kept, x / (1 - dropout), 0).astype(kind) if dropout < 1 else jnp.zeros_like(x)
            outputs = []
            for direction in range(directions):
                number = layer * directions + direction
                own = weights[number * each : (number + 1) * each]
                biases = own[2:4] if has_biases else (jnp.zeros((), kind),) * 2
                projection = own[-1] if each in (3, 5) else None
                gates = x @ own[0].T + biases[0]

                def at_each(state, gates, own=own, bias=biases[1], projection=projection):
                    state = step(state, gates, own[1], bias, projection)
                    return state, state[0]

                first = tuple(part[number] for part in start)
                last, output = jax.lax.scan(at_each, first, gates, reverse=bool(direction))
                outputs.append(output)
                ends.append(last)
            x = jnp.concatenate(outputs, axis=-1)
        x = jnp.swapaxes(x, 0, 1) if batch_first else x
        return x, *(jnp.stack(parts) for parts in zip(*ends))

    return run


for _function, _step in (
    (torch.lstm, _lstm_step),
    (torch.gru, _gru_step),
    (torch.rnn_tanh, _simple_step(jnp.tanh)),
    (torch.rnn_relu, _simple_step(jax.nn.relu)),
):
    _made = ops_registry.Operator(
        _function,
        _layers(_step),
        is_jax_function=True,
        is_user_defined=False,
        needs_env=True,
        is_view_op=False,
    )
    ops_registry.all_torch_functions[_function] = _made
    if torchax._env is not None:
        torchax._env._ops[_function] = _made
