"""Plain values: what a rule says about a piece of source, and how to change it.

Nothing here holds a tree, a file handle or a cache, so every value is picklable, comparable and
safe to hand from one process to another.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from tpulint.plan import Import, Rewrite, TextEdit


class Applicability(StrEnum):
    """How far a fix may be trusted, in the sense that ruff gives the word.

    `SAFE` keeps meaning and comments.
    `UNSAFE` is valid code that may change behaviour; the rule's page states when.
    `DISPLAY` is a recipe to read; it is never applied.
    """

    SAFE = "safe"
    UNSAFE = "unsafe"
    DISPLAY = "display"

    def __reduce_ex__(self, protocol: object) -> tuple[type[Applicability], tuple[str]]:
        # By class and value: the first releases of Python 3.11 pickle members through `getattr`, which the
        # cache, rightly, does not read back.
        return Applicability, (self.value,)


class Severity(StrEnum):
    """What happens on a TPU if the code of a finding stays as it is.

    `BLOCKS`: the program fails, gives a wrong result, or does not use the TPU.
    `SLOW`: the results are right, but the program is slower than it can be.
    `COSMETIC`: nothing changes for the program; the code has no use on a TPU.
    """

    BLOCKS = "blocks"
    SLOW = "slow"
    COSMETIC = "cosmetic"

    @property
    def rank(self) -> int:
        """0 for the highest severity."""
        return list(Severity).index(self)

    def __reduce_ex__(self, protocol: object) -> tuple[type[Severity], tuple[str]]:
        return Severity, (self.value,)  # as in `Applicability`


class Effort(StrEnum):
    """How long a change by hand takes where there is no fix: an estimate, not a measurement.

    `MINUTES`: a line is changed, and it is known how.
    `HOURS`: a function or a loop is written anew.
    `DAYS`: a library, or a kernel, is replaced.
    """

    MINUTES = "minutes"
    HOURS = "hours"
    DAYS = "days"


@dataclass(frozen=True, slots=True, order=True)
class Location:
    """A location in a text: row and column, both from 1, the column counted in characters."""

    row: int
    column: int


@dataclass(frozen=True, slots=True, order=True)
class Span:
    """The half-open range of characters `[start, end)` of a decoded text."""

    start: int
    end: int


@dataclass(frozen=True, slots=True, order=True)
class Edit:
    """A rewrite as reports give it: replace the text of `span` by `content`.

    The locations are those of the span's two ends.
    """

    span: Span
    content: str
    location: Location
    end_location: Location


@dataclass(frozen=True, slots=True)
class Fix:
    """Changes of one file that are applied together or not at all; `title` is a verb phrase.

    `rewrites` are those of Python code, and `edits` those of other files. `imports` are those that the
    rewritten code needs. `serves_cuda` says that the code is right on CUDA after the fix, so that the fix is
    the same with `--keep-gpu`.
    """

    title: str
    rewrites: tuple[Rewrite, ...]
    applicability: Applicability
    imports: tuple[Import, ...] = ()
    serves_cuda: bool = False
    edits: tuple[TextEdit, ...] = ()


#: The edits that a fix makes of its file, by the file's path and the fix.
Edits: TypeAlias = dict[tuple[str, Fix], tuple[Edit, ...]]


@dataclass(frozen=True, slots=True)
class Related:
    """Another place that explains the finding, such as one step of the chain from the trace root."""

    path: str
    location: Location
    message: str


@dataclass(frozen=True, slots=True)
class Finding:
    """One place where code does not do on TPU what it does on a GPU.

    `path` is absolute (or what standard input was called), `source_line` is the text of the first line of
    the span, without its line ending, so that a report needs no second look at the file.
    An `optional` finding is one of a rule that is off by default.
    """

    path: str
    location: Location
    end_location: Location
    code: str
    name: str
    message: str
    span: Span
    source_line: str
    fix: Fix | None = None
    related: tuple[Related, ...] = ()
    url: str | None = None
    optional: bool = False
    severity: Severity = Severity.BLOCKS

    @property
    def sort_key(self) -> tuple[str, Location, Location, str, str]:
        """Reports are ordered by place, then by code."""
        return (self.path, self.location, self.end_location, self.code, self.message)


@dataclass(frozen=True, slots=True)
class FileError:
    """A file that could not be analyzed, or not by all rules, and why, in one line.

    `code` is that of the rule that failed, if one did.
    """

    path: str
    message: str
    code: str = ""
