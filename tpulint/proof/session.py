"""What all runs of one command have in common: options, device, limits, and how a worker is started."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpulint.invocation import UsageError
from tpulint.proof.processes import Ended, Limits, run
from tpulint.proof.project import Project
from tpulint.proof.results import Failure, Frame
from tpulint.proof.targets import Options
from tpulint.verify.platform import Platform

ON_CPU = {"JAX_PLATFORMS": "cpu"}
"""The variable of a process that computes nothing on an accelerator."""


@dataclass(frozen=True, slots=True)
class Session:
    """What all verifications of one command have in common."""

    options: Options
    platform: Platform
    tell: Callable[[str], None]

    @property
    def limits(self) -> Limits:
        """Of each process."""
        return Limits(self.options.timeout, self.options.memory)

    def environment(self, processes: int = 1) -> dict[str, str]:
        """The variables of a process, beside which others may run."""
        threads = max(1, (os.cpu_count() or 1) // processes)
        return {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0", **self.platform.environment}

    def work(
        self,
        worker: str,
        request: Any,
        folder: Path,
        project: Project,
        *,
        processes: int = 1,
        variables: Mapping[str, str] | None = None,
    ) -> Ended:
        """Run a worker, one of `tpulint.proof.workers`, with a request, in a folder.

        The request has its own file, beside the one for failures that it names. Its `root` is a copy of the
        project.
        """
        file = Path(request.failure).with_suffix(".request")
        values = {**asdict(request), "project": str(project.root)}
        file.write_text(json.dumps(values), encoding="utf-8")
        environment = {**self.environment(processes), **(variables or {})}
        return run(
            ["-P", "-m", f"tpulint.proof.workers.{worker}", str(file)], folder, environment, self.limits
        )


def read_failure(path: Path, side: str) -> Failure | None:
    """The failure that a worker described in a file, if any.

    Raises:
        UsageError: the worker found the fault in what the user asked for.
    """
    if not path.exists():
        return None
    described = json.loads(path.read_text(encoding="utf-8"))
    if "usage" in described:
        raise UsageError(described["usage"])
    return failure_of(described, side)


def failure_of(described: dict[str, Any], side: str) -> Failure:
    """A failure from plain values."""
    frames = tuple(Frame(**frame) for frame in described["frames"])
    return Failure(side, described["type"], described["message"], frames)
