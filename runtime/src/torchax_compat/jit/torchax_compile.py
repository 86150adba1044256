"""Modules compiled by `torchax.compile`: buffers that `forward` writes keep their new values.

torchax passes the buffers to the compiled function, and drops what it writes to them.
"""

from __future__ import annotations

import functools
from typing import Any

import torch
from torchax import interop

from ..adapters.torch_internals import reparametrize_module
from ..patches.declarations import TORCHAX, patch
from ..tensor import arrays

_WHY = "torchax drops what a compiled module writes to its buffers, such as running statistics."
_UPSTREAM = TORCHAX + "interop.py"


def _called(self: Any, method: Any, params: Any, buffers: Any, *args: Any, **kwargs: Any) -> Any:
    """The result of a method of the module, and the buffers that it wrote."""
    given = {**params, **buffers}
    for name, others in self._extra_dumped_weights.items():
        given |= dict.fromkeys(others, given[name])
    before = {name: given[name].jax() for name in buffers}
    method = (
        getattr(self._model, method) if isinstance(method, str) else functools.partial(method, self._model)
    )
    with reparametrize_module(self._model, given):  # which puts what was assigned into `given`
        result = method(*args, **kwargs)
    return result, {name: given[name] for name, value in before.items() if given[name].jax() is not value}


def _compiled(self: Any, method: Any) -> Any:
    jitted = interop.jax_jit(
        functools.partial(_called, self, method), kwargs_for_jax_jit=self._extra_jit_args
    )

    def call(*args: Any, **kwargs: Any) -> Any:
        result, written = jitted(self.params, self.buffers, *args, **kwargs)
        with torch.no_grad():
            for name, buffer in written.items():
                arrays.write(self.buffers[name], buffer.jax())
        return result

    return call


@patch("torchax.interop:JittableModule.jittable_call", why=_WHY, upstream=_UPSTREAM)
def _jittable_call(self: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """The method `jittable_call`."""
    if name not in self._jitted:
        self._jitted[name] = _compiled(self, name)
    return self._jitted[name](*args, **kwargs)


@patch("torchax.interop:JittableModule.make_jitted", why=_WHY, upstream=_UPSTREAM)
def _make_jitted(self: Any, name: str) -> None:
    """The method `make_jitted`."""
    self._jitted[name] = _compiled(self, name)
