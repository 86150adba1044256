"""`p.requires_grad = False` in a decorated function: later computations do not give `p` a gradient.

JAX differentiates with respect to the values of all parameters at the start of the function.
A frozen parameter is detached from that value, until the function enables its gradient again.
The last setting stays when the function ends.
If the function enables the gradient of a parameter that was frozen when it began, it is called once more, and
JAX then differentiates with respect to that parameter, too.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import jax
import torch

from ..adapters.torch_internals import DisableTorchFunction
from ..tensor import arrays
from . import no_grad

_SETS = torch.Tensor.requires_grad.__set__

#: Instead of True: the gradient of a parameter is wanted once the function has enabled it.
LATER = "later"


class UnfrozenError(Exception):
    """The function enables the gradient of a parameter that was frozen when it began."""

    def __init__(self, parameter: Any) -> None:
        super().__init__("`requires_grad` of a frozen parameter is enabled")
        self.parameter = parameter


def wants_gradients(tensors: Any, thawed: Any) -> list[Any]:
    """For each tensor, whether its gradient is wanted; `thawed` are the `id`s of thawed parameters."""
    with DisableTorchFunction():
        if not torch.is_grad_enabled():
            return [False] * len(tensors)
        return [one.requires_grad or (LATER if id(one) in thawed else False) for one in tensors]


@contextlib.contextmanager
def linked(tensors: Any, with_gradient: Any) -> Iterator[Any]:
    """Let the autograd graph include tensors whose gradients are wanted later."""
    later = [one for one, wants in zip(tensors, with_gradient, strict=False) if wants == LATER]
    _set((one, True) for one in later)
    try:
        yield
    except BaseException:
        _set((one, False) for one in later)
        raise


def sets_requires_grad(func: Any) -> Any:
    """Whether a torch function sets `requires_grad`."""
    return func.__name__ == "requires_grad_" or func == _SETS


class Frozen:
    """The `requires_grad` of parameters while a function runs; `learns`: whether gradients are enabled."""

    def __init__(self, parameters: Any, with_gradient: Any, *, learns: Any) -> None:
        self._parameters, self._with_gradient, self._learns = parameters, with_gradient, learns
        self._learned = {id(one): bool(wants) for one, wants in zip(parameters, with_gradient, strict=False)}
        self._apart: dict[int, Any] = {}  # by `id`, the array of a frozen parameter, and its detached copy
        self._left: list[Any] = []

    @contextlib.contextmanager
    def running(self) -> Iterator[Any]:
        """Context in which the function runs on arrays that JAX traces."""
        with DisableTorchFunction():
            before = [one.requires_grad for one in self._parameters]
        later = [
            one for one, wants in zip(self._parameters, self._with_gradient, strict=False) if wants == LATER
        ]
        _set((one, False) for one in later)
        for one in later:
            self._freeze(one)
        try:
            yield
        except BaseException:
            _set(zip(self._parameters, before, strict=True))
            raise
        with DisableTorchFunction():
            now = [one.requires_grad for one in self._parameters]
        self._left = [
            (one, wants)
            for one, wants, was in zip(self._parameters, now, before, strict=True)
            if wants != was
        ]

    @property
    def left(self) -> list[Any]:
        """The settings that stay when the function has run."""
        return self._left

    def set(self, tensor: torch.Tensor, requires_grad: bool = True) -> None:
        """Called before the function sets `requires_grad`."""
        if id(tensor) not in self._learned:
            return
        if not requires_grad:
            if self._learned[id(tensor)]:
                self._freeze(tensor)
        elif id(tensor) in self._apart:
            live, apart = self._apart.pop(id(tensor))
            now = tensor.jax()
            arrays.put(tensor, live if now is apart else no_grad.hidden_write(live, now))
        elif self._learns and not self._learned[id(tensor)]:
            raise UnfrozenError(tensor)

    def _freeze(self, tensor: torch.Tensor) -> None:
        live = tensor.jax()
        if id(tensor) not in self._apart and jax.numpy.issubdtype(live.dtype, jax.numpy.inexact):
            arrays.put(tensor, jax.lax.stop_gradient(live))
            self._apart[id(tensor)] = live, tensor.jax()

    def leave(self) -> None:
        """Apply the last settings of the function."""
        _set(self._left)


def _set(each: Any) -> None:
    with DisableTorchFunction():
        for tensor, wants in each:
            tensor.requires_grad_(wants)
