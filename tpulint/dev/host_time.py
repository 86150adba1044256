"""The Python time of a training step on torchax: its processor time outside of compiled functions.

`python -m tpulint.dev host-time` fixes `benchmarks/accelerator/train_gpt.py`, and runs it on the CPU with a
model that has about 200 parameters, all of them small.
Before each step, it waits until the device is idle, as XLA's threads would else compete with the step for the
processor.
"""

from __future__ import annotations

import contextlib
import gc
import io
import json
import os
import runpy
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

#: About 200 parameters.
SIZES = {"LAYERS": "16", "WIDTH": "64", "LENGTH": "16", "BATCH": "2", "VOCABULARY": "64"}
#: Steps that compile, or that come before all caches are filled.
WARM_UP = 80


@dataclass(frozen=True, slots=True)
class HostTime:
    """Milliseconds of processor time: a step without its calls of compiled functions, and these calls."""

    parameters: int
    outside: list[float]
    calls: list[float]
    """What JAX takes to start the compiled functions of a step."""

    def line(self) -> str:
        """The median and the lowest values in words."""
        return (
            f"{self.parameters} parameters, {len(self.outside)} steps: "
            f"{median(self.outside):.2f} ms outside of compiled functions (lowest: {min(self.outside):.2f}), "
            f"{median(self.calls):.2f} ms to call them (lowest: {min(self.calls):.2f})"
        )


def measure(root: Path, steps: int, warm_up: int = WARM_UP, sizes: Mapping[str, str] = SIZES) -> HostTime:
    """Run the fixed program in a process of its own, and measure the steps after the warm-up.

    Args:
        root: a checkout of tpulint.
        steps: the number of steps that are measured.
        warm_up: the number of steps before them.
        sizes: environment variables of the program.

    Raises:
        subprocess.CalledProcessError: the fixed program failed.
    """
    with tempfile.TemporaryDirectory(prefix="tpulint-host-time-") as folder:
        script, result = Path(folder, "train_gpt.py"), Path(folder, "result.json")
        shutil.copy(root / "benchmarks" / "accelerator" / "train_gpt.py", script)
        fix = [sys.executable, "-m", "tpulint", "fix", "--unsafe-fixes", "--quiet", str(script)]
        subprocess.run(fix, cwd=folder, capture_output=True, check=False)  # 1 where findings remain
        environment = {
            **os.environ,
            **sizes,
            "JAX_PLATFORMS": "cpu",
            "STEPS": str(warm_up + steps),
            "LOG_EVERY": str(warm_up + steps),  # it reads no loss
        }
        command = [sys.executable, "-W", "ignore", "-m", "tpulint.dev.host_time", str(script), str(result)]
        subprocess.run(command, cwd=root, env=environment, check=True)
        ran = HostTime(**json.loads(result.read_text()))
        return HostTime(ran.parameters, ran.outside[warm_up:], ran.calls[warm_up:])


def run(script: str, result: Path) -> None:
    """Run a fixed program in this process, and write the times of its steps."""
    import jax
    import torch
    import torchax_compat

    torchax_compat.enable()
    from torchax_compat.jit.compiler_settings import Jitted

    computed, spent = Jitted._computed, 0.0  # noqa: SLF001
    times: list[tuple[float, float]] = []
    parameters = 0

    def timed(self: Any, *arguments: Any) -> Any:
        nonlocal spent
        began = time.thread_time()
        try:
            return computed(self, *arguments)
        finally:
            spent += time.thread_time() - began

    def measured(count: int) -> Iterator[int]:
        """The numbers of the steps, in the place of `range`."""
        nonlocal parameters
        if count != int(os.environ["STEPS"]):
            yield from range(count)
            return
        for step in range(count):
            jax.block_until_ready(jax.live_arrays())
            before = spent
            began = time.thread_time()
            yield step
            times.append((time.thread_time() - began, spent - before))
        found = [one for one in gc.get_objects() if isinstance(one, torch.optim.Optimizer)]
        parameters = sum(len(group["params"]) for one in found for group in one.param_groups)

    Jitted._computed = timed  # type: ignore[method-assign, assignment]  # noqa: SLF001
    with contextlib.redirect_stdout(io.StringIO()):
        runpy.run_path(script, {"range": measured}, "__main__")
    outside = [(whole - calls) * 1e3 for whole, calls in times]
    calls = [calls * 1e3 for _, calls in times]
    result.write_text(json.dumps({"parameters": parameters, "outside": outside, "calls": calls}))


def main(arguments: Sequence[str]) -> None:
    """Run a fixed program: `python -m tpulint.dev.host_time SCRIPT RESULT`."""
    script, result = arguments
    run(script, Path(result))


if __name__ == "__main__":
    main(sys.argv[1:])
