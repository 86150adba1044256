"""`p.requires_grad = False` within a marked function: no gradient comes to `p` from what computes with it then.

The gradients of all parameters are taken with regard to what they are when the function begins: one that is
frozen stands apart from that, until it is thawed, and what was set last is left when the function ends.
Where one is thawed that was frozen when the function began, the function is called once more, and JAX then
differentiates with respect to that one, too.
"""

from __future__ import annotations

import contextlib

import jax
import torch

from .. import arrays
from . import no_grad

_SETS = torch.Tensor.requires_grad.__set__

#: In place of whether a parameter's gradient is wanted: it is, once the function has asked for it.
LATER = "later"


class Thawed(Exception):
    """Gradients are wanted of a parameter that was frozen when the function began."""

    def __init__(self, parameter):
        super().__init__("a parameter is thawed")
        self.parameter = parameter


def wants_gradients(tensors, thawed):
    """For each tensor whether its gradient is wanted; `thawed` are the `id`s of those that were."""
    with torch._C.DisableTorchFunction():
        if not torch.is_grad_enabled():
            return [False] * len(tensors)
        return [one.requires_grad or (LATER if id(one) in thawed else False) for one in tensors]


@contextlib.contextmanager
def linked(tensors, with_gradient):
    """Let torch's graph hold tensors of which gradients are wanted later."""
    later = [one for one, wants in zip(tensors, with_gradient) if wants == LATER]
    _set((one, True) for one in later)
    try:
        yield
    except BaseException:
        _set((one, False) for one in later)
        raise


def sets(func):
    """Whether a function of torch sets what is wanted of a tensor."""
    return func.__name__ == "requires_grad_" or func == _SETS


class Frozen:
    """What a function does to some parameters while it runs; `learns` says whether gradients are enabled."""

    def __init__(self, parameters, with_gradient, *, learns):
        self._parameters, self._with_gradient, self._learns = parameters, with_gradient, learns
        self._learned = {id(one): bool(wants) for one, wants in zip(parameters, with_gradient)}
        self._apart = {}  # by its `id`, what a frozen parameter was, and what stands for it
        self._left = []

    @contextlib.contextmanager
    def running(self):
        """While the function runs with what JAX traces."""
        with torch._C.DisableTorchFunction():
            before = [one.requires_grad for one in self._parameters]
        later = [one for one, wants in zip(self._parameters, self._with_gradient) if wants == LATER]
        _set((one, False) for one in later)
        for one in later:
            self._freeze(one)
        try:
            yield
        except BaseException:
            _set(zip(self._parameters, before))
            raise
        with torch._C.DisableTorchFunction():
            now = [one.requires_grad for one in self._parameters]
        self._left = [(one, wants) for one, wants, was in zip(self._parameters, now, before) if wants != was]

    def set(self, tensor, requires_grad=True):
        """Called ahead of what sets it, by the function."""
        if id(tensor) not in self._learned:
            return
        if not requires_grad:
            if self._learned[id(tensor)]:
                self._freeze(tensor)
        elif id(tensor) in self._apart:
            live, apart = self._apart.pop(id(tensor))
            now = tensor.jax()
            arrays.put(tensor, live if now is apart else no_grad.unseen(live, now))
        elif self._learns and not self._learned[id(tensor)]:
            raise Thawed(tensor)

    def _freeze(self, tensor):
        live = tensor.jax()
        if id(tensor) not in self._apart and jax.numpy.issubdtype(live.dtype, jax.numpy.inexact):
            arrays.put(tensor, jax.lax.stop_gradient(live))
            self._apart[id(tensor)] = live, tensor.jax()

    def leave(self):
        """Set what the function set last."""
        _set(self._left)


def _set(each):
    with torch._C.DisableTorchFunction():
        for tensor, wants in each:
            tensor.requires_grad_(wants)
