"""The options, the device and the limits of one `tpulint verify`, and how its workers are started."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpulint.invocation import UsageError
from tpulint.proof.processes import Limits, ProcessResult, run
from tpulint.proof.project import Project
from tpulint.proof.results import Failure, Frame
from tpulint.proof.targets import Options
from tpulint.verify.platform import Platform

ON_CPU = {"JAX_PLATFORMS": "cpu"}
"""The environment variables of a process that does not use an accelerator."""


@dataclass(frozen=True, slots=True)
class Session:
    """The settings that all verifications of one command share.

    Args:
        options: the user's options.
        platform: the device of the fixed code.
        report_note: prints a note.
    """

    options: Options
    platform: Platform
    report_note: Callable[[str], None]

    @property
    def limits(self) -> Limits:
        """The limits of each process."""
        return Limits(self.options.timeout, self.options.memory)

    def environment(self, processes: int = 1) -> dict[str, str]:
        """The environment variables of a process, of which several may run at a time."""
        threads = max(1, (os.cpu_count() or 1) // processes)
        return {"OMP_NUM_THREADS": str(threads), "PYTHONHASHSEED": "0", **self.platform.environment}

    def run_worker(
        self,
        worker: str,
        request: Any,
        folder: Path,
        project: Project,
        *,
        processes: int = 1,
        variables: Mapping[str, str] | None = None,
    ) -> ProcessResult:
        """Run a worker in a process, and wait for its end.

        Args:
            worker: the name of a module of `tpulint.proof.workers`.
            request: an instance of its class `Request`, which is passed as a JSON file.
            folder: the working folder.
            project: the project of which the `root` of the request is a copy.
            processes: the number of processes that run at the same time and share the CPU.
            variables: further environment variables.
        """
        file = Path(request.failure).with_suffix(".request")
        values = {**asdict(request), "project": str(project.root)}
        file.write_text(json.dumps(values), encoding="utf-8")
        environment = {**self.environment(processes), **(variables or {})}
        return run(
            ["-P", "-m", f"tpulint.proof.workers.{worker}", str(file)], folder, environment, self.limits
        )


def read_failure(path: Path, side: str) -> Failure | None:
    """The failure that a worker wrote to a file; None if there is no file.

    Raises:
        UsageError: the user named a target, input or topology that does not exist.
    """
    if not path.exists():
        return None
    described = json.loads(path.read_text(encoding="utf-8"))
    if "usage" in described:
        raise UsageError(described["usage"])
    frames = tuple(Frame(**frame) for frame in described["frames"])
    return Failure(side, described["type"], described["message"], frames)
