"""Compiles the training step of a user's fixed program for TPUs: `python -m ...compiling_step REQUEST`."""

from __future__ import annotations

import os
import runpy
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from tpulint.proof.workers import requests, tpu_compiler
from tpulint.proof.workers.seeds import repeat_random_numbers
from tpulint.proof.workers.step_recorder import Call, Recorder, lowered
from tpulint.proof.workers.tpu_compiler import Topology
from tpulint.verify.steps import EndOfSteps, StepCounter

_STEPS = 6
"""The step that is compiled; in the steps before, the runtime may still compile further functions."""
_SUMS = ("flops", "bytes_accessed", "seconds", "cycles")


@dataclass(frozen=True, slots=True)
class Request:
    """The program, and the topologies."""

    path: str
    arguments: list[str]
    root: str
    """The copy of the project."""
    answer: str
    failure: str
    topologies: list[str]


def run(request: Request) -> list[dict[str, Any]]:
    """A row of costs for each topology; none if the program takes no step of an optimizer."""
    import jax

    topologies = [tpu_compiler.topology_named(name) for name in request.topologies]
    jit = jax.jit
    calls = _recorded(request)
    return [_row(topology, calls, jit, request.root) for topology in topologies] if calls else []


def _recorded(request: Request) -> list[Call]:
    """The calls of compiled functions in the last step of the program."""
    import jax
    import jax.extend.core

    from tpulint.verify import torchvision_standin

    sys.path.insert(0, "")  # for the program's folder
    repeat_random_numbers()
    recorder, counter = Recorder(jax.jit), StepCounter(_STEPS)
    counter.at_step = recorder.end_step
    counter.install()
    torchvision_standin.install()
    jax.jit = recorder.jit
    jax.default_backend = lambda: "tpu"  # for code that differs on the CPU
    sys.argv = [request.path, *request.arguments]
    sys.path[0] = os.path.dirname(os.path.abspath(request.path))
    try:
        runpy.run_path(request.path, run_name="__main__")
    except EndOfSteps:
        pass
    except SystemExit as error:
        if error.code:
            raise
    # The calls after the last step belong to the next one, which is not complete.
    return recorder.steps[counter.steps - 1] if counter.steps else []


def _row(topology: Topology, calls: Sequence[Call], jit: Callable[..., Any], root: str) -> dict[str, Any]:
    """Compile the functions of a step for one device of a topology, and add up what their calls cost."""
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sharding = NamedSharding(Mesh(np.array(topology.devices[:1]), ("x",)), PartitionSpec())
    start, found = time.monotonic(), {}
    for call in calls:
        if call.function not in found:
            try:
                row = tpu_compiler.compiled(
                    lowered(call, jit, [sharding] * len(call.program.in_avals)), topology, root
                )
            except Exception as error:  # of lowering
                row = tpu_compiler.failed(error, topology, root)
            if row["state"] != "compiles" or row["fits"] is False:
                return {**row, "what": call.name}
            found[call.function] = row
    rows = [(call, found[call.function]) for call in calls]
    peak, costs = max(rows, key=lambda one: one[0].kept + tpu_compiler.total(one[1]["memory"]))
    memory = {**costs["memory"], "kept": peak.kept}
    return {
        "topology": topology.name,
        "chip": topology.chip,
        "hbm": topology.hbm,
        "state": "compiles",
        "what": f"a training step of {len(calls)} compiled function{'s' * (len(calls) > 1)}",
        "memory": memory,
        "fits": tpu_compiler.total(memory) <= topology.hbm if topology.hbm else None,
        "compile_seconds": round(time.monotonic() - start, 1),
        **{name: sum(row[name] for _, row in rows) for name in _SUMS},
    }


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    requests.answer(Request, run, sys.argv[1])
