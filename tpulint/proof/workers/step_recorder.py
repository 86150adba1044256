"""Calls of compiled functions by the step of a program, in which nothing that `jax.jit` compiles is computed.

Each call is recorded, and gives zeros.
So a program runs with the sizes that it would have on a TPU, and the functions of a step can be compiled for
a TPU that is not there.
What a program computes outside of compiled functions is not counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a compiled function: what JAX traced, which inputs are donated, and bytes kept elsewhere."""

    name: str
    program: Any
    donated: tuple[int, ...]
    kept: int

    @property
    def function(self) -> tuple[int, tuple[int, ...]]:
        """Identifies what is compiled."""
        return id(self.program), self.donated


class Recorder:
    """Records calls of compiled functions, by the step of the program."""

    def __init__(self, jit: Callable[..., Any]) -> None:
        self.steps: list[list[Call]] = [[]]
        self._jit = jit

    def jit(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """Use in place of `jax.jit`."""
        import jax

        compiled = self._jit(function, **options)

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            leaves = jax.tree.leaves((args, kwargs))
            if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                return compiled(*args, **kwargs)  # a part of another function
            traced = compiled.trace(*args, **kwargs)
            donated = [info.donated for info in jax.tree.leaves(traced.args_info)]
            numbers = tuple(number for number, is_donated in enumerate(donated) if is_donated)
            arrays = {id(leaf) for leaf in leaves}
            kept = sum(array.nbytes for array in jax.live_arrays() if id(array) not in arrays)
            name = getattr(function, "__name__", type(function).__name__)
            self.steps[-1].append(Call(name, traced.jaxpr, numbers, kept))
            for number in numbers:
                leaves[number].delete()
            return jax.tree.map(_zeros, traced.out_info)

        recorded.trace, recorded.lower = compiled.trace, compiled.lower  # type: ignore[attr-defined]
        return recorded

    def end_step(self) -> None:
        """Calls from now on belong to the next step."""
        self.steps.append([])


#: All zeros share this memory, since nothing is written to it.
_MEMORY: dict[int, Any] = {}


def _zeros(info: Any) -> Any:
    """An array of zeros, which takes no memory, or a random key."""
    import jax
    import numpy as np

    if jax.dtypes.issubdtype(info.dtype, jax.dtypes.prng_key):
        data = jax.eval_shape(jax.random.key_data, jax.ShapeDtypeStruct(info.shape, info.dtype))
        return jax.random.wrap_key_data(_zeros(data))
    size = int(np.prod(info.shape)) * info.dtype.itemsize
    memory = _MEMORY.get(0)
    if memory is None or memory.size < size:
        memory = np.zeros(max(size, 1 << 32) + 64, np.uint8)
        memory = _MEMORY[0] = memory[-memory.ctypes.data % 64 :]  # JAX copies what is not aligned
    return jax.device_put(memory[:size].view(info.dtype).reshape(info.shape))


def lowered(call: Call, place: Any, jit: Callable[..., Any]) -> Any:
    """A recorded call, lowered for a sharding of a TPU by the `jax.jit` of before."""
    import jax
    import jax.extend.core

    inputs = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=place, weak_type=aval.weak_type)
        for aval in call.program.in_avals
    ]
    function = jit(jax.extend.core.jaxpr_as_fun(call.program), donate_argnums=call.donated)
    return function.lower(*inputs)
