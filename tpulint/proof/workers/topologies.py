"""Checks topologies, and the size of the mesh: `python -m ...workers.topologies REQUEST`."""

from __future__ import annotations

import json
import math
import sys
from dataclasses import dataclass
from pathlib import Path

from tpulint.proof.workers import tpu_compiler
from tpulint.proof.workers.loading import BadTargetError


@dataclass(frozen=True, slots=True)
class Request:
    """The topologies and the mesh, and the file for an error."""

    names: list[str]
    axes: list[tuple[str, int]]
    """The axes of the mesh, with their sizes."""
    failure: str


def check(request: Request) -> None:
    """Check the topologies.

    Raises:
        BadTargetError: libtpu does not know a topology, or the mesh has more chips than it.
    """
    count = math.prod(size for _, size in request.axes)
    for name in request.names:
        chips = len(tpu_compiler.devices(name))
        if count > chips:
            raise BadTargetError(f"--mesh has {count} chips, and {name} has {chips}")


def main(file: str) -> None:
    """Check a request, and write an error to its file."""
    request = Request(**json.loads(Path(file).read_text(encoding="utf-8")))
    try:
        check(request)
    except BadTargetError as error:
        Path(request.failure).write_text(json.dumps({"usage": str(error)}), encoding="utf-8")


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    main(sys.argv[1])
