"""Gradients of complex parameters, and optimizer steps on them.

JAX's gradients with respect to complex numbers are the complex conjugates of PyTorch's.
PyTorch's optimizers treat a complex parameter as pairs of real numbers, and write to these through a view.
On torchax this view is a copy, so the parameter would not change.
So the `step` of optimizers converts complex torchax parameters to pairs and back.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import jax
import torch
from torchax.tensor import Tensor

from ..patches.declarations import TORCH, patch, setup
from ..tensor import arrays


def conjugated(values: Any) -> Any:
    """Gradients of JAX in PyTorch's convention, or the other way round."""
    return [value if value is None or not _is_complex(value) else jax.numpy.conj(value) for value in values]


def _is_complex(value: Any) -> Any:
    return jax.numpy.issubdtype(value.dtype, jax.numpy.complexfloating)


def _pairs(tensor: torch.Tensor) -> Any:
    value = tensor.jax()
    return arrays.tensor(jax.numpy.stack([value.real, value.imag], axis=-1))


def _as_before(value: Any, like: Any) -> Any:
    """Complex numbers from pairs of real numbers; other values unchanged."""
    if not isinstance(value, Tensor) or value.shape != (*like.shape, 2):
        return value
    pairs = value.jax()
    return arrays.tensor(jax.lax.complex(pairs[..., 0], pairs[..., 1]))


def _by_pairs(step: Any) -> Any:
    """A `step` that gets complex torchax parameters as pairs of real numbers."""

    @functools.wraps(step)
    def stepped(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> Any:
        places = [
            (group["params"], i)
            for group in optimizer.param_groups
            for i, p in enumerate(group["params"])
            if isinstance(p, Tensor) and _is_complex(p.jax()) and p.grad is not None
        ]
        if not places or args or kwargs:  # a closure computes with the parameters themselves
            return step(optimizer, *args, **kwargs)
        given = [held[i] for held, i in places]
        for p, (held, i) in zip(given, places, strict=True):
            held[i] = pairs = _pairs(p)
            pairs.grad = _pairs(p.grad)
            if p in optimizer.state:
                optimizer.state[pairs] = {
                    name: _pairs(value) if isinstance(value, Tensor) and _is_complex(value.jax()) else value
                    for name, value in optimizer.state[p].items()
                }
        try:
            result = step(optimizer)
        finally:
            for p, (held, i) in zip(given, places, strict=True):
                pairs, held[i] = held[i], p
                arrays.put(p, _as_before(pairs, p).jax())
                if pairs in optimizer.state:
                    kept = optimizer.state.pop(pairs)
                    optimizer.state[p] = {name: _as_before(value, p) for name, value in kept.items()}
        return result

    return stepped


_hook = torch.optim.Optimizer.profile_hook_step
_hooked: weakref.WeakSet[Any] = weakref.WeakSet()  # the `step`s with hooks that handle complex parameters


def _with_hooks(step: Any) -> Any:
    """`Optimizer.profile_hook_step`, which PyTorch applies to the `step` of each class of optimizers."""
    hooked = _hook(_by_pairs(step))
    _hooked.add(hooked)
    return hooked


patch(
    "torch.optim:Optimizer.profile_hook_step",
    why="PyTorch updates a complex parameter through a view as real numbers, which is a copy on torchax.",
    upstream=TORCH + "optim/optimizer.py",
)(staticmethod(_with_hooks))


@setup(
    "step of optimizer classes",
    why="PyTorch adds hooks to the `step` of a class only when its first optimizer is created.",
)
def _hook_classes() -> Any:
    for kind in _optimizer_classes():
        step = vars(kind).get("step")
        if getattr(step, "hooked", False):
            kind.step = _with_hooks(step.__wrapped__)
            kind.step.hooked = True
    return _unhook_classes


def _unhook_classes() -> None:
    for kind in _optimizer_classes():
        step = vars(kind).get("step")
        if step is not None and step in _hooked:
            kind.step = _hook(step.__wrapped__.__wrapped__)
            kind.step.hooked = True
    _hooked.clear()


def _optimizer_classes() -> Any:
    waiting, found = [torch.optim.Optimizer], []
    while waiting:
        found.append(waiting.pop())
        waiting += found[-1].__subclasses__()
    return found
