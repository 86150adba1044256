"""`evidence.lock`: the recorded outcome of each fixture case, with a digest of its inputs.

A line is a case, its digest, and the outcome of each stage::

    item_in_traced_code/example 3f9c… original/reference=runs, original/eager=equal, fixed/jit=equal, …

The digest covers the case's own files without their `# want:` comments, the current output of `fix`, the
runtime torchax-compat if that output imports it, the code of the verifier, the TPU targets, the versions of
Python and packages, and the outcomes themselves, so that a line that was edited by hand does not match.
It does not cover the case's name, so that a case may be renamed together with its line.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tpulint import fixture, verify
from tpulint.digest import digest
from tpulint.fixture import Case
from tpulint.knowledge.runtime import PACKAGE
from tpulint.verify.result import Result, State

NAME = "evidence.lock"
"""The name of the file, beside the rules' folders of cases."""
PACKAGES = ("torch", "torchvision", "torchax", "jax", "jaxlib", "libtpu", "numpy", "ml_dtypes", "pillow")
NOT_RUN = "not run"
_SIZE = 16
"""Of a line's digest, in bytes."""
_FORMAT = "2"
"""Part of every digest; to be counted up when outcomes are recorded in other words."""
_HEAD = """\
# The recorded outcome of each fixture case, with a digest of its inputs; see docs/testing.md.
# Written by `make evidence` and `make test`.
"""
_VERSIONS, _TARGETS = "# versions: ", "# targets: "
_LEFT_BY_TOOLS = frozenset({"__pycache__", ".tpulint_cache", ".mypy_cache", ".ruff_cache", ".pytest_cache"})


class LockError(Exception):
    """A lock file that cannot be read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """The outcomes of one case by side and stage, such as `fixed/eager`, and their digest."""

    digest: str
    outcomes: Mapping[str, str]

    @property
    def is_run(self) -> bool:
        """Whether the case was executed, rather than left out for a stated reason."""
        stages = (stage for stage, outcome in self.outcomes.items() if outcome != NOT_RUN)
        return any(not stage.endswith("/reference") for stage in stages)


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file, read; `versions` and `targets` are those that its entries were made with."""

    versions: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)


@cache
def versions() -> Mapping[str, str]:
    """The platform, and the versions of Python and of the packages that outcomes depend on.

    Python's patch level is left out: it does not change what a case comes to.
    """
    found = {"platform": sys.platform, "python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = "none"
    return found


def read(path: Path) -> Lock:
    """The lock in a file; an empty one if there is none.

    Raises:
        LockError: for a line that a lock does not have, as a merge conflict leaves.
    """
    if not path.exists():
        return Lock()
    lock, entries = Lock(), dict[str, Entry]()
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise LockError(f"{path}: {error}") from None
    for row, line in enumerate(lines, 1):
        if line.startswith(_VERSIONS):
            lock = replace(lock, versions=dict(_pairs(line[len(_VERSIONS) :], " ", path, row)))
        elif line.startswith(_TARGETS):
            lock = replace(lock, targets=tuple(line[len(_TARGETS) :].split()))
        elif line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            digest, _, outcomes = rest.partition(" ")
            if name in entries:
                raise LockError(f"{path}:{row}: a second line for {name}: delete one of them")
            entries[name] = Entry(digest, dict(_pairs(outcomes, "=", path, row)))
    return replace(lock, entries=entries)


def _pairs(text: str, between: str, path: Path, row: int) -> Iterable[tuple[str, str]]:
    for part in text.split(","):
        key, found, value = part.strip().partition(between)
        if not (key and found):
            raise LockError(f"{path}:{row}: not a line of a lock (a merge conflict?): delete it")
        yield key, value


def write(path: Path, lock: Lock) -> None:
    """Write a lock, one line a case, sorted, in one step.

    Raises:
        OSError: when it cannot be written.
    """
    lines = [_VERSIONS + ", ".join(f"{name} {version}" for name, version in lock.versions.items())]
    lines += [_TARGETS + " ".join(lock.targets)]
    for name, entry in sorted(lock.entries.items()):
        outcomes = ", ".join(f"{stage}={outcome}" for stage, outcome in entry.outcomes.items())
        lines.append(f"{name} {entry.digest} {outcomes}")
    with tempfile.NamedTemporaryFile("w", dir=path.parent, encoding="utf-8", delete=False) as file:
        file.write(_HEAD + "\n".join(lines) + "\n")
    os.chmod(file.name, 0o644)
    os.replace(file.name, path)


def name_of(case: Case) -> str:
    """A case's name in the lock."""
    return f"{case.rule}/{case.name}"


def inputs_of(case: Case, fixed: Mapping[str, str], targets: Sequence[str]) -> str:
    """A digest of all that the outcomes of a case depend on; `fixed` is the current output of `fix`."""
    parts: list[str | bytes] = [_FORMAT, *(part for pair in versions().items() for part in pair)]
    return digest(*parts, _verifier(), *targets, contents_of(case, fixed), size=_SIZE)


def contents_of(case: Case, fixed: Mapping[str, str]) -> str:
    """A digest of a case's files, of what `fix` makes of them, and of the runtime if that imports it."""
    parts: list[str | bytes] = [part for pair in sorted(fixed.items()) for part in pair]
    for path in _files(case.folder):
        parts += [path.relative_to(case.folder).as_posix(), _content(path)]
    if any(PACKAGE in text for text in fixed.values()):
        parts.append(_runtime())
    return digest("fixed", *parts)


def sealed(inputs: str, outcomes: Mapping[str, str]) -> str:
    """The digest of a line: of the inputs of its case and of its outcomes."""
    return digest(inputs, *(part for pair in outcomes.items() for part in pair), size=_SIZE)


def outcomes_of(results: Iterable[Result]) -> dict[str, str]:
    """The outcome of each stage of one case, by side and stage."""
    return {
        f"{row.side}/{row.stage}": NOT_RUN if row.state is State.NOT_RUN else row.outcome for row in results
    }


def _content(path: Path) -> str | bytes:
    """A file without the comments that name the wanted findings, which do not change what it does."""
    if path.suffix != ".py":
        return path.read_bytes()
    try:
        return fixture.strip_wants(fixture.read_source(path))
    except (SyntaxError, UnicodeDecodeError):  # an encoding that Python does not know
        return path.read_bytes()


def _files(folder: Path) -> list[Path]:
    """A case's files, without what Python and other tools leave there."""
    return sorted(
        path
        for path in folder.rglob("*")
        if path.is_file() and _LEFT_BY_TOOLS.isdisjoint(path.relative_to(folder).parts)
    )


@cache
def _runtime() -> str:
    """A digest of the installed runtime's code, without its tables of versions, which are in the lock."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = spec.submodule_search_locations if spec is not None else None
    files = [path for folder in folders or () for path in sorted(Path(folder).rglob("*.py"))]
    return digest(*(part for path in files for part in (path.name, path.read_bytes())))


@cache
def _verifier() -> str:
    """A digest of the code that reads cases, executes them and compares what they give."""
    files = [*sorted(Path(verify.__file__).parent.rglob("*.py")), Path(fixture.__file__)]
    return digest(*(part for path in files for part in (path.name, path.read_bytes())), size=_SIZE)
