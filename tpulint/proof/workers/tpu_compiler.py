"""Compiles functions with the TPU compiler of libtpu, which runs on any host, and reads its results."""

from __future__ import annotations

import re
import time
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from tpulint.proof.workers.failures import frames_of, is_below
from tpulint.proof.workers.loading import BadTargetError

_CYCLES = re.compile(r'"estimated_cycles":"(\d+)"')
#: Larger estimates mean that the compiler has none.
_NO_ESTIMATE = 1 << 62
_COLLECTIVE = re.compile(
    r" = (?P<type>.*?) (?P<operation>all-reduce|all-gather|reduce-scatter|all-to-all|collective-permute)"
    r"(?:-start)?\("
)
_ARRAY = re.compile(r"\b(?:bf|f|s|u|pred|c)(?P<bits>\d*)\w*\[(?P<shape>[\d,]*)\]")
_SOURCE = re.compile(r'source_file="(?P<file>[^"]+)" source_line=(?P<line>\d+)')
_OUT_OF_MEMORY = re.compile(
    r"temporaries \((?P<used>[\d.]+)(?P<used_unit>[KMGT]?)\)"
    r" exceeds available HBM \((?P<hbm>[\d.]+)(?P<hbm_unit>[KMGT]?)\)"
)
_UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}


@dataclass(frozen=True, slots=True)
class Topology:
    """The chips to compile for."""

    name: str
    devices: tuple[Any, ...]
    hbm: int
    """The bytes of high-bandwidth memory that the compiler may use on a device; 0 if they are not known."""

    @property
    def chip(self) -> str:
        """The name of the chip in JAX, such as `TPU v5 lite`."""
        return str(self.devices[0].device_kind)


def devices(name: str) -> tuple[Any, ...]:
    """The devices of a topology such as `v5e:2x2`.

    Raises:
        BadTargetError: libtpu does not know the topology.
    """
    from jax.experimental import topologies

    try:
        return tuple(topologies.get_topology_desc(platform="tpu", topology_name=name).devices)
    except Exception as error:
        reason = str(error).splitlines()[0].partition(": ")[2] or str(error)
        raise BadTargetError(f"--tpu {name}: libtpu does not know this topology: {reason}") from None


def topology_named(name: str) -> Topology:
    """A topology, with the memory of its chips.

    Raises:
        BadTargetError: libtpu does not know the topology.
    """
    found = devices(name)
    return Topology(name, found, _available_memory(found))


def _available_memory(devices: Any) -> int:
    """The memory that the compiler may use, from its error message for a function that needs terabytes."""
    import jax
    import jax.numpy as jnp
    import numpy as np
    from jax.sharding import Mesh, NamedSharding, PartitionSpec

    sharding = NamedSharding(Mesh(np.array(devices[:1]), ("x",)), PartitionSpec())
    vector = jax.ShapeDtypeStruct((2**19,), jnp.float32, sharding=sharding)

    def too_large(x: Any) -> Any:
        return jnp.sort(jnp.sort(jnp.outer(x, x)), axis=0)

    try:
        jax.jit(too_large).lower(vector).compile()
    except Exception as error:
        if (match := _OUT_OF_MEMORY.search(str(error))) is not None:
            return _bytes_of(match["hbm"], match["hbm_unit"])
    return 0


def _bytes_of(number: str, unit: str) -> int:
    return int(float(number) * _UNITS[unit])


def user_lines_only(runtime: ModuleType) -> None:
    """Make messages of the compiler name lines of the user's code, not of torch, torchax or the runtime."""
    import jax._src.source_info_util as source_info
    import torch
    import torchax

    import tpulint

    for package in (torch, torchax, runtime, tpulint):
        source_info.register_exclusion(str(Path(str(package.__file__)).parent))


def costs(compiled: Any) -> dict[str, Any]:
    """Memory, operations, bytes, time and collectives of a compiled function, for one chip."""
    memory, analysis, text = compiled.memory_analysis(), compiled.cost_analysis(), compiled.as_text()
    return {
        "memory": {
            "arguments": memory.argument_size_in_bytes,
            "outputs": memory.output_size_in_bytes,
            "aliased": memory.alias_size_in_bytes,
            "temporary": memory.temp_size_in_bytes,
            "code": memory.generated_code_size_in_bytes,
        },
        "flops": float(analysis.get("flops", 0.0)),
        "bytes_accessed": float(analysis.get("bytes accessed", 0.0)),
        # An operation without an estimate counts as -1 s.
        "seconds": float(analysis.get("optimal_seconds", 0.0)) % 1.0,
        "cycles": cycles(text),
        "collectives": collectives(text),
    }


def cycles(text: str) -> int:
    """The sum of the cycles that the compiler estimates for operations, from the text of a program."""
    estimates = map(int, _CYCLES.findall(text))
    return sum(estimate for estimate in estimates if estimate < _NO_ESTIMATE)


def collectives(text: str) -> list[dict[str, Any]]:
    """The number of collectives of a program, and the bytes of their results, by operation."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for match in _COLLECTIVE.finditer(text):
        entry = counts[match["operation"]]
        entry[0] += 1
        entry[1] += sum(_bytes(*array.groups()) for array in _ARRAY.finditer(match["type"]))
    return [{"operation": name, "count": n, "bytes": size} for name, (n, size) in sorted(counts.items())]


def _bytes(bits: str, shape: str) -> int:
    size = max(1, int(bits or 8) // 8)
    for dimension in filter(None, shape.split(",")):
        size *= int(dimension)
    return size


def compiled(lowered: Any, topology: Topology, root: str) -> dict[str, Any]:
    """Compile a lowered function: its costs, or the error with the user's line."""
    start = time.monotonic()
    try:
        executable = lowered.compile()
    except Exception as error:
        return failed(error, topology, root)
    found = costs(executable)
    memory = found["memory"]
    hbm = topology.hbm
    return {
        **found,
        "topology": topology.name,
        "chip": topology.chip,
        "hbm": hbm,
        "state": "compiles",
        "fits": total(memory) <= hbm if hbm else None,
        "compile_seconds": round(time.monotonic() - start, 1),
    }


def total(memory: dict[str, int]) -> int:
    """The peak memory in bytes; outputs that reuse the memory of arguments count once."""
    return int(sum(memory.values()) - 2 * memory.get("aliased", 0))


def failed(error: Exception, topology: Topology, root: str) -> dict[str, Any]:
    """The row for an error of tracing, lowering or compiling, with the user's lines."""
    text = str(error).strip()
    frames = frames_of(error, root)
    if not frames:
        locations = [match.groups() for match in _SOURCE.finditer(text)]
        own = [(file, line) for file, line in locations if is_below(file, root)]
        frames = [
            {"path": str(Path(file).relative_to(root)), "line": int(line), "function": "", "code": ""}
            for file, line in own[:1]
        ]
    row: dict[str, Any] = {
        "topology": topology.name,
        "chip": topology.chip,
        "hbm": topology.hbm,
        "state": "fails",
        "error": f"{type(error).__name__}: {text.splitlines()[0] if text else ''}"[:500],
        "frames": frames,
    }
    if (memory := _OUT_OF_MEMORY.search(text)) is not None:
        used = _bytes_of(memory["used"], memory["used_unit"])
        row |= {"state": "compiles", "fits": False, "memory": {"undivided": used}}
    return row
