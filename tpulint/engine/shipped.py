"""Which files of a project are ones that fixes wrote, unchanged since: nothing in them is the user's."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path

from tpulint.digest import digest
from tpulint.engine.desk import Unit
from tpulint.finding import modules
from tpulint.registry import packages

#: Where a rule package keeps the files that its fixes write.
_FOLDER = "companions"


def users_own(units: Mapping[str, Unit]) -> dict[str, Unit]:
    """The files without those that fixes wrote, which are recognised by their content.

    One that somebody changed is the user's own.
    """
    return {path: unit for path, unit in units.items() if not is_shipped(unit)}


def is_shipped(unit: Unit) -> bool:
    """Whether a file is one that fixes write, in a folder of the name that they give it."""
    parts = Path(unit.path).parts
    return not _names().isdisjoint(parts) and _digest(unit.data) in _digests()


@cache
def _names() -> frozenset[str]:
    return frozenset(part.name for folder in _folders() for part in folder.iterdir())


@cache
def _digests() -> frozenset[str]:
    return frozenset(_digest(file.read_bytes()) for folder in _folders() for _, file in modules(folder))


def _folders() -> Iterator[Traversable]:
    for package in packages():
        folder = resources.files(package).joinpath(_FOLDER)
        if folder.is_dir():
            yield folder


def _digest(data: bytes) -> str:
    return digest(data.replace(b"\r\n", b"\n"))
