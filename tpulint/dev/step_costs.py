"""What the TPU's compiler says about one training step of a program; no TPU is needed.

`python -m tpulint.dev.step_costs RECORD SCRIPT [argument ...] -- TOPOLOGY ...` runs a training script of
`benchmarks/accelerator/`, and writes the costs of its last step to RECORD, as JSON.
Nothing that `jax.jit` compiles is computed: each call is recorded, and gives zeros.
So a program runs with the sizes that it would have on a TPU, and the functions of its last step are then
compiled for each topology, such as `v5e:2x4`, on one device.
What a program computes outside of compiled functions is not counted.
"""

from __future__ import annotations

import builtins
import functools
import json
import re
import runpy
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
#: From this number on, the compiler has no estimate.
_NO_ESTIMATE = 1 << 62
#: What programs print after each step, as all of `benchmarks/accelerator/` do.
_END_OF_STEP = "step "


@dataclass(frozen=True, slots=True)
class Costs:
    """The costs of a step: sums over the compiled functions that it calls, except for the memory."""

    functions: int
    """How many calls of compiled functions a step has."""
    memory: int
    """The most bytes at one time: the function that runs, and the arrays that the program keeps meanwhile."""
    bytes_accessed: float
    flops: float
    optimal_seconds: float
    """The compiler's bound on the time, from the two numbers above, where it has one for an operation."""
    cycles: int
    """The compiler's estimate for the operations that it scheduled."""
    compile_seconds: float


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

    def print(self, *values: Any, **_: Any) -> None:
        """Use in place of `print`, which ends a step."""
        if str(values[0] if values else "").startswith(_END_OF_STEP):
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


def record(script: str, arguments: Sequence[str]) -> list[Call]:
    """The calls of the last step of a script, which must print after each step."""
    import jax

    recorder = Recorder(jax.jit)
    jax.jit = recorder.jit
    jax.default_backend = lambda: "tpu"  # for code that differs on the CPU
    builtins.print = recorder.print
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")
    return recorder.steps[-2]


def compiled_for(topology: str, calls: Sequence[Call], jit: Callable[..., Any]) -> Costs:
    """Compile functions for one device of a topology, and add up what the compiler says of their calls."""
    import jax
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    described = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    on_tpu = NamedSharding(Mesh(np.array(described.devices[:1]), ("x",)), PartitionSpec())
    start, found = time.monotonic(), {}
    for call in calls:
        if call.function not in found:
            inputs = [
                jax.ShapeDtypeStruct(aval.shape, aval.dtype, sharding=on_tpu, weak_type=aval.weak_type)
                for aval in call.program.in_avals
            ]
            function = jit(jax.extend.core.jaxpr_as_fun(call.program), donate_argnums=call.donated)
            found[call.function] = function.lower(*inputs).compile()
    seconds = time.monotonic() - start
    analyses = {key: compiled.cost_analysis() for key, compiled in found.items()}
    cycles = {key: _cycles(compiled.as_text()) for key, compiled in found.items()}

    def total(name: str) -> float:
        return float(sum(analyses[call.function].get(name, 0.0) for call in calls))

    for (name, key), count in Counter((call.name, call.function) for call in calls).items():
        memory = f"{_memory(found[key]) / 1e6:.0f} MB"
        sys.stderr.write(f"{topology}: {count} x {name}: {memory}, {cycles[key]} cycles\n")
    return Costs(
        functions=len(calls),
        memory=max(call.kept + _memory(found[call.function]) for call in calls),
        bytes_accessed=total("bytes accessed"),
        flops=total("flops"),
        # An operation without an estimate counts as -1 s.
        optimal_seconds=sum(analyses[call.function]["optimal_seconds"] % 1.0 for call in calls),
        cycles=sum(cycles[call.function] for call in calls),
        compile_seconds=round(seconds, 1),
    )


def _cycles(text: str) -> int:
    estimates = map(int, _CYCLES.findall(text))
    return sum(estimate for estimate in estimates if estimate < _NO_ESTIMATE)


def _memory(compiled: Any) -> int:
    found = compiled.memory_analysis()
    inputs_and_outputs = found.argument_size_in_bytes + found.output_size_in_bytes - found.alias_size_in_bytes
    return int(inputs_and_outputs + found.temp_size_in_bytes)


def main(target: str, script: str, *rest: str) -> None:
    """Write the costs of a script's step for each topology."""
    import jax
    import jax.extend.core

    jit, separator = jax.jit, rest.index("--")
    calls = record(script, rest[:separator])
    costs = {topology: asdict(compiled_for(topology, calls, jit)) for topology in rest[separator + 1 :]}
    Path(target).write_text(json.dumps(costs), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
