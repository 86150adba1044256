"""A part of docs/speed.md: the collectives that the TPU compiler inserts into a training step on a mesh.

`python -m tpulint.dev.mesh_costs` fixes `benchmarks/mesh/train_mesh.py`, runs it on as many virtual devices
of the CPU as a topology has, and compiles the functions of its last step for the topology.
The step that is written by hand in JAX is compiled for the same mesh.
No TPU is needed.
"""

from __future__ import annotations

import builtins
import importlib.util
import json
import os
import re
import runpy
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from tpulint.proof.workers.step_recorder import Call, Recorder, lowered

DATA, PAGE = Path("docs", "data", "mesh_costs.json"), Path("docs", "speed.md")
BEGIN, END = "<!-- Written by `python -m tpulint.dev.mesh_costs`. -->\n", "<!-- End of the table. -->\n"
#: The number of devices of each topology.
TOPOLOGIES = {"v5e:2x4": 8, "v6e:2x2": 4}
WAYS = {
    "ddp": "`DistributedDataParallel`",
    "fsdp": "`fully_shard`",
    "plan": "`parallelize_module`, 4 devices",
}
_VERSIONS = ("by hand", "fixed")
_PROGRAM = Path("benchmarks", "mesh")
#: An operation of XLA that communicates: its result, and its name.
_COLLECTIVE = re.compile(
    r"= (?P<result>\S+|\(.*?\)) (?P<kind>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
    r"(?P<start>-start)?\("
)
_ARRAY = re.compile(r"(?P<type>[a-z]+)(?P<bits>\d+)\[(?P<shape>[\d,]*)\]")


def collectives(text: str) -> tuple[Counter[str], int]:
    """The number of collectives of a compiled function by their names, and the bytes of their results."""
    found: Counter[str] = Counter()
    total = 0
    for match in _COLLECTIVE.finditer(text):
        found[match["kind"]] += 1
        arrays = [int(one["bits"]) // 8 * _size(one["shape"]) for one in _ARRAY.finditer(match["result"])]
        # What starts an asynchronous operation has its operands in its result, too.
        total += max(arrays, default=0) if match["start"] else sum(arrays)
    return found, total


def _size(shape: str) -> int:
    size = 1
    for length in filter(None, shape.split(",")):
        size *= int(length)
    return size


def _costs(compiled: Sequence[Any]) -> dict[str, Any]:
    """The costs of the functions of a step, for each device."""
    found: Counter[str] = Counter()
    communicated = memory = 0
    accessed = 0.0
    for one in compiled:
        kinds, size = collectives(one.as_text())
        found += kinds
        communicated += size
        stats = one.memory_analysis()
        held = stats.argument_size_in_bytes + stats.output_size_in_bytes - stats.alias_size_in_bytes
        memory = max(memory, int(held + stats.temp_size_in_bytes))
        accessed += float(one.cost_analysis().get("bytes accessed", 0.0))
    return {
        "functions": len(compiled),
        "collectives": dict(sorted(found.items())),
        "communicated": communicated,
        "memory": memory,
        "bytes_accessed": accessed,
    }


def _mesh(topology: str, shape: Sequence[int]) -> Any:
    import numpy as np
    from jax.experimental import topologies
    from jax.sharding import Mesh

    devices = topologies.get_topology_desc(platform="tpu", topology_name=topology).devices
    return Mesh(np.array(devices).reshape(*shape), ("data", "model"))


def by_hand(root: Path, topology: str, way: str) -> dict[str, Any]:
    """The costs of the step by hand."""
    spec = importlib.util.spec_from_file_location("by_hand", root / _PROGRAM / "by_hand.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    model = 4 if way == "plan" else 1
    mesh = _mesh(topology, (TOPOLOGIES[topology] // model, model))
    return _costs([module.lowered(way, mesh).compile()])


def fixed(topology: str, way: str, script: str) -> dict[str, Any]:
    """The costs of the last step of a fixed program, which runs on virtual devices."""
    import jax
    from jax.sharding import NamedSharding

    jit, recorder = jax.jit, Recorder(jax.jit, executes=True)
    jax.jit = recorder.jit
    builtins.print = lambda *_, **__: recorder.end_step()  # the program prints after each step
    os.environ["WAY"] = way
    runpy.run_path(script, run_name="__main__")
    calls = recorder.steps[-2]  # the last one has what follows the last step
    shardings = (one for call in calls for one in call.input_shardings if isinstance(one, NamedSharding))
    mesh = _mesh(topology, tuple(next(shardings).mesh.shape.values()))
    return _costs([_compiled(call, jit, mesh) for call in calls])


def _compiled(call: Call, jit: Callable[..., Any], mesh: Any) -> Any:
    """A recorded call, compiled for a mesh with the same shardings."""
    from jax.sharding import NamedSharding, PartitionSpec

    def on_mesh(sharding: Any) -> Any:
        spec = sharding.spec if isinstance(sharding, NamedSharding) else PartitionSpec()
        return NamedSharding(mesh, spec)

    inputs, outputs = map(on_mesh, call.input_shardings), [*map(on_mesh, call.output_shardings)]
    return lowered(call, jit, [*inputs], out_shardings=outputs).compile()


def measure(root: Path) -> None:
    """Compile the steps, and record their costs in a checkout."""
    rows = []
    with tempfile.TemporaryDirectory(prefix="tpulint-costs-") as folder:
        script = Path(folder, "train_mesh.py")
        shutil.copy(root / _PROGRAM / "train_mesh.py", script)
        fix = [sys.executable, "-m", "tpulint", "fix", "--isolated", "--unsafe-fixes", "--quiet", folder]
        subprocess.run(fix, check=True)
        for topology, count in TOPOLOGIES.items():
            variables = {
                "JAX_PLATFORMS": "cpu",
                "JAX_EXEC_TIME_OPTIMIZATION_EFFORT": "-1.0",
                "TPU_SKIP_MDS_QUERY": "1",
                "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
                "XLA_FLAGS": f"--xla_force_host_platform_device_count={count}",
            }
            for way in WAYS:
                for version in _VERSIONS:
                    target = Path(folder, "costs.json")
                    arguments = [version, topology, way, str(script), str(target)]
                    command = [sys.executable, "-m", "tpulint.dev.mesh_costs", *arguments]
                    subprocess.run(command, env={**os.environ, **variables}, cwd=root, check=True)
                    costs = json.loads(target.read_text(encoding="utf-8"))
                    rows.append({"topology": topology, "way": way, "version": version, **costs})
                    sys.stderr.write(f"{rows[-1]}\n")
    (root / DATA).write_text(f"{json.dumps(rows, indent=1)}\n", encoding="utf-8")


def render(root: Path) -> str:
    """The page of a checkout, with the table of the recorded costs in it.

    Raises:
        OSError: the page or the data cannot be read.
        ValueError: the page has no part for the table.
    """
    text = (root / PAGE).read_text(encoding="utf-8")
    rows = json.loads((root / DATA).read_text(encoding="utf-8"))
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no part between {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{''.join(_lines(rows))}\n{end}{after}"


def _lines(rows: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    columns = (
        "functions",
        "collectives",
        "results of collectives (MB)",
        "memory (MB)",
        "bytes accessed (MB)",
    )
    yield f"| program | TPU | version | {' | '.join(columns)} |\n"
    yield "| --- | --- | --- | ---: | --- | ---: | ---: | ---: |\n"
    for row in rows:
        kinds = ", ".join(f"{count} {kind}" for kind, count in row["collectives"].items())
        sizes = " | ".join(f"{row[key] / 1e6:,.1f}" for key in ("communicated", "memory", "bytes_accessed"))
        head = f"| {WAYS[row['way']]} | {row['topology']} | {row['version']} | {row['functions']} |"
        yield f"{head} {kinds or 'none'} | {sizes} |\n"


def main(arguments: Sequence[str]) -> None:
    """Measure, or write the costs of one version to a file."""
    root = Path.cwd()
    if not arguments:
        measure(root)
        (root / PAGE).write_text(render(root), encoding="utf-8")
        return
    version, topology, way, script, target = arguments
    costs = by_hand(root, topology, way) if version == "by hand" else fixed(topology, way, script)
    Path(target).write_text(json.dumps(costs), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
