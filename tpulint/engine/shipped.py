"""Which files of a project are the runtime's: a vendored copy, or what fixes of earlier versions wrote."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tpulint.engine.desk import Unit
from tpulint.knowledge.runtime import FORMER, PACKAGE

_NAMES = frozenset(
    {PACKAGE, FORMER, "torchax_events", "torchax_pickle", "torchax_mesh.py", "torchax_images.py"}
)


def users_own(units: Mapping[str, Unit]) -> dict[str, Unit]:
    """The files without those of the runtime, which are recognized by the names of their folders."""
    return {path: unit for path, unit in units.items() if not is_shipped(unit)}


def is_shipped(unit: Unit) -> bool:
    """Whether a file is one of the runtime."""
    return not _NAMES.isdisjoint(Path(unit.path).parts)
