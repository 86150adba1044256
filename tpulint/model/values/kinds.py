"""Kinds of values: the small lattice that inference works in.

`UNKNOWN` is an ordinary value that every reader must handle; it never poses as anything.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import EllipsisType
from typing import Final


class Kind:
    """The inferred type of a value at one location."""

    __slots__ = ()

    @property
    def is_tensor(self) -> bool:
        """Whether the value is a tensor for certain."""
        return False

    @property
    def is_traced(self) -> bool:
        """Whether the value is a tensor that has no value while tracing."""
        return False

    @property
    def holds_tracer(self) -> bool:
        """Whether the value is, or holds, a tensor that has no value while tracing."""
        return self.is_traced


@dataclass(frozen=True, slots=True)
class Unknown(Kind):
    """Nothing is known."""


@dataclass(frozen=True, slots=True)
class Tensor(Kind):
    """A tensor.

    `dtype` is "bool", "int", "float" or "" where unknown.
    `scalar` says that it is proven to have no dimensions.
    `origins` are the offsets of the calls that made it on the host, none where it was not made there or
    nobody knows.
    `certain` is false where the value may also be something else, such as a Python number.
    `root` is the name of the variable from which it was computed element by element, so that a mask
    made by comparing `x` is known to have the shape of `x`.
    """

    dtype: str = ""
    scalar: bool = False
    origins: frozenset[int] = frozenset()
    certain: bool = True
    root: str = ""

    @property
    def is_tensor(self) -> bool:
        """Whether it is a tensor for certain."""
        return self.certain

    @property
    def is_bool(self) -> bool:
        """Whether it is a boolean tensor for certain."""
        return self.certain and self.dtype == "bool"

    @property
    def is_traced(self) -> bool:
        """Whether it is a tracer while tracing: a tensor for certain, and not one made on the host."""
        return self.certain and not self.origins

    @property
    def is_mask(self) -> bool:
        """Whether it is a tracer of booleans with dimensions: an index that chooses elements."""
        return self.is_bool and self.is_traced and not self.scalar

    @property
    def is_host(self) -> bool:
        """Whether it was made on the host and never moved."""
        return bool(self.origins)


@dataclass(frozen=True, slots=True)
class Static(Kind):
    """A Python value that is fixed while tracing: a size, a dtype, a configuration value.

    `value` is the constant itself where it is a string, a number, a bool or None that is known.
    """

    value: str | float | bool | EllipsisType | None = ...


@dataclass(frozen=True, slots=True)
class Data(Kind):
    """A Python value that was read from a tensor, such as `x.item()`."""


@dataclass(frozen=True, slots=True)
class Array(Kind):
    """A NumPy array."""


@dataclass(frozen=True, slots=True)
class Device(Kind):
    """A `torch.device`; `type` is "cuda", "cpu", "jax" or "" where unknown."""

    type: str = ""


@dataclass(frozen=True, slots=True)
class Instance(Kind):
    """An instance of the class with this qualified name."""

    cls: str


@dataclass(frozen=True, slots=True)
class Several(Kind):
    """A tuple, list or dictionary; `items` where the length is known, else `element` joins them all."""

    element: Kind
    items: tuple[Kind, ...] | None = None

    @property
    def holds_tracer(self) -> bool:
        """Whether an item is, or holds, a tensor that has no value while tracing."""
        return any(item.holds_tracer for item in self.items or (self.element,))


UNKNOWN: Final = Unknown()
TENSOR: Final = Tensor()
STATIC: Final = Static()
DATA: Final = Data()
ARRAY: Final = Array()
NONE: Final = Static(None)
TENSORS: Final = Several(TENSOR)


def join(one: Kind, other: Kind) -> Kind:
    """The kind of a value that is one or the other."""
    if one == other:
        return one
    if one == NONE:
        one, other = other, one
    if isinstance(one, Tensor):
        if isinstance(other, Tensor):
            return Tensor(
                one.dtype if one.dtype == other.dtype else "",
                one.scalar and other.scalar,
                one.origins | other.origins if one.origins and other.origins else frozenset(),
                one.certain and other.certain,
                one.root if one.root == other.root else "",
            )
        if other == NONE:
            return replace(one, root="")
        unsure = replace(one, certain=False, root="", scalar=False)
        if isinstance(other, Static | Data):
            return unsure
        numbers = isinstance(other, Several) and isinstance(other.element, Static)
        return Several(unsure) if numbers else UNKNOWN  # the items of a tensor, or of a list of numbers
    if isinstance(other, Tensor):
        return join(other, one)
    if isinstance(one, Static) and isinstance(other, Static):
        return STATIC
    if isinstance(one, Static | Data) and isinstance(other, Static | Data):
        return DATA
    if isinstance(one, Several) and isinstance(other, Several):
        if one.items is not None and other.items is not None and len(one.items) == len(other.items):
            items = tuple(join(a, b) for a, b in zip(one.items, other.items, strict=True))
            return Several(join(one.element, other.element), items)
        return Several(join(one.element, other.element))
    if isinstance(one, Array | Several) and isinstance(other, Array | Several):
        return Several(UNKNOWN)  # of either, `torch.tensor` makes a tensor with dimensions
    if isinstance(one, Device) and isinstance(other, Device):
        return Device()
    if other == NONE and isinstance(one, Instance | Several):
        return one
    return UNKNOWN


def joined(kinds: tuple[Kind, ...]) -> Kind:
    """The kind of a value that is one of many; `UNKNOWN` for none."""
    if not kinds:
        return UNKNOWN
    result = kinds[0]
    for kind in kinds[1:]:
        result = join(result, kind)
    return result


def made_on_host(kind: Kind, dtype: str = "") -> frozenset[int]:
    """The origins of the host tensors with dimensions, of any dtype or one, that a value is or holds."""
    if isinstance(kind, Tensor):
        return kind.origins if not kind.scalar and dtype in ("", kind.dtype) else frozenset()
    if isinstance(kind, Several):
        parts = kind.items if kind.items is not None else (kind.element,)
        return frozenset().union(*(made_on_host(part, dtype) for part in parts))
    return frozenset()


def placed_as(kind: Kind, other: Kind) -> Kind:
    """A kind, with its tensors where those of another one are, and without dimensions if they are."""
    if isinstance(kind, Tensor) and isinstance(other, Tensor):
        return replace(kind, origins=other.origins, scalar=kind.scalar or other.scalar)
    if isinstance(kind, Several) and isinstance(other, Several):
        items = kind.items
        if items is not None and other.items is not None and len(items) == len(other.items):
            items = tuple(map(placed_as, items, other.items))
        return Several(placed_as(kind.element, other.element), items)
    return kind


def element_of(kind: Kind) -> Kind:
    """What iterating over a value gives."""
    if isinstance(kind, Several):
        return kind.element
    if isinstance(kind, Tensor):
        return replace(kind, scalar=False, certain=True, root="")  # nobody iterates over a number
    if isinstance(kind, Static):
        return STATIC
    if isinstance(kind, Data):
        return DATA
    if isinstance(kind, Array):
        return kind
    return UNKNOWN
