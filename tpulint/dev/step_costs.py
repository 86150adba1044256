"""What the TPU's compiler says about one training step of a program; no TPU is needed.

`python -m tpulint.dev.step_costs RECORD SCRIPT [argument ...] -- TOPOLOGY ...` runs a training script of
`benchmarks/accelerator/`, and writes the costs of its last step to RECORD, as JSON.
Nothing that `jax.jit` compiles is computed: each call is recorded. The functions of the last step are then
compiled for each topology, such as `v5e:2x4`, on one device.
"""

from __future__ import annotations

import builtins
import json
import runpy
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpulint.proof.workers.step_recorder import Call, Recorder, lowered
from tpulint.proof.workers.tpu_compiler import cycles as cycles_of

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


def record(script: str, arguments: Sequence[str]) -> list[Call]:
    """The calls of the last step of a script, which must print after each step."""
    import jax

    recorder = Recorder(jax.jit)

    def print_step(*values: Any, **_: Any) -> None:
        if str(values[0] if values else "").startswith(_END_OF_STEP):
            recorder.end_step()

    jax.jit = recorder.jit
    jax.default_backend = lambda: "tpu"  # for code that differs on the CPU
    builtins.print = print_step
    sys.argv = [script, *arguments]
    sys.path.insert(0, str(Path(script).parent))
    runpy.run_path(script, run_name="__main__")
    return recorder.steps[-2]


def compiled_for(topology: str, calls: Sequence[Call], jit: Callable[..., Any]) -> Costs:
    """Compile functions for one device of a topology, and add up what the compiler says of their calls."""
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    described = topologies.get_topology_desc(platform="tpu", topology_name=topology)
    on_tpu = NamedSharding(Mesh(np.array(described.devices[:1]), ("x",)), PartitionSpec())
    start, found = time.monotonic(), {}
    for call in calls:
        if call.function not in found:
            found[call.function] = lowered(call, jit, [on_tpu] * len(call.program.in_avals)).compile()
    seconds = time.monotonic() - start
    analyses = {key: compiled.cost_analysis() for key, compiled in found.items()}
    cycles = {key: cycles_of(compiled.as_text()) for key, compiled in found.items()}

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
