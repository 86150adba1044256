"""What `tpulint verify` finds out about a user's programs and modules, as plain values and as JSON.

docs/verifying.md describes each field; `SCHEMA_VERSION` changes when one is renamed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1


class State(StrEnum):
    """Whether two runs gave the same."""

    SAME = "same"
    """Both were executed, and what was compared agrees."""
    DIFFERS = "differs"
    """Both were started; values differ, or the fixed code failed."""
    NOT_RUN = "not run"
    """Nothing can be said, for a stated reason."""


class LineState(StrEnum):
    """What an abstract trace says of a line, beside the findings of `check`."""

    CONFIRMED = "confirmed"
    """The trace failed here, and `check` reports it."""
    MISSED = "missed"
    """The trace failed here, and `check` reports nothing."""
    NOT_REACHED = "not reached"
    """`check` reports the line, and the trace did not execute it."""
    PASSED = "passed"
    """`check` reports the line, and the trace executed it without a failure."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A line of the user's code in a traceback; the path is relative to the project."""

    path: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception of the user's code, cut to the frames that are the user's."""

    side: str
    """Which code failed: `original` or `fixed`."""
    type: str
    message: str
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """One sort of values that were compared, such as the losses."""

    what: str
    state: State
    count: int = 0
    """How many values or tensors were compared."""
    difference: float = 0.0
    """The largest difference, relative to the largest value of its tensor."""
    drift: float = 0.0
    """The same between two runs of the original whose weights differ by 1e-6."""
    detail: str = ""
    """The first difference, or what was not compared and why."""


@dataclass(frozen=True, slots=True)
class TracedLine:
    """A line that fails under trace, or that `check` reports for code under trace."""

    state: LineState
    path: str
    line: int
    hazard: str = ""
    """What failed there; one of `tpulint.proof.workers.hazards.HAZARDS`."""
    message: str = ""
    code: str = ""
    """The code of the rule that reports the line."""
    source: str = ""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes in which batches arrive, each of which is compiled."""

    count: int
    shapes: tuple[str, ...] = ()
    batches: int = 0
    """How many batches were looked at."""
    is_all: bool = False
    """Whether these were all batches of the loader."""


@dataclass(frozen=True, slots=True)
class Trace:
    """All failures of one abstract trace of the original code, beside the findings of `check`."""

    state: str
    """`complete`, `stopped` (by a failure that no placeholder helps over), or `not run`."""
    lines: tuple[TracedLine, ...] = ()
    reason: str = ""
    """Why the trace stopped, or did not run."""
    shapes: Shapes | None = None
    """The shapes of the batches of a program's data loader."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Bytes on one chip, by the TPU compiler's assignment of buffers."""

    arguments: int = 0
    """Weights, optimizer state and batch."""
    outputs: int = 0
    aliased: int = 0
    """The part of the outputs that takes the place of arguments."""
    temporary: int = 0
    """Activations and other intermediate results."""
    code: int = 0
    kept: int = 0
    """Arrays that the program holds and that the function does not take."""
    undivided: int = 0
    """All bytes, where they exceed the memory: the compiler then does not say what they are for."""

    @property
    def total(self) -> int:
        """All bytes that are needed at one time."""
        own = self.arguments + self.outputs - self.aliased + self.temporary + self.code
        return own + self.kept + self.undivided


@dataclass(frozen=True, slots=True)
class Collective:
    """Communication between the chips of a mesh, by operation."""

    operation: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """What the TPU compiler says for one topology."""

    topology: str
    state: str
    """`compiles`, `fails` or `not run`."""
    chip: str = ""
    what: str = ""
    """What was compiled: `forward`, `forward and backward`, or the functions of a step."""
    memory: Memory = field(default_factory=Memory)
    hbm: int = 0
    """The bytes of one chip; 0 if not known."""
    fits: bool | None = None
    batch: int = 0
    largest_batch: int = 0
    """The largest batch that fits; 0 if that was not computed."""
    flops: float = 0.0
    bytes_accessed: float = 0.0
    seconds: float = 0.0
    """The compiler's bound on the time, from operations and bytes."""
    cycles: int = 0
    """The compiler's estimate for the operations that it scheduled."""
    chips: int = 1
    collectives: tuple[Collective, ...] = ()
    compile_seconds: float = 0.0
    error: str = ""
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """One program or module, and everything that was found out about it."""

    target: str
    kind: str
    """`program`, `module` or `function`."""
    state: State
    reason: str = ""
    """Why it was not run, or the first difference."""
    steps: int = 0
    """How many steps of an optimizer were compared."""
    compared: tuple[Compared, ...] = ()
    failure: Failure | None = None
    operations: int = 0
    """How many operations torchax executed."""
    fixes: int = 0
    """How many fixes were applied to the copy of the project."""
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    compiled: tuple[Compiled, ...] = ()
    is_compiled_only: bool = False
    """Whether it was not run because the user asked only for the compiler's results."""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """0: same, and compiled where asked for; 1: differs, fails to compile or does not fit; 2: not run."""
        failed = any(one.state == "fails" or one.fits is False for one in self.compiled)
        if self.state is State.DIFFERS or failed:
            return 1
        not_run = self.state is State.NOT_RUN and not self.is_compiled_only
        return 2 if not_run or any(one.state == "not run" for one in self.compiled) else 0


@dataclass(frozen=True, slots=True)
class Report:
    """One run of `tpulint verify`."""

    device: str
    """What executed the fixed code: `cpu`, `gpu` or `tpu`, by JAX."""
    versions: dict[str, str]
    verifications: tuple[Verification, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if anything differs, else 2 if anything (or everything) was not run, else 0."""
        return exit_code(self.verifications)


def exit_code(verifications: Iterable[Verification]) -> int:
    """The exit code of a run; nothing executed is never 0."""
    codes = {one.exit_code for one in verifications} or {2}
    return 1 if 1 in codes else max(codes)


def as_json(report: Report) -> dict[str, Any]:
    """A report in the documented form."""
    document = {"schema_version": SCHEMA_VERSION, "exit_code": report.exit_code, **asdict(report)}
    for row, verification in zip(document["verifications"], report.verifications, strict=True):
        for compiled, source in zip(row["compiled"], verification.compiled, strict=True):
            compiled["memory"]["total"] = source.memory.total
    return document
