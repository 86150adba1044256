"""The results of `tpulint verify`, as plain values and as JSON.

docs/verifying.md describes the fields; `SCHEMA_VERSION` changes when a field is renamed or removed.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any

SCHEMA_VERSION = 1


class State(StrEnum):
    """The result of comparing two runs."""

    SAME = "same"
    """Both were executed, and all compared values agree."""
    DIFFERS = "differs"
    """A value differs, or the fixed code fails."""
    NOT_RUN = "not run"
    """There is no result; `reason` says why."""


class LineState(StrEnum):
    """The result of an abstract trace for a line, compared with the findings of `check`."""

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
    """A frame of a traceback in the user's code; the path is relative to the project."""

    path: str
    line: int
    function: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    """An exception in the user's code, with the frames that are in the user's code."""

    side: str
    """The code that failed: `original` or `fixed`."""
    type: str
    message: str
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Compared:
    """The comparison of one type of values, such as the losses."""

    what: str
    state: State
    count: int = 0
    """The number of values or tensors that were compared."""
    difference: float = 0.0
    """The largest difference, relative to the largest value of its tensor."""
    drift: float = 0.0
    """The largest difference between two runs of the original whose weights differ by 1e-6."""
    detail: str = ""
    """The first difference, or what was not compared and why."""


@dataclass(frozen=True, slots=True)
class TracedLine:
    """A line that fails under trace, or that `check` reports for code under trace."""

    state: LineState
    path: str
    line: int
    hazard: str = ""
    """The type of the failure; one of `tpulint.proof.workers.hazards.HAZARDS`."""
    message: str = ""
    code: str = ""
    """The code of the rule that reports the line."""
    source: str = ""
    """The source text of the line."""


@dataclass(frozen=True, slots=True)
class Shapes:
    """The shapes of the batches of a data loader; JAX compiles the step for each."""

    count: int
    shapes: tuple[str, ...] = ()
    batches: int = 0
    """The number of batches that were examined."""
    is_all: bool = False
    """Whether these are all batches of the loader."""


@dataclass(frozen=True, slots=True)
class Trace:
    """All failures of an abstract trace of the original, compared with the findings of `check`."""

    state: str
    """`complete`, `stopped` (by a failure for which there is no placeholder), or `not run`."""
    lines: tuple[TracedLine, ...] = ()
    reason: str = ""
    """Why the trace stopped, or was not run."""
    shapes: Shapes | None = None
    """The shapes of the batches of a program's data loader."""


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory of one chip in bytes, from the buffer assignment of the TPU compiler."""

    arguments: int = 0
    """Weights, optimizer state and batch."""
    outputs: int = 0
    aliased: int = 0
    """The part of the outputs that reuses the memory of arguments."""
    temporary: int = 0
    """Activations and other intermediate results."""
    code: int = 0
    kept: int = 0
    """Live arrays of the program that are not arguments of the function."""
    undivided: int = 0
    """All bytes, if they exceed the memory of the chip: then the compiler reports only their sum."""

    @property
    def total(self) -> int:
        """The peak memory."""
        own = self.arguments + self.outputs - self.aliased + self.temporary + self.code
        return own + self.kept + self.undivided


@dataclass(frozen=True, slots=True)
class Collective:
    """The number of collectives of one operation, such as `all-reduce`, and the bytes of their results."""

    operation: str
    count: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Compiled:
    """The result of the TPU compiler for one topology."""

    topology: str
    state: str
    """`compiles`, `fails` or `not run`."""
    chip: str = ""
    what: str = ""
    """The compiled code: `forward`, `forward and backward`, or the functions of a step."""
    memory: Memory = field(default_factory=Memory)
    hbm: int = 0
    """The memory of one chip in bytes; 0 if it is not known."""
    fits: bool | None = None
    batch: int = 0
    largest_batch: int = 0
    """The largest batch size that fits into memory; 0 if it was not searched for."""
    flops: float = 0.0
    bytes_accessed: float = 0.0
    seconds: float = 0.0
    """A lower bound of the time, which the compiler computes from operations and bytes."""
    cycles: int = 0
    """The cycles that the compiler estimates for the scheduled operations."""
    chips: int = 1
    collectives: tuple[Collective, ...] = ()
    compile_seconds: float = 0.0
    error: str = ""
    frames: tuple[Frame, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """The result for one program or module."""

    target: str
    kind: str
    """`program`, `module` or `function`."""
    state: State
    reason: str = ""
    """Why it was not run, or the first difference."""
    steps: int = 0
    """The number of optimizer steps that were compared."""
    compared: tuple[Compared, ...] = ()
    failure: Failure | None = None
    operations: int = 0
    """The number of operations that torchax executed."""
    fixes: int = 0
    """The number of fixes that were applied to the copy of the project."""
    notes: tuple[str, ...] = ()
    trace: Trace | None = None
    compiled: tuple[Compiled, ...] = ()
    is_compiled_only: bool = False
    """Whether it was not run because of `--compile-only`."""
    seconds: float = 0.0

    @property
    def exit_code(self) -> int:
        """1 if it differs, does not compile or does not fit into memory, else 2 if it was not run, else 0."""
        failed = any(one.state == "fails" or one.fits is False for one in self.compiled)
        if self.state is State.DIFFERS or failed:
            return 1
        not_run = self.state is State.NOT_RUN and not self.is_compiled_only
        return 2 if not_run or any(one.state == "not run" for one in self.compiled) else 0


@dataclass(frozen=True, slots=True)
class Report:
    """The results of one `tpulint verify`."""

    device: str
    """The device that executed the fixed code: `cpu`, `gpu` or `tpu`."""
    versions: dict[str, str]
    verifications: tuple[Verification, ...] = ()

    @property
    def exit_code(self) -> int:
        """1 if the exit code of a verification is 1, else 2 if one is 2 or there is none, else 0."""
        return exit_code(self.verifications)


def exit_code(verifications: Iterable[Verification]) -> int:
    """The exit code of several verifications; 2 if there is none."""
    codes = {one.exit_code for one in verifications} or {2}
    return 1 if 1 in codes else max(codes)


def as_json(report: Report) -> dict[str, Any]:
    """A report as JSON values; see docs/verifying.md."""
    document = {"schema_version": SCHEMA_VERSION, "exit_code": report.exit_code, **asdict(report)}
    for row, verification in zip(document["verifications"], report.verifications, strict=True):
        for compiled, source in zip(row["compiled"], verification.compiled, strict=True):
            compiled["memory"]["total"] = source.memory.total
    return document
