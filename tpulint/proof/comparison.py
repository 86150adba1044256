"""Compares the values of runs, with a tolerance that depends on how the original amplifies rounding errors.

A program is run three times: the original ("expected"), the original with each weight changed by 1e-6
("shifted"), and the fixed program ("actual").
The drift of a value is the difference of the first two.
The actual value may differ from the expected one by the tolerance of its dtype plus `SLACK` times the drift,
which counts up to a hundredth of the largest value of the tensor.
If the drift is larger than that, and the difference is at most `SLACK` times the drift, the value is not
compared: rounding errors alone determine it.
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
"""The change of each weight in the second run of the original."""
SLACK = 2.0
"""The factor of the drift in the tolerance: drift and difference are single samples of rounding errors."""
LARGEST_DRIFT = 0.01
"""The largest drift that counts, relative to the largest value."""
_NUMBER = re.compile(r"(?<![\w.])[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?(?![\w.]*\w)")
_DEVICE = re.compile(r"\b(?:cuda|jax|cpu|tpu|privateuseone)(?::\d+)?\b")


@dataclass(frozen=True, slots=True)
class Leaf:
    """A tensor or number of a result, with its name."""

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


def compare_values(
    what: str, expected: Value, actual: Value, shifted: Value, resolution: float = 0.0
) -> Compared:
    """Compare structure, dtypes and shapes exactly, and numbers with the tolerance.

    Args:
        what: the name of the values, such as `results`.
        expected: the values of the original.
        actual: the values of the fixed code.
        shifted: the values of the original with changed weights.
        resolution: the relative resolution of the dtype of the computation, if it has fewer bits than that of
            the values.
    """
    structure = compare(_zeroed(expected), _zeroed(actual), Tolerance(), what)
    if structure.difference:
        return Compared(what, State.DIFFERS, detail=structure.difference)
    sides = (list(leaves(side, what)) for side in (expected, actual, shifted))
    rows = [_compare_leaves(a, b, c, resolution) for a, b, c in zip(*sides, strict=False)]
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


def _zeroed(value: Value) -> Value:
    """A value with zeros in its arrays, to compare only structure, dtypes and shapes."""
    match value:
        case Array(device, dtype, data):
            return Array(device, dtype, np.zeros(data.shape, data.dtype))
        case Group(kind, items):
            return Group(kind, tuple((label, _zeroed(item)) for label, item in items))
        case Scalar(value=float()):
            return Scalar(0.0)
    return value


@dataclass(frozen=True, slots=True)
class _Row:
    """The comparison of one leaf; difference and drift are relative to its largest value."""

    difference: float
    drift: float
    is_wrong: bool
    detail: str = ""
    is_undetermined: bool = False


def _compare_leaves(reference: Leaf, fixed: Leaf, perturbed: Leaf, resolution: float) -> _Row:
    expected, actual, shifted = (np.asarray(side.data) for side in (reference, fixed, perturbed))
    if expected.size == 0:
        return _Row(0.0, 0.0, is_wrong=False)
    if expected.dtype.kind not in "fc":
        # Integers must be equal where the two runs of the original agree.
        wrong = (
            (actual != expected) & (shifted == expected)
            if shifted.shape == expected.shape
            else actual != expected
        )
        detail = f"{reference.name}: {int(wrong.sum())} of {wrong.size} integers differ"
        return _Row(float(wrong.mean()), 0.0, is_wrong=bool(wrong.any()), detail=detail)
    scale = _largest(expected) or 1.0
    rtol, atol = Tolerance().for_dtype(reference.dtype)
    drift = _largest(shifted - expected) if shifted.shape == expected.shape else 0.0
    with np.errstate(invalid="ignore"):
        apart = np.where(_equal(actual, expected), 0.0, np.abs(actual - expected))
    allowed = atol + max(rtol, resolution) * np.abs(expected) + min(SLACK * drift, LARGEST_DRIFT * scale)
    wrong = ~(apart <= allowed)
    difference = float(np.nanmax(apart)) / scale if not np.isnan(apart).all() else math.inf
    if not wrong.any():
        return _Row(difference, drift / scale, is_wrong=False)
    if drift > LARGEST_DRIFT * scale and difference * scale <= SLACK * drift:
        return _Row(0.0, drift / scale, is_wrong=False, is_undetermined=True)
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    position = f"[{', '.join(map(str, index))}]" if index else ""
    share = f" ({int(wrong.sum())} of {wrong.size} differ)" if wrong.size > 1 else ""
    detail = f"{reference.name}{position} is {actual[index]:.7g}, not {expected[index]:.7g}{share}"
    return _Row(difference, drift / scale, is_wrong=True, detail=detail)


def _equal(actual: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return np.asarray((actual == expected) | (np.isnan(actual) & np.isnan(expected)))


def _largest(array: np.ndarray[Any, Any]) -> float:
    """The largest finite magnitude."""
    finite = np.abs(array[np.isfinite(array)])
    return float(finite.max()) if finite.size else 0.0


def compare_records(
    expected: Record, actual: Record, shifted: Record, resolution: float
) -> Iterator[Compared]:
    """Compare losses, parameters and buffers of the runs of a program."""
    if expected.losses:
        yield _compare_losses(expected, actual, shifted, max(resolution, 1e-5))
    for what in ("parameters", "buffers"):
        due, ours, other = (_state(record, what, expected) for record in (expected, actual, shifted))
        if due.items or ours.items:
            yield compare_values(what, due, ours, other, resolution)


def _compare_losses(reference: Record, fixed: Record, perturbed: Record, rtol: float) -> Compared:
    records = (reference, fixed, perturbed)
    expected, actual, shifted = ([loss.value for loss in record.losses] for record in records)
    if len(expected) != len(actual):
        return Compared(
            "losses", State.DIFFERS, len(expected), detail=f"{len(actual)} losses, not {len(expected)}"
        )
    drifts = itertools.accumulate((abs(a - b) for a, b in zip(expected, shifted, strict=False)), max)
    difference, worst, compared = 0.0, 0.0, 0
    for number, (a, b, drift) in enumerate(zip(expected, actual, drifts, strict=False), 1):
        apart = 0.0 if a == b or (math.isnan(a) and math.isnan(b)) else abs(a - b)
        scale = abs(a) or 1.0
        if drift > LARGEST_DRIFT * scale and apart <= SLACK * drift:
            break
        compared, difference, worst = number, max(difference, apart / scale), max(worst, drift / scale)
        if not apart <= 1e-5 + rtol * abs(a) + min(SLACK * drift, LARGEST_DRIFT * scale):
            detail = f"loss {number} is {b:.7g}, not {a:.7g}"
            return Compared("losses", State.DIFFERS, len(expected), difference, worst, detail)
    left = len(expected) - compared
    detail = f"{left} more not compared: rounding alone determines them" if left else ""
    return Compared("losses", State.SAME if compared else State.NOT_RUN, compared, difference, worst, detail)


def irreproducibility(expected: Record, shifted: Record) -> str:
    """Why the original is not reproducible; "" if the drift of its first loss is small."""
    if not expected.losses or not shifted.losses:
        return ""
    first, other = expected.losses[0].value, shifted.losses[0].value
    if math.isfinite(first) and abs(first - other) > LARGEST_DRIFT * max(abs(first), 1e-3):
        return (
            f"the original is not reproducible: with each weight changed by {SHIFT:g}, its first loss is "
            f"{other:.6g}, not {first:.6g}; set the seeds of all random number generators"
        )
    return ""


def _state(record: Record, what: str, reference: Record) -> Group:
    """The parameters or the buffers (`what`) of all modules of a run."""
    items: list[tuple[str, Group]] = []
    for number, state in enumerate(record.states):
        names = reference.states[number].parameters if number < len(reference.states) else state.parameters
        chosen = [
            (name, value) for name, value in state.values.items if (name in names) == (what == "parameters")
        ]
        if chosen:
            items.append((state.module, Group("mapping", tuple(chosen))))
    return items[0][1] if len(items) == 1 else Group("sequence", tuple(items))


def compare_printed(reference: str, fixed: str, perturbed: str, resolution: float = 0.0) -> Compared | None:
    """Compare printed lines: text exactly, and numbers with the tolerance.

    Lines that differ between the runs of the original are not compared. None if nothing is printed.
    """
    expected, actual, shifted = (_lines(text) for text in (reference, fixed, perturbed))
    if not expected and not actual:
        return None
    skipped = 0
    for row, (line, due) in enumerate(zip(actual, expected, strict=False), 1):
        other = shifted[row - 1] if row <= len(shifted) else due
        outcome = _compare_line(line, due, other, max(resolution, 1e-5))
        if outcome == "skip":
            skipped += 1
        elif outcome:
            detail = f"line {row} is {line!r}, not {due!r}"
            return Compared("printed lines", State.DIFFERS, len(expected), detail=detail)
    if len(actual) != len(expected):
        return Compared(
            "printed lines", State.DIFFERS, len(expected), detail=f"{len(actual)} lines, not {len(expected)}"
        )
    detail = f"{skipped} not compared: the original prints other numbers each time" if skipped else ""
    state = State.SAME if skipped < len(expected) else State.NOT_RUN
    return Compared("printed lines", state, len(expected) - skipped, detail=detail)


def _lines(text: str) -> list[str]:
    return [_DEVICE.sub("DEVICE", line.rstrip()) for line in text.splitlines() if line.strip()]


def _compare_line(actual: str, expected: str, shifted: str, rtol: float) -> str:
    """`skip` if the runs of the original differ, `text` or `number` if the fixed one differs, or ""."""
    numbers = [_NUMBER.findall(line) for line in (actual, expected, shifted)]
    if _NUMBER.split(shifted) != _NUMBER.split(expected):
        return "skip"
    if _NUMBER.split(actual) != _NUMBER.split(expected):
        return "text"
    is_irreproducible = False
    for a, b, c in zip(*numbers, strict=True):
        ours, due, other = float(a), float(b), float(c)
        last = _last_digit(b)
        drift = abs(due - other)
        if drift > LARGEST_DRIFT * max(abs(due), last):
            is_irreproducible = True
        elif not abs(ours - due) <= 1e-5 + rtol * abs(due) + SLACK * drift + last:
            return "number"
    return "skip" if is_irreproducible else ""


def _last_digit(number: str) -> float:
    """The value of one unit in the last printed digit, which rounding may change; 0 for an integer."""
    mantissa, _, exponent = number.lower().partition("e")
    decimals = len(mantissa.partition(".")[2])
    if not decimals and not exponent:
        return 0.0
    return 10.0 ** (int(exponent or 0) - decimals)


def overall_state(compared: Sequence[Compared]) -> State:
    """`DIFFERS` if a row differs, else `SAME` if a row is the same, else `NOT_RUN`."""
    states = {one.state for one in compared}
    if State.DIFFERS in states:
        return State.DIFFERS
    return State.SAME if State.SAME in states else State.NOT_RUN
