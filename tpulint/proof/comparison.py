"""Compares what two runs left behind, by the drift that a shift of the weights by 1e-6 causes.

The same program is run three times: the original, the original with each weight changed by 1e-6, and the
fixed one.
A value may differ by the tolerance of its dtype, and by `SLACK` times the difference of the first two runs,
up to a hundredth of the largest value of its tensor.
Where the first two runs differ by more than that, and the third is no farther away, nothing is compared:
rounding alone determines the value.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tpulint.proof.results import Compared, State
from tpulint.verify.record import Record
from tpulint.verify.values import Array, Group, Opaque, Scalar, Tolerance, Value, compare

SHIFT = 1e-6
SLACK = 2.0
"""How many times the drift a difference may be: both are single samples of how rounding grows."""
CHAOS = 0.01
"""The largest relative drift that can be a yardstick."""
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_DEVICE = re.compile(r"\b(?:cuda|jax|cpu|tpu|privateuseone)(?::\d+)?\b")


@dataclass(frozen=True, slots=True)
class Leaf:
    """One tensor or number of a result, under its name."""

    name: str
    dtype: str
    data: np.ndarray[Any, Any]


def leaves(value: Value, name: str) -> Iterator[Leaf]:
    """All tensors and numbers of a value."""
    match value:
        case Array():
            yield Leaf(name, value.dtype, value.data)
        case Scalar(value=bool() | int() | float() | complex() as number):
            yield Leaf(name, "float64", np.asarray(number))
        case Group(items=items):
            for label, item in items:
                yield from leaves(item, f"{name}[{label}]")
        case Scalar() | Opaque():
            pass


def values(what: str, reference: Value, got: Value, shifted: Value, resolution: float = 0.0) -> Compared:
    """Compare structure, dtypes and shapes exactly, and numbers by the drift.

    `resolution` is what the dtype resolves in which they were computed, if that has fewer bits than theirs.
    """
    structure = compare(_hollow(reference), _hollow(got), Tolerance(), what)
    if structure.difference:
        return Compared(what, State.DIFFERS, detail=structure.difference)
    sides = (list(leaves(side, what)) for side in (reference, got, shifted))
    rows = [_leaf(due, ours, moved, resolution) for due, ours, moved in zip(*sides, strict=False)]
    if not rows:
        return Compared(what, State.NOT_RUN, detail="there are no numbers to compare")
    wrong = [row for row in rows if row.is_wrong]
    difference, drift = max(row.difference for row in rows), max(row.drift for row in rows)
    if wrong:
        detail = max(wrong, key=lambda row: row.difference).detail
        return Compared(what, State.DIFFERS, len(rows), difference, drift, detail)
    undetermined = sum(row.is_undetermined for row in rows)
    detail = f"{undetermined} more not compared: rounding alone determines them" if undetermined else ""
    state = State.SAME if undetermined < len(rows) else State.NOT_RUN
    return Compared(what, state, len(rows) - undetermined, difference, drift, detail)


def _hollow(value: Value) -> Value:
    """A value whose arrays hold zeros, so that only structure, dtypes and shapes are compared."""
    match value:
        case Array(place, dtype, data):
            return Array(place, dtype, np.zeros(data.shape, data.dtype))
        case Group(kind, items):
            return Group(kind, tuple((label, _hollow(item)) for label, item in items))
        case Scalar(value=float()):
            return Scalar(0.0)
    return value


@dataclass(frozen=True, slots=True)
class _Row:
    difference: float
    drift: float
    is_wrong: bool
    detail: str = ""
    is_undetermined: bool = False


def _leaf(reference: Leaf, got: Leaf, shifted: Leaf, resolution: float) -> _Row:
    due, ours, moved = (np.asarray(side.data) for side in (reference, got, shifted))
    if due.size == 0:
        return _Row(0.0, 0.0, is_wrong=False)
    if due.dtype.kind not in "fc":
        # Whole numbers: equal where the original repeats them.
        wrong = (ours != due) & (moved == due) if moved.shape == due.shape else ours != due
        apart_share = float(wrong.mean())
        detail = f"{reference.name}: {int(wrong.sum())} of {wrong.size} whole numbers differ"
        return _Row(apart_share, 0.0, is_wrong=bool(wrong.any()), detail=detail)
    scale = _largest(due) or 1.0
    rtol, atol = Tolerance().for_dtype(reference.dtype)
    drift = _largest(moved - due) if moved.shape == due.shape else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where(_equal(ours, due), 0.0, np.abs(ours - due))
    allowed = atol + max(rtol, resolution) * np.abs(due) + min(SLACK * drift, CHAOS * scale)
    wrong = ~(apart <= allowed)
    difference = float(np.nanmax(apart)) / scale if not np.isnan(apart).all() else math.inf
    if not wrong.any():
        return _Row(difference, drift / scale, is_wrong=False)
    if drift > CHAOS * scale and difference * scale <= SLACK * drift:
        return _Row(0.0, drift / scale, is_wrong=False, is_undetermined=True)
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"[{', '.join(map(str, index))}]" if index else ""
    share = f" ({int(wrong.sum())} of {wrong.size} differ)" if wrong.size > 1 else ""
    detail = f"{reference.name}{place} is {ours[index]:.7g}, not {due[index]:.7g}{share}"
    return _Row(difference, drift / scale, is_wrong=True, detail=detail)


def _equal(ours: np.ndarray[Any, Any], due: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray((ours == due) | (np.isnan(ours) & np.isnan(due)))


def _largest(array: np.ndarray[Any, Any]) -> float:
    """The largest finite magnitude."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def records(reference: Record, got: Record, shifted: Record, resolution: float) -> Iterator[Compared]:
    """Compare losses, parameters and buffers of a program's runs."""
    if reference.losses:
        yield _losses(reference, got, shifted, max(resolution, 1e-5))
    for what in ("parameters", "buffers"):
        due, ours, moved = (_state(record, what, reference) for record in (reference, got, shifted))
        if due.items or ours.items:
            yield values(what, due, ours, moved, resolution)


def _losses(reference: Record, got: Record, shifted: Record, rtol: float) -> Compared:
    due, ours, moved = ([loss.value for loss in record.losses] for record in (reference, got, shifted))
    if len(due) != len(ours):
        return Compared("losses", State.DIFFERS, len(due), detail=f"{len(ours)} losses, not {len(due)}")
    drifts = itertools.accumulate((abs(a - b) for a, b in zip(due, moved, strict=False)), max)
    difference, worst, compared = 0.0, 0.0, 0
    for number, (a, b, drift) in enumerate(zip(due, ours, drifts, strict=False), 1):
        apart = 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b)
        scale = abs(a) or 1.0
        if drift > CHAOS * scale and apart <= SLACK * drift:
            break
        compared, difference, worst = number, max(difference, apart / scale), max(worst, drift / scale)
        if not apart <= 1e-5 + rtol * abs(a) + min(SLACK * drift, CHAOS * scale):
            detail = f"loss {number} is {b:.7g}, not {a:.7g}"
            return Compared("losses", State.DIFFERS, len(due), difference, worst, detail)
    left = len(due) - compared
    detail = f"{left} more not compared: rounding alone determines them" if left else ""
    return Compared("losses", State.SAME if compared else State.NOT_RUN, compared, difference, worst, detail)


def repeats_itself(reference: Record, shifted: Record) -> str:
    """Why the original cannot be compared with anything; empty if its first loss hardly drifts."""
    if not reference.losses or not shifted.losses:
        return ""
    first, moved = reference.losses[0].value, shifted.losses[0].value
    if math.isfinite(first) and abs(first - moved) > CHAOS * max(abs(first), 1e-3):
        return (
            f"the original does not repeat itself: with each weight changed by {SHIFT:g}, its first loss is "
            f"{moved:.6g}, not {first:.6g}; set the seeds of all its random numbers"
        )
    return ""


def _state(record: Record, what: str, reference: Record) -> Group:
    """The parameters, or the buffers, of all modules of a run."""
    items: list[tuple[str, Group]] = []
    for number, state in enumerate(record.states):
        names = reference.states[number].parameters if number < len(reference.states) else state.parameters
        chosen = [
            (name, value) for name, value in state.values.items if (name in names) == (what == "parameters")
        ]
        if chosen:
            items.append((state.module, Group("mapping", tuple(chosen))))
    return items[0][1] if len(items) == 1 else Group("sequence", tuple(items))


def printed(reference: str, got: str, shifted: str, resolution: float = 0.0) -> Compared | None:
    """Compare printed lines: text exactly, numbers by the drift; leave out those that vary by themselves."""
    due, ours, moved = (_lines(text) for text in (reference, got, shifted))
    if not due and not ours:
        return None
    skipped = 0
    for row, (line, expected) in enumerate(zip(ours, due, strict=False), 1):
        other = moved[row - 1] if row <= len(moved) else expected
        word = _line(line, expected, other, max(resolution, 1e-5))
        if word == "skip":
            skipped += 1
        elif word:
            return Compared(
                "printed lines", State.DIFFERS, len(due), detail=f"line {row} is {line!r}, not {expected!r}"
            )
    if len(ours) != len(due):
        return Compared("printed lines", State.DIFFERS, len(due), detail=f"{len(ours)} lines, not {len(due)}")
    detail = f"{skipped} not compared: the original prints other numbers each time" if skipped else ""
    state = State.SAME if skipped < len(due) else State.NOT_RUN
    return Compared("printed lines", state, len(due) - skipped, detail=detail)


def _lines(text: str) -> list[str]:
    return [_DEVICE.sub("DEVICE", line.rstrip()) for line in text.splitlines() if line.strip()]


def _line(ours: str, due: str, moved: str, rtol: float) -> str:
    """`skip` for a line that the original does not repeat, else what is wrong."""
    numbers = [_NUMBER.findall(line) for line in (ours, due, moved)]
    if _NUMBER.split(moved) != _NUMBER.split(due):
        return "skip"
    if _NUMBER.split(ours) != _NUMBER.split(due):
        return "text"
    unrepeated = False
    for a, b, c in zip(*numbers, strict=True):
        mine, reference, other = float(a), float(b), float(c)
        last = _last_digit(b)
        drift = abs(reference - other)
        if drift > CHAOS * max(abs(reference), last):
            unrepeated = True
        elif not abs(mine - reference) <= 1e-5 + rtol * abs(reference) + SLACK * drift + last:
            return "number"
    return "skip" if unrepeated else ""


def _last_digit(number: str) -> float:
    """The value of one in the last digit of a printed number: rounding may change it; 0 for a whole one."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not decimals and not exponent:
        return 0.0
    return 10.0 ** (int(exponent or 0) - decimals)


def worst(compared: Sequence[Compared]) -> State:
    """Differs if anything does; same if something was compared; else not run."""
    states = {one.state for one in compared}
    if State.DIFFERS in states:
        return State.DIFFERS
    return State.SAME if State.SAME in states else State.NOT_RUN
