"""Copies of the runtime torchax-compat within a project that wants no dependency: `tpulint vendor`.

A copy is the folder `torchax_compat` with a stamp: the version, and a digest of each file, so that a later
command sees whether the copy is current and whether somebody changed it.
"""

from __future__ import annotations

import importlib.util
import json
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path

from tpulint.digest import digest
from tpulint.knowledge.runtime import DISTRIBUTION, PACKAGE

#: The file that says which version a copy is of.
STAMP = "vendored.json"
_VERSION = re.compile(r'^__version__ = "([^"]+)"', re.MULTILINE)


class VendorError(Exception):
    """A copy that cannot be made or replaced; the text says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy of the runtime in a project.

    Attributes:
        folder: the folder of the copy.
        version: its version.
        changed: the files that differ from what was copied, relative to the folder.
    """

    folder: Path
    version: str
    changed: tuple[str, ...]


def source() -> tuple[str, Mapping[str, bytes]]:
    """The version and the files of the runtime that is installed beside tpulint.

    Raises:
        VendorError: it is not installed.
    """
    here = os.path.realpath(os.curdir)
    # Not the copy in the current folder, which `python -m tpulint` has on its path.
    path = [one for one in sys.path if os.path.realpath(one or os.curdir) != here]
    spec = PathFinder.find_spec(PACKAGE, path) or _editable(here)
    if spec is None or spec.origin is None:
        raise VendorError(f"{DISTRIBUTION} is not installed beside tpulint: pip install {DISTRIBUTION}")
    return _read(Path(spec.origin).parent)


def _editable(apart: str) -> ModuleSpec | None:
    """The runtime, if it is installed in a way that the path does not show, outside of a folder."""
    spec = importlib.util.find_spec(PACKAGE)
    is_apart = spec is not None and not os.path.realpath(spec.origin or "").startswith(f"{apart}{os.sep}")
    return spec if is_apart else None


def _read(folder: Path) -> tuple[str, dict[str, bytes]]:
    """The version of a copy, and its files but the stamp, by their paths."""
    files = {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and "__pycache__" not in path.parts and path.name != STAMP
    }
    found = _VERSION.search(files.get("version.py", b"").decode("utf-8", "replace"))
    return found[1] if found is not None else "", files


def copy_in(folder: Path) -> Copy | None:
    """The copy in a folder of a project; None if there is none.

    Raises:
        VendorError: it is no copy, or its stamp cannot be read.
    """
    place = folder / PACKAGE
    if not place.exists():
        return None
    version, files = _read(place)
    stamp = place / STAMP
    if not stamp.is_file():
        raise VendorError(f"{place} has no {STAMP}, so it is no copy that `tpulint vendor` made")
    try:
        known = json.loads(stamp.read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise VendorError(f"{stamp}: cannot be read as a stamp: {error}") from error
    if not isinstance(known, dict):
        raise VendorError(f"{stamp}: cannot be read as a stamp: `files` is no table")
    here = _digests(files)
    changed = {name for name in {*known, *here} if known.get(name) != here.get(name)}
    return Copy(place, version, tuple(sorted(changed)))


def is_current(copy: Copy) -> bool:
    """Whether a copy is of the installed version, and unchanged.

    Raises:
        VendorError: the runtime is not installed beside tpulint.
    """
    _, files = source()
    return _digests(_read(copy.folder)[1]) == _digests(files)


def write(folder: Path, *, upgrade: bool = False) -> Copy:
    """Copy the installed runtime into a folder; an incomplete copy is never left there.

    Args:
        folder: where the folder `torchax_compat` is to lie.
        upgrade: whether an unchanged copy of another version is replaced.

    Raises:
        VendorError: there is a copy that may not be replaced, or the runtime is not installed.
        OSError: the folder cannot be written.
    """
    version, files = source()
    copy = copy_in(folder)
    if copy is not None:
        if not upgrade:
            raise VendorError(f"{copy.folder} exists: use --upgrade to replace it")
        if copy.changed:
            names = ", ".join(copy.changed[:3]) + (", ..." if len(copy.changed) > 3 else "")
            raise VendorError(
                f"{copy.folder} was changed ({names}), so it is not replaced: move the changes elsewhere, "
                "and delete the folder"
            )
    folder.mkdir(parents=True, exist_ok=True)
    made = Path(tempfile.mkdtemp(dir=folder, prefix=".tpulint-"))
    try:
        stamp = {"version": version, "files": _digests(files)}
        text = json.dumps(stamp, indent=1, sort_keys=True) + "\n"
        for name, data in {**files, STAMP: text.encode()}.items():
            (made / name).parent.mkdir(parents=True, exist_ok=True)
            (made / name).write_bytes(data)
        os.chmod(made, 0o755)
        if copy is not None:
            shutil.rmtree(copy.folder)
        os.rename(made, folder / PACKAGE)
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise
    return Copy(folder / PACKAGE, version, ())


def _digests(files: Mapping[str, bytes]) -> dict[str, str]:
    """Digests of files by their paths, which are the same whatever the line endings of a checkout."""
    return {name: digest(data.replace(b"\r\n", b"\n")) for name, data in files.items()}
