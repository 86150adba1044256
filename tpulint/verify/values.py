"""What a call gave, as plain values that cross processes, and how two of them are compared.

Nothing here knows torch: the workers turn tensors into `Array`, the judge compares.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Place = Literal["host", "torchax", "numpy", "jax"]


@dataclass(frozen=True, slots=True)
class Array:
    """A tensor or an array: where it lives, the dtype that its owner states, and its values.

    Formats that numpy lacks (bfloat16, float8) come as float32, which holds each of their values exactly.
    """

    place: Place
    dtype: str
    data: np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Scalar:
    """A Python number, string or other small value that compares with `==`."""

    value: object


@dataclass(frozen=True, slots=True)
class Group:
    """A container: its kind and its items, each under a label."""

    kind: Literal["sequence", "mapping"]
    items: tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Opaque:
    """Something that cannot be compared, such as None, a module or a function."""

    type_name: str


Value = Array | Scalar | Group | Opaque


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far floating-point values may lie apart; None means what suits the dtype."""

    rtol: float | None = None
    atol: float | None = None

    def for_dtype(self, dtype: str) -> tuple[float, float]:
        """The relative and the absolute tolerance for a dtype."""
        rtol, atol = _TOLERANCES.get(dtype, (1e-5, 1e-5))
        return (rtol if self.rtol is None else self.rtol, atol if self.atol is None else self.atol)


# As torch.testing.assert_close has them, a little wider for float32: XLA orders sums differently.
_TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5)}

# torchax keeps 64 bit values in 32 bits unless told otherwise, in every program and for every rule.
_NARROWED = {"int64": "int32", "float64": "float32", "complex128": "complex64"}


@dataclass(slots=True)
class Comparison:
    """What a comparison found: the first difference, how much was compared, and what is worth a note."""

    difference: str | None = None
    compared: int = 0
    narrowed: set[str] = field(default_factory=set)
    notes: set[str] = field(default_factory=set)


def compare(reference: Value, got: Value, tolerance: Tolerance, name: str = "the result") -> Comparison:
    """Compare values, dtypes and shapes; where the values live is another question (see `arrays`)."""
    comparison = Comparison()
    comparison.difference = _difference(reference, got, tolerance, comparison, name)
    return comparison


def arrays(value: Value) -> Iterator[Array]:
    """Every tensor and array in the value."""
    match value:
        case Array():
            yield value
        case Group(items=items):
            for _, item in items:
                yield from arrays(item)
        case _:
            pass


def _difference(
    reference: Value, got: Value, tolerance: Tolerance, seen: Comparison, where: str
) -> str | None:
    match reference, got:
        case Group(), Group():
            return _group_difference(reference, got, tolerance, seen, where)
        case Array(), Array():
            seen.compared += 1
            return _array_difference(reference, got, tolerance, seen, where)
        case Scalar(value=bool() | int() | float() | complex()), Array() if got.data.ndim == 0:
            # A fix that keeps `.item()` in tensors, and any number that leaves a compiled function.
            seen.compared += 1
            seen.notes.add("a Python number came back as a 0-d tensor")
            return _number_difference(reference.value, got.data[()], got.dtype, tolerance, where)
        case Scalar(), Scalar():
            seen.compared += 1
            return _number_difference(reference.value, got.value, "float64", tolerance, where)
        case Opaque(), Opaque() if reference.type_name == got.type_name:
            return None
        case _:
            return f"{where} is {_kind(got)}, not {_kind(reference)}"


def _group_difference(
    reference: Group, got: Group, tolerance: Tolerance, seen: Comparison, where: str
) -> str | None:
    if reference.kind != got.kind:
        return f"{where} is {_kind(got)}, not {_kind(reference)}"
    ours, theirs = dict(got.items), dict(reference.items)
    if ours.keys() != theirs.keys():
        return f"{where} holds {_listing(ours)}, not {_listing(theirs)}"
    inside: Callable[[str], str] = lambda label: f"{where}[{label}]"  # noqa: E731
    for label, item in theirs.items():
        if difference := _difference(item, ours[label], tolerance, seen, inside(label)):
            return difference
    return None


def _listing(items: dict[str, Value]) -> str:
    return f"{len(items)} items ({', '.join(items)})" if len(items) < 8 else f"{len(items)} items"


def _array_difference(
    reference: Array, got: Array, tolerance: Tolerance, seen: Comparison, where: str
) -> str | None:
    if reference.data.shape != got.data.shape:
        return f"{where} has the shape {got.data.shape}, not {reference.data.shape}"
    if (reference.place == "numpy") != (got.place == "numpy"):
        return f"{where} is {_kind(got)}, not {_kind(reference)}"
    dtype, expected = reference.dtype, reference.data
    if got.dtype != dtype:
        if _NARROWED.get(dtype) != got.dtype:
            return f"{where} has the dtype {got.dtype}, not {dtype}"
        seen.narrowed.add(f"{dtype} became {got.dtype}")
        dtype = got.dtype
        if expected.dtype.kind in "fc":
            with np.errstate(over="ignore"):
                expected = expected.astype(got.data.dtype)
    return _values_difference(expected, got.data, dtype, tolerance, where)


def _values_difference(
    expected: np.ndarray[Any, Any], got: np.ndarray[Any, Any], dtype: str, tolerance: Tolerance, where: str
) -> str | None:
    if expected.dtype.kind in "fc":
        rtol, atol = tolerance.for_dtype(dtype)
        with np.errstate(invalid="ignore", over="ignore"):
            wrong = ~np.isclose(got, expected, rtol=rtol, atol=atol, equal_nan=True)
    else:
        # Unnarrowed: an int64 that does not fit into 32 bits came out as another number.
        wrong = got != expected
    if not wrong.any():
        return None
    index = tuple(int(i) for i in np.argwhere(wrong)[0])
    place = f"[{', '.join(map(str, index))}]" if index else ""
    share = f" ({int(wrong.sum())} of {wrong.size} differ)" if wrong.size > 1 else ""
    return f"{where}{place} is {got[index]}, not {expected[index]}{share}"


def _number_difference(
    expected: object, got: object, dtype: str, tolerance: Tolerance, where: str
) -> str | None:
    ours, theirs = np.asarray(got), np.asarray(expected)
    if "O" in (ours.dtype.kind, theirs.dtype.kind) or "U" in (ours.dtype.kind, theirs.dtype.kind):
        return None if expected == got else f"{where} is {_short(got)}, not {_short(expected)}"
    if ours.dtype.kind != theirs.dtype.kind:
        return f"{where} is {_short(got)} ({ours.dtype.name}), not {_short(expected)} ({theirs.dtype.name})"
    return _values_difference(theirs, ours, dtype, tolerance, where)


def _kind(value: Value) -> str:
    match value:
        case Array(place="numpy"):
            return "a numpy array"
        case Array(place="jax"):
            return "a jax.Array"
        case Array():
            return "a tensor"
        case Scalar():
            return f"the {type(value.value).__name__} {_short(value.value)}"
        case Group():
            return f"a {value.kind} of {len(value.items)}"
        case Opaque():
            return value.type_name


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
