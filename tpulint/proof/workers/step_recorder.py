"""Records the calls of compiled functions in each step of a program.

By default, the functions are not executed: each call returns zeros.
A program then runs with the sizes that it has on a TPU, and the functions of a step can be compiled for a TPU
on a host without one.
Computations outside of compiled functions are not recorded.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a compiled function.

    Args:
        name: the name of the function.
        program: its closed jaxpr.
        donated: the indices of the donated inputs.
        kept: the bytes of the live arrays that are not inputs of the call.
        input_shardings: the sharding of each input; None for an input that is not a JAX array.
        output_shardings: the sharding of each output.
    """

    name: str
    program: Any
    donated: tuple[int, ...]
    kept: int
    input_shardings: tuple[Any, ...]
    output_shardings: tuple[Any, ...]

    @property
    def function(self) -> tuple[int, tuple[int, ...]]:
        """Identifies what is compiled."""
        return id(self.program), self.donated


class Recorder:
    """Records calls of compiled functions, in a list for each step of the program.

    Args:
        jit: the original `jax.jit`.
        executes: whether calls are executed; otherwise they return zeros.
    """

    def __init__(self, jit: Callable[..., Any], *, executes: bool = False) -> None:
        self.steps: list[list[Call]] = [[]]
        self._jit = jit
        self._executes = executes

    def jit(self, function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
        """A replacement for `jax.jit` that records the calls of the compiled function."""
        import jax

        compiled = self._jit(function, **options)

        @functools.wraps(function)
        def recorded(*args: Any, **kwargs: Any) -> Any:
            leaves = jax.tree.leaves((args, kwargs))
            if any(isinstance(leaf, jax.core.Tracer) for leaf in leaves):
                return compiled(*args, **kwargs)  # a part of another function
            traced = compiled.trace(*args, **kwargs)
            is_donated = [info.donated for info in jax.tree.leaves(traced.args_info)]
            donated = tuple(index for index, is_set in enumerate(is_donated) if is_set)
            arrays = {id(leaf) for leaf in leaves}
            kept = sum(array.nbytes for array in jax.live_arrays() if id(array) not in arrays)
            input_shardings = tuple(getattr(leaf, "sharding", None) for leaf in leaves)
            if self._executes:
                results = compiled(*args, **kwargs)
            else:
                for index in donated:
                    leaves[index].delete()
                results = jax.tree.map(_zeros, traced.out_info)
            output_shardings = tuple(leaf.sharding for leaf in jax.tree.leaves(results))
            name = getattr(function, "__name__", type(function).__name__)
            call = Call(name, traced.jaxpr, donated, kept, input_shardings, output_shardings)
            self.steps[-1].append(call)
            return results

        recorded.trace, recorded.lower = compiled.trace, compiled.lower  # type: ignore[attr-defined]
        return recorded

    def end_step(self) -> None:
        """End a step: later calls belong to the next one."""
        self.steps.append([])


#: The memory that all zeros share: nothing is written to it.
_MEMORY: dict[int, Any] = {}


def _zeros(info: Any) -> Any:
    """An array of zeros that takes no memory of its own, or a random key."""
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


def lowered(call: Call, jit: Callable[..., Any], shardings: Sequence[Any], **options: Any) -> Any:
    """Lower a recorded call for other devices.

    Args:
        call: the call.
        jit: the original `jax.jit`.
        shardings: the sharding of each input.
        options: further options of `jax.jit`.
    """
    import jax
    import jax.extend.core

    inputs = [
        jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=sharding, weak_type=aval.weak_type)
        for aval, sharding in zip(call.program.in_avals, shardings, strict=True)
    ]
    function = jit(jax.extend.core.jaxpr_as_fun(call.program), donate_argnums=call.donated, **options)
    return function.lower(*inputs)
