"""`evidence.lock`: what each case came to when it was executed, and a digest of all that this depends on.

A line is a case, its digest, and the outcome of each stage::

    item_in_traced_code/example 3f9c… original/reference=runs original/eager=equal fixed/jit=equal …

The digest covers the case's own files, what `fix` makes of it, with the runtime where the fix writes it, the
verifier's own code, the TPU targets, the versions of Python and of the packages, and the outcomes
themselves, so that a line that was edited by hand no longer fits.
It does not cover the case's name, so that a case may be renamed together with its line.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from tpulint import fixture
from tpulint.fixture import Case
from tpulint.verify.result import Result, State, case_state

NAME = "evidence.lock"
"""The name of the file, beside the rules' folders of cases."""
PACKAGES = ("torch", "torchvision", "torchax", "jax", "jaxlib", "libtpu", "numpy", "pillow")
_HEAD = """\
# What each case came to when it was executed, and a digest of all that this depends on.
# Written by `make evidence` and `make test`; see CONTRIBUTING.md.
"""
_VERSIONS, _TARGETS = "# versions: ", "# targets: "
NOT_RUN = "not run"


class LockError(Exception):
    """A lock file that cannot be read; the text says where and why."""


@dataclass(frozen=True, slots=True)
class Entry:
    """What one case came to: outcomes by side and stage, such as `fixed/eager`, and their digest."""

    digest: str
    outcomes: Mapping[str, str]

    @property
    def is_run(self) -> bool:
        """Whether the case was executed, rather than left out for a stated reason."""
        return any(
            outcome != NOT_RUN for stage, outcome in self.outcomes.items() if not stage.endswith("/reference")
        )


@dataclass(frozen=True, slots=True)
class Lock:
    """A lock file, read; `versions` and `targets` are those that its entries were made with."""

    versions: Mapping[str, str] = field(default_factory=dict)
    targets: tuple[str, ...] = ()
    entries: Mapping[str, Entry] = field(default_factory=dict)


@cache
def versions() -> Mapping[str, str]:
    """The versions of Python and of the packages that outcomes depend on; "" for one that is not installed.

    Python's patch level and a build's local part, as in `2.13.0+cpu`, are left out: neither changes what a
    case comes to.
    """
    found = {"python": f"{sys.version_info.major}.{sys.version_info.minor}"}
    for name in PACKAGES:
        try:
            found[name] = importlib.metadata.version(name).partition("+")[0]
        except importlib.metadata.PackageNotFoundError:
            found[name] = ""
    return found


def read(path: Path) -> Lock:
    """The lock in a file; an empty one if there is none.

    Raises:
        LockError: for a line that is none of a lock.
    """
    if not path.exists():
        return Lock()
    lock, entries = Lock(), dict[str, Entry]()
    for row, line in enumerate(path.read_text("utf-8").splitlines(), 1):
        if line.startswith(_VERSIONS):
            lock = replace(lock, versions=dict(_pairs(line[len(_VERSIONS) :], ",", " ", path, row)))
        elif line.startswith(_TARGETS):
            lock = replace(lock, targets=tuple(line[len(_TARGETS) :].split()))
        elif line and not line.startswith("#"):
            name, _, rest = line.partition(" ")
            digest, _, outcomes = rest.partition(" ")
            entries[name] = Entry(digest, dict(_pairs(outcomes, ",", "=", path, row)))
    return replace(lock, entries=entries)


def _pairs(text: str, between: str, within: str, path: Path, row: int) -> Iterable[tuple[str, str]]:
    for part in text.split(between):
        key, found, value = part.strip().partition(within)
        if not (key and found):
            raise LockError(f"{path}:{row}: `{part.strip()}` is none of a lock: run `make evidence`")
        yield key, value


def write(path: Path, lock: Lock) -> None:
    """Put a lock in a file, one line a case, sorted."""
    lines = [_HEAD, _VERSIONS + ", ".join(f"{name} {version}" for name, version in lock.versions.items())]
    lines += [_TARGETS + " ".join(lock.targets)]
    lines += [
        f"{name} {entry.digest} "
        + ", ".join(f"{stage}={outcome}" for stage, outcome in entry.outcomes.items())
        for name, entry in sorted(lock.entries.items())
    ]
    path.write_text(lines[0] + "\n".join(lines[1:]) + "\n", "utf-8")


def name_of(case: Case) -> str:
    """A case's name in the lock."""
    return f"{case.rule}/{case.name}"


def digest(case: Case, fixed: Mapping[str, str], targets: Sequence[str], outcomes: Mapping[str, str]) -> str:
    """A digest of some outcomes and of all that they depend on; `fixed` is what `fix` makes of a case now."""
    whole = hashlib.blake2b(digest_size=16)

    def add(*parts: str | bytes) -> None:
        for part in parts:
            data = part.encode("utf-8", "surrogatepass") if isinstance(part, str) else part
            whole.update(len(data).to_bytes(8, "big") + data)

    add(*(part for pair in versions().items() for part in pair), _verifier(), *targets)
    for path in _files(case.folder):
        add(path.relative_to(case.folder).as_posix(), path.read_bytes())
    add("fixed", *(part for pair in sorted(fixed.items()) for part in pair))
    add("outcomes", *(part for pair in outcomes.items() for part in pair))
    return whole.hexdigest()


def _files(folder: Path) -> list[Path]:
    """A case's files, without what Python and other tools leave there."""
    found = (path for path in folder.rglob("*") if path.is_file() and path.suffix != ".pyc")
    return sorted(p for p in found if not any(part.startswith(".") for part in p.relative_to(folder).parts))


@cache
def _verifier() -> bytes:
    """A digest of the code that executes cases and compares what they give."""
    whole = hashlib.blake2b(digest_size=16)
    for path in (*sorted(Path(__file__).parent.glob("*.py")), Path(fixture.__file__)):
        whole.update(path.name.encode() + b"\0" + path.read_bytes())
    return whole.digest()


def outcomes_of(results: Iterable[Result]) -> dict[str, str]:
    """What the stages of one case came to, by side and stage."""
    return {
        f"{row.side}/{row.stage}": NOT_RUN if row.state is State.NOT_RUN else row.outcome for row in results
    }


def entry_of(
    case: Case, fixed: Mapping[str, str], targets: Sequence[str], results: Sequence[Result]
) -> Entry | None:
    """The entry for what a case came to just now; None where it failed, of which a lock keeps nothing."""
    if case_state(results) is State.FAILED:
        return None
    outcomes = outcomes_of(results)
    return Entry(digest(case, fixed, targets, outcomes), outcomes)
