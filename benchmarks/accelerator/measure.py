"""Milliseconds a training step on a GPU or TPU: original programs, fixed programs, and JAX written by hand.

`make accelerator-benchmark` measures four programs one after the other, each in four versions:

- the original on CUDA, and the original with `torch.compile`, where torch finds a CUDA device;
- the same step as one jitted JAX function (`by_hand.py`);
- the program after `tpulint fix --unsafe-fixes`, on the accelerator that JAX finds.

`make accelerator-benchmark ACCELERATOR='gpt --markdown table.md'` measures one program and also writes the
table to a file.
Environment variables such as BATCH, LENGTH, WIDTH and STEPS change the sizes; the table shows them.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
COLUMNS = ("CUDA", "torch.compile", "JAX by hand", "fixed")
#: What is measured first is still measured if the time is used up.
ORDER = ("fixed", "JAX by hand", "CUDA", "torch.compile")
#: How long the four programs may take in total, in seconds.
LIMIT = 350.0
PACKAGES = ("torch", "torchax", "jax", "optax")
_FIND_DEVICES = """
import json, jax, torch
cuda = torch.cuda.is_available()
card = torch.cuda.get_device_name() if cuda else jax.devices()[0].device_kind
found = {"platform": jax.default_backend(), "cuda": cuda, "card": card, "count": jax.device_count()}
print(json.dumps(found))
"""


@dataclass(frozen=True, slots=True)
class Program:
    """A program with its sizes on an accelerator, and smaller ones for a test on the CPU."""

    name: str
    title: str
    script: str
    sizes: Mapping[str, str]
    tiny: Mapping[str, str]


_GPT = {"BATCH": "8", "LENGTH": "1024", "LAYERS": "12", "WIDTH": "768"}
_TINY_GPT = {"BATCH": "2", "LENGTH": "32", "LAYERS": "2", "WIDTH": "128", "VOCABULARY": "128"}
PROGRAMS = (
    Program("gpt", "GPT-2, float32 (TF32 on GPUs)", "gpt", _GPT, _TINY_GPT),
    Program("gpt-bf16", "GPT-2, bfloat16 autocast", "gpt", {**_GPT, "BF16": "1"}, {**_TINY_GPT, "BF16": "1"}),
    Program(
        "resnet",
        "ResNet-50, float32 (TF32 on GPUs)",
        "resnet",
        {"BATCH": "64", "SIZE": "224"},
        {"BATCH": "16", "SIZE": "64", "WIDTH": "8", "BLOCKS": "1,1,1,1"},
    ),
    Program(
        "unet",
        "U-Net of DDPM with averages of its weights, float32 (TF32 on GPUs)",
        "unet",
        {"BATCH": "32", "SIZE": "64", "WIDTH": "128"},
        {"BATCH": "2", "SIZE": "16", "WIDTH": "16"},
    ),
)


@dataclass(frozen=True, slots=True)
class Devices:
    """The accelerators: JAX's name of their platform, whether torch finds CUDA, their name, their number."""

    platform: str
    cuda: bool
    card: str
    count: int


@dataclass(frozen=True, slots=True)
class Run:
    """Milliseconds a step and the printed losses, or the reason why there are none."""

    milliseconds: float | None = None
    losses: Mapping[int, float] | None = None
    reason: str = ""


def find_devices() -> Devices:
    """Find what JAX and torch compute on, in a process of its own, which then releases the device."""
    found = subprocess.run(
        [sys.executable, "-c", _FIND_DEVICES], env=_environment(), capture_output=True, text=True, check=True
    )
    return Devices(**json.loads(found.stdout.splitlines()[-1]))


def _environment() -> dict[str, str]:
    own = [str(ROOT), str(ROOT / "rules"), str(ROOT / "runtime" / "src")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [*own, os.environ.get("PYTHONPATH")])),
        "PYTHONUNBUFFERED": "1",
        # On a host without a TPU, libtpu would ask a server of Google Cloud for one.
        **({} if any(Path("/dev").glob("accel*")) or Path("/dev/vfio").exists() else _NO_TPU),
    }


_NO_TPU = {"TPU_SKIP_MDS_QUERY": "1"}


def fix_programs(folder: Path, *, any_versions: bool) -> None:
    """Copy the programs to a folder and fix them there.

    With `any_versions`, the runtime tries versions of torch and JAX that it was not tested with.
    """
    for script in FOLDER.glob("train_*.py"):
        shutil.copy(script, folder)
    command = [sys.executable, "-m", "tpulint", "fix", "--isolated", "--unsafe-fixes", "--quiet", str(folder)]
    subprocess.run(command, env=_environment(), check=True)
    if any_versions:
        for script in folder.glob("train_*.py"):
            text = script.read_text(encoding="utf-8")
            text = text.replace("torchax_compat.enable()", "torchax_compat.enable(force=True)")
            script.write_text(text, encoding="utf-8")


def commands(program: Program, fixed: Path, *, on_cpu: bool) -> dict[str, list[str]]:
    """The commands of the versions of a program, by the columns of the table."""
    script = f"train_{program.script}.py"
    python = [sys.executable]
    emulated = [*python, "-m", "tpulint.verify.reference"] if on_cpu else python
    return {
        "CUDA": [*emulated, str(FOLDER / script)],
        "torch.compile": [*emulated, str(FOLDER / script)],
        "JAX by hand": [*python, str(FOLDER / "by_hand.py"), program.script],
        "fixed": [*python, str(fixed / script)],
    }


def run(command: Sequence[str], variables: Mapping[str, str], seconds: float) -> Run:
    """Run one version of a program, for at most some seconds."""
    if seconds <= 0:
        return Run(reason="no time left")
    try:
        ended = subprocess.run(
            command,
            env={**_environment(), **variables},
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return Run(reason="out of time")
    if ended.returncode:
        print(f"{' '.join(command)} failed:\n{ended.stderr[-3000:]}", file=sys.stderr)
        return Run(reason="failed")
    return read(ended.stdout)


def read(printed: str) -> Run:
    """The time of a step and the losses, as a program has printed them."""
    losses = {
        int(step): float(loss) for step, loss in re.findall(r"^step (\d+) loss (\S+)$", printed, re.MULTILINE)
    }
    (milliseconds,) = re.findall(r"^ms per step (\S+)$", printed, re.MULTILINE)
    return Run(float(milliseconds), losses)


def measure(
    programs: Sequence[Program], fixed: Path, devices: Devices, seconds: float, *, on_cpu: bool
) -> dict[str, dict[str, Run]]:
    """Run all versions of some programs within some seconds; by the name of the program and the column."""
    end = time.monotonic() + seconds
    found: dict[str, dict[str, Run]] = {program.name: {} for program in programs}
    for column in ORDER:
        for program in programs:
            if column in ("CUDA", "torch.compile") and not (devices.cuda or on_cpu):
                found[program.name][column] = Run(reason="no CUDA")
                continue
            variables = {**sizes_of(program, on_cpu=on_cpu), "COMPILE": str(int(column == "torch.compile"))}
            command = commands(program, fixed, on_cpu=on_cpu)[column]
            result = run(command, variables, end - time.monotonic())
            found[program.name][column] = result
            print(f"{program.name}, {column}: {_cell(result)}", file=sys.stderr, flush=True)
    return found


def sizes_of(program: Program, *, on_cpu: bool) -> dict[str, str]:
    """The variables that set the sizes of a program: those of the environment are used if there are any."""
    sizes = dict(program.tiny if on_cpu else program.sizes)
    if on_cpu:
        sizes |= {"STEPS": "4", "LOG_EVERY": "1"}
    known = set(re.findall(r'environ\.get\("(\w+)"', (FOLDER / f"train_{program.script}.py").read_text()))
    given = {name: os.environ[name] for name in sorted(known - {"BF16", "COMPILE"}) if name in os.environ}
    return sizes | given


def table(programs: Sequence[Program], found: Mapping[str, Mapping[str, Run]], *, on_cpu: bool) -> list[str]:
    """The rows of the table in Markdown."""
    heads = ["program", "sizes"]
    heads += [f"{column} (ms)" for column in COLUMNS]
    heads += ["fixed / CUDA", "fixed / JAX by hand", "largest difference of losses"]
    rows = [f"| {' | '.join(heads)} |", f"| --- | --- |{' ---: |' * (len(heads) - 2)}"]
    for program in programs:
        runs = found[program.name]
        sizes = ", ".join(f"`{name}={value}`" for name, value in sizes_of(program, on_cpu=on_cpu).items())
        cells = [
            program.title,
            sizes,
            *(_cell(runs[column]) for column in COLUMNS),
            _ratio(runs["fixed"], runs["CUDA"]),
            _ratio(runs["fixed"], runs["JAX by hand"]),
            _difference(runs.values()),
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def _cell(run: Run) -> str:
    return run.reason if run.milliseconds is None else f"{run.milliseconds:.1f}"


def _ratio(one: Run, other: Run) -> str:
    if one.milliseconds is None or other.milliseconds is None:
        return "–"
    return f"{one.milliseconds / other.milliseconds:.2f}"


def _difference(runs: Iterable[Run]) -> str:
    """The largest difference between losses of one step."""
    losses = [run.losses for run in runs if run.losses]
    steps = set(losses[0]).intersection(*losses) if losses else set()
    if len(losses) < 2 or not steps:
        return "–"
    return f"{max(max(one[step] for one in losses) - min(one[step] for one in losses) for step in steps):.1e}"


def versions() -> str:
    """The versions of Python and the packages that compute."""
    found = [f"Python {sys.version.split()[0]}"]
    for name in PACKAGES:
        try:
            found.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{name} (not installed)")
    return ", ".join(found)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    names = [program.name for program in PROGRAMS]
    parser.add_argument(
        "programs", nargs="*", metavar="PROGRAM", help=f"{', '.join(names)}; all of them by default"
    )
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="also write the table to a file")
    parser.add_argument(
        "--seconds", type=float, default=LIMIT, help=f"the time for all runs together; {LIMIT:g} by default"
    )
    parser.add_argument(
        "--on-cpu", action="store_true", help="run everything on the CPU with tiny sizes, to test this script"
    )
    parser.add_argument(
        "--any-versions",
        action="store_true",
        help="let the runtime try versions of torch and JAX that it was not tested with",
    )
    options = parser.parse_args(arguments)
    if unknown := set(options.programs) - set(names):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; the programs are {', '.join(names)}")
    devices = find_devices()
    if devices.platform == "cpu" and not options.on_cpu:
        print("JAX finds no accelerator here, only the CPU: nothing was measured")
        return
    chosen = [program for program in PROGRAMS if program.name in (options.programs or names)]
    with tempfile.TemporaryDirectory(prefix="tpulint-accelerator-") as folder:
        fix_programs(Path(folder), any_versions=options.any_versions)
        found = measure(chosen, Path(folder), devices, options.seconds, on_cpu=options.on_cpu)
    several = f"1 of {devices.count} " if devices.count > 1 else ""
    card = "CPU, where the times mean nothing" if options.on_cpu else f"{several}{devices.card}"
    lines = [f"{card}; {versions()}.", "", *table(chosen, found, on_cpu=options.on_cpu)]
    print("\n".join(lines))
    if options.markdown:
        options.markdown.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
