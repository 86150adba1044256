"""`torch.optim.LBFGS` with compiled vector operations.

PyTorch loops over the pairs of vectors that it remembers in Python, with eight operations for each and a wait
for a number: an iteration of a tiny model with all of its hundred pairs takes 70 ms on a CPU host, and 2 ms
compiled.
The decisions of `LBFGS.step` and the line search are PyTorch's, and `state_dict()` has the same form.
"""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.optim import lbfgs
from torchax.tensor import Tensor

from ..adapters.torch_internals import DisableTorchFunction, strong_wolfe
from ..patches.declarations import TORCH, patch
from ..tensor import arrays

_plain_step = lbfgs.LBFGS.step

#: Pairs of vectors with less curvature are not remembered.
LEAST_CURVATURE = 1e-10
_VECTORS = ("d", "prev_flat_grad")
_LISTS = ("old_dirs", "old_stps", "ro")


@patch(
    "torch.optim:LBFGS.step",
    why="PyTorch loops over remembered vectors in Python, and waits for a number in each iteration.",
    upstream=TORCH + "optim/lbfgs.py",
)
@torch.no_grad()
def _step(optimizer: torch.optim.Optimizer, closure: Any) -> Any:
    """`LBFGS.step`."""
    parameters = optimizer.param_groups[0]["params"]
    if type(optimizer) is not lbfgs.LBFGS or not all(map(_is_plain, parameters)):
        return _plain_step(optimizer, closure)
    return _Descent(optimizer, torch.enable_grad()(closure)).run()


def _is_plain(p: Any) -> bool:
    is_there = type(p) is Tensor and not isinstance(p.jax(), jax.core.Tracer)
    return is_there and jnp.issubdtype(p.jax().dtype, jnp.floating)


class _Descent:
    """One call of `step`."""

    def __init__(self, optimizer: torch.optim.Optimizer, closure: Any) -> None:
        self.parameters, self.closure = optimizer.param_groups[0]["params"], closure
        self.group = optimizer.param_groups[0]
        self.rate = float(self.group["lr"])
        self.state = state = optimizer.state[self.parameters[0]]
        for name in ("func_evals", "n_iter"):
            state.setdefault(name, 0)
        self.direction, self.before = (_array(state.get(name)) for name in _VECTORS)
        self.changes, self.moves, self.inverses = (
            list(map(_array, state.get(name) or ())) for name in _LISTS
        )
        self.scale, self.length = _array(state.get("H_diag", 1.0)), _array(state.get("t"))

    def run(self) -> Any:
        """Descend, for as many iterations as the settings allow."""
        first = self.closure()
        self.loss, self.gradient = float(first), self._gradient()
        self.evaluated = 1
        self.state["func_evals"] += 1
        if self._is_flat():
            return first
        before = self.state.get("prev_loss")
        for left in reversed(range(self.group["max_iter"])):
            before = self.loss
            self.state["n_iter"] += 1
            if not self._advance(is_last=left == 0) or self._is_done(before, left):
                break
        self._keep(before)
        return first

    def _advance(self, *, is_last: bool) -> bool:
        """Find a direction and move along it; False if no direction leads down."""
        if self.state["n_iter"] == 1:
            self._forget()
            self.length = min(1.0, 1.0 / float(jnp.abs(self.gradient).sum())) * self.rate
        else:
            self._remember()
            self.direction = self._newton()
            self.length = self.rate
        self.before = self.gradient
        slope = _slope(self.gradient, self.direction)
        if slope > -self.group["tolerance_change"]:
            return False
        count = 0
        if self.group["line_search_fn"] is not None:
            count = self._search(slope)
        self._move(self.direction, self.length)
        if self.group["line_search_fn"] is None and not is_last:
            self.loss = float(self.closure())
            self.gradient, count = self._gradient(), 1
        self.evaluated += count
        self.state["func_evals"] += count
        return True

    def _forget(self) -> None:
        self.direction, self.scale = -self.gradient, 1.0
        self.changes, self.moves, self.inverses = [], [], []

    def _remember(self) -> None:
        """Remember how the gradient changed with the last move."""
        change, move, curvature, squared = _pair(self.gradient, self.before, self.direction, self.length)
        if curvature > LEAST_CURVATURE:
            for kept, new in (
                (self.changes, change),
                (self.moves, move),
                (self.inverses, 1.0 / curvature),
            ):
                kept.append(new)
                del kept[: -self.group["history_size"]]
            self.scale = curvature / squared

    def _newton(self) -> Any:
        """The direction from the remembered pairs of vectors."""
        count = len(self.changes)
        most = min(1 << max(0, count - 1).bit_length(), self.group["history_size"])
        nothing = jnp.zeros_like(self.gradient)
        pairs = [one + [nothing] * (most - count) for one in (self.changes, self.moves)]
        inverses = self.inverses + [nothing[0]] * (most - count)  # the padding has no effect
        return _direction(*pairs, inverses, self.gradient, self.scale)

    def _search(self, slope: Any) -> Any:
        """Find the length of the move along the direction; returns the number of evaluations."""
        if self.group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError("only 'strong_wolfe' is supported")
        start = [p.jax() for p in self.parameters]

        def evaluate(_start: Any, length: Any, direction: Any) -> Any:
            self._move(_array(direction), length)
            loss = float(self.closure())
            gradient = arrays.tensor(self._gradient())
            self._put(start)
            return loss, gradient

        self.loss, gradient, self.length, count = strong_wolfe(
            evaluate,
            None,
            self.length,
            arrays.tensor(self.direction),
            self.loss,
            arrays.tensor(self.gradient),
            arrays.tensor(slope),
            max_ls=self.group["max_eval"] - self.evaluated,
        )
        self.gradient, self.length = _array(gradient), _array(self.length)
        return count

    def _is_done(self, before: Any, left: Any) -> bool:
        return (
            not left
            or self.evaluated >= self.group["max_eval"]
            or self._is_flat()
            or _longest(self.direction, self.length) <= self.group["tolerance_change"]
            or abs(self.loss - before) < self.group["tolerance_change"]
        )

    def _is_flat(self) -> bool:
        return bool(_longest(self.gradient, 1.0) <= self.group["tolerance_grad"])

    def _gradient(self) -> Any:
        with DisableTorchFunction():
            gradients = [p.grad for p in self.parameters]
        values = [p.jax() for p in self.parameters]
        return _flat(
            [jnp.zeros_like(v) if g is None else _array(g) for v, g in zip(values, gradients, strict=True)]
        )

    def _move(self, direction: Any, length: Any) -> None:
        self._put(_moved([p.jax() for p in self.parameters], direction, _array(length)))

    def _put(self, values: Any) -> None:
        for p, value in zip(self.parameters, values, strict=False):
            arrays.put(p, value)

    def _keep(self, loss: Any) -> None:
        state = self.state
        state.update(
            {name: _tensor(v) for name, v in zip(_VECTORS, (self.direction, self.before), strict=True)}
        )
        kept = (self.changes, self.moves, self.inverses)
        state.update({name: list(map(_tensor, v)) for name, v in zip(_LISTS, kept, strict=True)})
        state.update(t=_tensor(self.length), H_diag=_tensor(self.scale), prev_loss=loss)
        if state["n_iter"] > 1:
            state.setdefault("al", [None] * self.group["history_size"])


def _array(value: Any) -> Any:
    return arrays.on_torchax(value).jax() if isinstance(value, torch.Tensor) else value


def _tensor(value: Any) -> Any:
    return arrays.tensor(value) if isinstance(value, jax.Array) else value


@jax.jit
def _flat(gradients: Any) -> Any:
    return jnp.concatenate([gradient.ravel() for gradient in gradients])


@jax.jit
def _pair(gradient: Any, before: Any, direction: Any, length: Any) -> Any:
    change, move = gradient - before, direction * length
    return change, move, jnp.vdot(change, move), jnp.vdot(change, change)


@jax.jit
def _direction(changes: Any, moves: Any, inverses: Any, gradient: Any, scale: Any) -> Any:
    pairs = jnp.stack(changes), jnp.stack(moves), jnp.stack(inverses)

    def back(rest: Any, pair: Any) -> Any:
        change, move, inverse = pair
        share = jnp.vdot(move, rest) * inverse
        return rest - share * change, share

    def forth(found: Any, pair: Any) -> Any:
        change, move, inverse, share = pair
        return found + (share - jnp.vdot(change, found) * inverse) * move, None

    rest, shares = jax.lax.scan(back, -gradient, pairs, reverse=True)
    return jax.lax.scan(forth, rest * scale, (*pairs, shares))[0]


_slope = jax.jit(jnp.vdot)


@jax.jit
def _moved(values: Any, direction: Any, length: Any) -> Any:
    ends = list(itertools.accumulate(value.size for value in values))
    parts = jnp.split(direction, ends[:-1])
    return [
        value + (part.reshape(value.shape) * length).astype(value.dtype)
        for value, part in zip(values, parts, strict=False)
    ]


@jax.jit
def _longest(vector: Any, factor: Any) -> Any:
    return jnp.abs(vector * factor).max()
