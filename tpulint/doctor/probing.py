"""Runs the functions of `probe` in an environment."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpulint.doctor import probe

#: The packages that each probe needs; a probe is skipped if one of them is not installed.
_NEEDED_PACKAGES = {
    "torch": ("torch",),
    "torchvision": ("torch", "torchvision"),
    "jax": ("jax",),
    "torchax": ("torch", "jax", "torchax", "torchax-compat"),
    "step": ("torch", "jax", "torchax", "torchax-compat"),
}


class InterpreterError(Exception):
    """The interpreter cannot be started, or is not Python 3; the message is one line."""


@dataclass(frozen=True, slots=True)
class ProbeResults:
    """The results of the probes of an environment.

    Args:
        facts: the result of `probe.facts`.
        results: the results of the other probes that ran, by name. The result of a probe that failed has the
            key `error`.
    """

    facts: Mapping[str, Any]
    results: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def accelerator(self) -> str:
        """The accelerator of the host, even if JAX does not find it: `tpu`, `gpu` or `cpu`."""
        if self.facts["chips"]:
            return "tpu"
        return "gpu" if self.facts["nvidia"] else "cpu"

    @property
    def versions(self) -> dict[str, str]:
        """The version of each installed package: the one that Python finds first."""
        return {name: one["installed"][0]["version"] for name, one in self.facts["packages"].items()}


def run_probes(interpreter: str, folder: Path, *, timeout: float, runs_step: bool = True) -> ProbeResults:
    """Run each probe in a process of an interpreter.

    Args:
        interpreter: the path of the Python interpreter.
        folder: the working folder of the processes.
        timeout: the time limit of each probe, in seconds.
        runs_step: whether to run a training step.

    Raises:
        InterpreterError: the interpreter cannot be started, or is not Python 3.
    """
    facts = _run_probe(interpreter, folder, "facts", timeout)
    if "packages" not in facts:
        raise InterpreterError(f"{interpreter}: {facts.get('error', 'does not answer')}")
    installed = facts["packages"]
    probes = [one for one, needed in _NEEDED_PACKAGES.items() if all(name in installed for name in needed)]
    if not runs_step:
        probes = [one for one in probes if one != "step"]
    results: dict[str, dict[str, Any]] = {}
    for one in probes:
        if one == "step" and any("error" in results.get(name, {}) for name in ("jax", "torchax")):
            continue  # it would fail in the same way
        results[one] = _run_probe(interpreter, folder, one, timeout)
    return ProbeResults(facts, results)


def _run_probe(interpreter: str, folder: Path, name: str, timeout: float) -> dict[str, Any]:
    source = Path(probe.__file__).read_text("utf-8")
    try:
        done = subprocess.run(
            [interpreter, "-W", "ignore", "-c", source, name],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout:g} s"}
    except OSError as error:
        raise InterpreterError(f"{interpreter}: {error.strerror or error}") from error
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    try:
        result = json.loads(lines[-1]) if lines else None
    except ValueError:
        result = None
    if isinstance(result, dict):
        return result
    errors = done.stderr.decode(errors="replace").strip().splitlines()
    status = done.returncode
    how = f"ended with status {status}" if status >= 0 else f"was killed by signal {-status}"
    return {"error": f"the process {how}" + (f": {errors[-1]}" if errors else "")}
