"""A part of docs/speed.md: training steps compiled for TPUs, fixed and written by hand, from recorded costs.

`python -m tpulint.dev tpu-costs` compiles the steps of `benchmarks/accelerator/` and records their costs in
docs/data/tpu_costs.json; no TPU is needed.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

DATA, PAGE = Path("docs", "data", "tpu_costs.json"), Path("docs", "speed.md")
BEGIN, END = "<!-- Written by `python -m tpulint.dev tpu-costs`. -->\n", "<!-- End of the written part. -->\n"
TOPOLOGIES = ("v5e:2x4", "v6e:2x2")
#: With its usual effort, the compiler takes minutes for two matrix products on v6e.
_EFFORT = "-1.0"
#: With the sixth step, the runtime has compiled everything that it compiles.
_STEPS = "6"


@dataclass(frozen=True, slots=True)
class Program:
    """A program of `benchmarks/accelerator/`, with the variables that set its sizes."""

    title: str
    script: str
    sizes: Mapping[str, str]


PROGRAMS = (
    Program("GPT-2, float32", "gpt", {"BATCH": "2", "LENGTH": "1024"}),
    Program("GPT-2, bfloat16 autocast", "gpt", {"BATCH": "2", "LENGTH": "1024", "BF16": "1"}),
    Program("ResNet-50", "resnet", {"BATCH": "16", "SIZE": "224"}),
    Program("U-Net with averages", "unet", {"BATCH": "8", "SIZE": "64"}),
)
_VERSIONS = ("by hand", "fixed")
#: The columns of numbers: the key of the data, its unit, and its digits after the point.
_COLUMNS = {
    "calls of compiled functions": ("functions", 1, 0),
    "memory (MB)": ("memory", 1e6, 0),
    "bytes accessed (GB)": ("bytes_accessed", 1e9, 1),
    "operations (GFLOP)": ("flops", 1e9, 0),
    "bound on the time (ms)": ("optimal_seconds", 1e-3, 1),
    "estimated cycles (millions)": ("cycles", 1e6, 1),
}


def measure(root: Path) -> Iterator[str]:
    """Compile the steps of all programs, and record their costs in a checkout; gives a line for each step.

    Raises:
        subprocess.CalledProcessError: a program fails, or is not compiled.
    """
    folder, rows = root / "benchmarks" / "accelerator", []
    with tempfile.TemporaryDirectory(prefix="tpulint-costs-") as fixed:
        for script in folder.glob("train_*.py"):
            shutil.copy(script, fixed)
        fix = [sys.executable, "-m", "tpulint", "fix", "--isolated", "--unsafe-fixes", "--quiet", fixed]
        subprocess.run(fix, check=True)
        for program in PROGRAMS:
            by_hand = [str(folder / "by_hand.py"), program.script]
            scripts = (by_hand, [str(Path(fixed, f"train_{program.script}.py"))])
            costs = {
                version: _costs(script, program.sizes)
                for version, script in zip(_VERSIONS, scripts, strict=True)
            }
            sizes = {name: value for name, value in program.sizes.items() if name != "BF16"}
            rows.append({"program": program.title, "sizes": sizes, **costs})
            yield f"compiled: {program.title}"
    versions = {name: importlib.metadata.version(name) for name in ("jax", "libtpu", "torch", "torchax")}
    text = json.dumps({"versions": versions, "programs": rows}, indent=1)
    (root / DATA).write_text(f"{text}\n", encoding="utf-8")


def _costs(script: list[str], sizes: Mapping[str, str]) -> Any:
    with tempfile.TemporaryDirectory(prefix="tpulint-costs-") as folder:
        target = Path(folder, "costs.json")
        command = [sys.executable, "-m", "tpulint.dev.step_costs", str(target), *script, "--", *TOPOLOGIES]
        subprocess.run(command, env=environment(sizes), stdout=subprocess.DEVNULL, check=True)
        return json.loads(target.read_text(encoding="utf-8"))


def environment(sizes: Mapping[str, str]) -> dict[str, str]:
    """The variables of a process that compiles a program with some sizes for TPUs."""
    return {
        **os.environ,
        **sizes,
        "STEPS": _STEPS,
        "LOG_EVERY": "1",
        "JAX_EXEC_TIME_OPTIMIZATION_EFFORT": _EFFORT,
        "JAX_PLATFORMS": "cpu",
        "TPU_SKIP_MDS_QUERY": "1",
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }


def render(root: Path) -> str:
    """The page of a checkout, with the table of the recorded costs in it.

    Raises:
        OSError: the page or the data cannot be read.
        ValueError: the page has no part for the table.
    """
    text = (root / PAGE).read_text(encoding="utf-8")
    data = json.loads((root / DATA).read_text(encoding="utf-8"))
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not begin or not end:
        raise ValueError(f"{PAGE} has no part between {BEGIN.strip()} and {END.strip()}")
    return f"{before}{begin}\n{''.join(_lines(data))}\n{end}{after}"


def _lines(data: Mapping[str, Any]) -> Iterator[str]:
    versions = ", ".join(f"{name} {version}" for name, version in data["versions"].items())
    yield f"The steps were compiled with {versions}.\n\n"
    yield f"| program | TPU | version | {' | '.join(_COLUMNS)} |\n"
    yield f"| --- | --- | --- |{' ---: |' * len(_COLUMNS)}\n"
    for entry in data["programs"]:
        sizes = ", ".join(f"`{name}={value}`" for name, value in entry["sizes"].items())
        for topology in TOPOLOGIES:
            by_hand, fixed = (entry[version][topology] for version in _VERSIONS)
            columns = [
                _column(by_hand[key], fixed[key], unit, digits) for key, unit, digits in _COLUMNS.values()
            ]
            for version, cells in zip(
                (*_VERSIONS, "fixed / by hand"), zip(*columns, strict=True), strict=True
            ):
                yield f"| {entry['program']}, {sizes} | {topology} | {version} | {' | '.join(cells)} |\n"


def _column(by_hand: float, fixed: float, unit: float, digits: int) -> tuple[str, str, str]:
    """A cost of both versions, and their ratio."""
    return f"{by_hand / unit:,.{digits}f}", f"{fixed / unit:,.{digits}f}", f"{fixed / by_hand:.2f}"
