"""Looks up topologies and the chips for a mesh in libtpu: `python -m ...workers.topologies REQUEST`."""

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
    """What to look up, and where to leave what is wrong with it."""

    names: list[str]
    axes: list[tuple[str, int]]
    """The axes of the mesh, with their sizes."""
    failure: str


def check(request: Request) -> None:
    """Look up the topologies.

    Raises:
        BadTargetError: libtpu does not know one, or the mesh has more chips.
    """
    count = math.prod(size for _, size in request.axes)
    for name in request.names:
        chips = len(tpu_compiler.devices(name))
        if count > chips:
            raise BadTargetError(f"--mesh has {count} chips, and {name} has {chips}")


def main(file: str) -> None:
    """Leave what is wrong in the file that a request names."""
    request = Request(**json.loads(Path(file).read_text(encoding="utf-8")))
    try:
        check(request)
    except BadTargetError as error:
        Path(request.failure).write_text(json.dumps({"usage": str(error)}), encoding="utf-8")


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    main(sys.argv[1])
