"""Asks an environment the questions of `probe`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tpulint.doctor import probe

#: The questions that only make sense where packages are installed.
_NEEDS = {
    "torch": ("torch",),
    "torchvision": ("torch", "torchvision"),
    "jax": ("jax",),
    "torchax": ("torch", "jax", "torchax", "torchax-compat"),
    "step": ("torch", "jax", "torchax", "torchax-compat"),
}


class ExaminationError(Exception):
    """An interpreter that cannot be started; the text says why in one line."""


@dataclass(frozen=True, slots=True)
class Examination:
    """What an environment answered.

    Args:
        facts: the answer of `probe.facts`.
        answers: the other answers by the names of the questions; one with the key `error` failed. Questions
            about packages that are not installed are left out.
    """

    facts: Mapping[str, Any]
    answers: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    @property
    def accelerator(self) -> str:
        """What the host has, whether or not JAX finds it: `tpu`, `gpu` or `cpu`."""
        if self.facts["chips"]:
            return "tpu"
        return "gpu" if self.facts["nvidia"] else "cpu"

    @property
    def versions(self) -> dict[str, str]:
        """The version of each installed package; that which is found first, if there are several."""
        return {name: one["installed"][0]["version"] for name, one in self.facts["packages"].items()}


def examine(interpreter: str, folder: Path, *, timeout: float, runs_step: bool = True) -> Examination:
    """Ask an environment.

    Args:
        interpreter: the path of its Python.
        folder: where the processes run, as programs of the project do.
        timeout: the time limit of each question, in seconds.
        runs_step: whether to run a training step.

    Raises:
        ExaminationError: the interpreter cannot be started, or is no Python 3.
    """
    facts = _asked(interpreter, folder, "facts", timeout)
    if "packages" not in facts:
        raise ExaminationError(f"{interpreter}: {facts.get('error', 'does not answer')}")
    installed = facts["packages"]
    questions = [one for one, needed in _NEEDS.items() if all(name in installed for name in needed)]
    if not runs_step:
        questions = [one for one in questions if one != "step"]
    answers: dict[str, dict[str, Any]] = {}
    for one in questions:
        if one == "step" and any("error" in answers.get(name, {}) for name in ("jax", "torchax")):
            continue  # it would fail in the same way
        answers[one] = _asked(interpreter, folder, one, timeout)
    return Examination(facts, answers)


def _asked(interpreter: str, folder: Path, question: str, timeout: float) -> dict[str, Any]:
    source = Path(probe.__file__).read_text("utf-8")
    try:
        done = subprocess.run(
            [interpreter, "-W", "ignore", "-c", source, question],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {timeout:g} s"}
    except OSError as error:
        raise ExaminationError(f"{interpreter}: {error.strerror or error}") from error
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    try:
        answer = json.loads(lines[-1]) if lines else None
    except ValueError:
        answer = None
    if isinstance(answer, dict):
        return answer
    said = done.stderr.decode(errors="replace").strip().splitlines()
    status = done.returncode
    how = f"ended with status {status}" if status >= 0 else f"died of signal {-status}"
    return {"error": f"the process {how}" + (f": {said[-1]}" if said else "")}
