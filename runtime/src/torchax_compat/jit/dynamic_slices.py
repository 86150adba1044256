"""Slices whose bounds are read from tensors, or are tensors, such as the position of a batch in a queue.

`queue[start : start + 16]` is the same computation for each `start`.
So is `x[i, :, start : start + 16]`, where `start` is an element of a tensor, as when each item of a batch is
cropped at a position of its own.
The number of elements is an answer (`concrete_values.py`), since a slice may extend beyond the end.
"""

from __future__ import annotations

from typing import Any

import jax
import torchax
from torchax.tensor import Tensor
from torchax.view import NarrowInfo, View

from ..tensor import arrays
from . import deferred_scalars


class Length(int):
    """The number of elements between two bounds."""


class Span(NarrowInfo):
    """A view of elements between traced bounds."""

    def calculate_output_shape(self, source: Any) -> Any:
        """The shape of the view."""
        return jax.eval_shape(self.transform_tensor, source).shape


def split(tensor: Any, index: Any, environment: Any) -> Any:
    """The part that the integers of an index select, and the rest of the index, if it has such a slice."""
    items = index if isinstance(index, tuple) else (index,)
    has_numbers = any(type(one) is int for one in items)
    if not has_numbers or not any(map(_is_span, items)) or not all(map(_is_beside_numbers, items)):
        return tensor, index
    picked = tuple(slice(None) if isinstance(one, slice) else one for one in items if one is not None)
    rest = tuple(one for one in items if type(one) is not int)
    return View(tensor, NarrowInfo(picked), environment), rest


def positions(shape: Any, index: Any, ask: Any) -> Any:
    """An index of a tensor, with the positions of elements for slices whose bounds are read from tensors.

    `ask` returns the number in a tensor that is a length.
    """
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(_is_span, items)):
        return deferred_scalars.for_computation(index)
    apart = (None, Ellipsis)
    beyond = len(shape) - sum(all(one is not other for other in apart) for one in items)
    is_alone = all(isinstance(one, slice) or any(one is other for other in apart) for one in items)
    made, dim = [], 0
    for one in items:
        if _is_between_tensors(one):
            one = _places_between(one, shape[dim], ask, is_alone=is_alone)
        made.append(_places(one, shape[dim], is_alone=is_alone) if _is_span(one) else one)
        dim += beyond if one is Ellipsis else one is not None
    if sum(isinstance(one, Tensor) for one in made) > 1:
        raise deferred_scalars.ValueNeededError(
            "it uses an index with several slices whose bounds are read from tensors"
        )
    made = deferred_scalars.for_computation(tuple(made))
    return made if isinstance(index, tuple) else made[0]


def view_of(index: Any) -> Any:
    """The view for an index with positions in it, or None."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(type(one) is _Places for one in items):
        return None
    return Span(tuple(one.jax() if type(one) is _Places else one for one in items))


class _Places(Tensor):
    """The positions of the elements of a slice."""


def _is_beside_numbers(item: Any) -> bool:
    return item is None or item is Ellipsis or type(item) is int or isinstance(item, slice)


def _is_span(item: Any) -> bool:
    is_between = isinstance(item, slice) and (
        deferred_scalars.is_read(item.start) or deferred_scalars.is_read(item.stop)
    )
    return (is_between and item.step in (None, 1)) or _is_between_tensors(item)


def _is_between_tensors(item: Any) -> bool:
    if not isinstance(item, slice) or item.step not in (None, 1):
        return False
    return any(_is_number(bound) for bound in (item.start, item.stop))


def _is_number(bound: Any) -> bool:
    return isinstance(bound, (Tensor, View)) and bound.numel() == 1 and not bound.is_floating_point()


def _places_between(span: Any, size: Any, ask: Any, *, is_alone: bool) -> Any:
    """The positions for a slice between tensors, whose length is an answer; the slice if it is not traced."""
    first = _place(0 if span.start is None else span.start, size)
    length = jax.numpy.maximum(_place(size if span.stop is None else span.stop, size) - first, 0)
    count = ask(arrays.tensor(length))
    if not arrays.is_traced(arrays.tensor(first)):
        return slice(int(first), int(first) + int(count))
    if not is_alone:
        raise deferred_scalars.ValueNeededError(
            "it combines a slice whose bounds are tensors with other indices"
        )
    return _Places((first + jax.numpy.arange(count)).astype("int32"), torchax.default_env())


def _place(bound: Any, size: Any) -> Any:
    """The position in a dimension that a bound of a slice means."""
    if isinstance(bound, (Tensor, View)):
        bound = bound.jax().reshape(())
    bound = bound.traced() if deferred_scalars.is_deferred(bound) else deferred_scalars.plain(bound)
    return jax.numpy.clip(jax.numpy.where(bound < 0, bound + size, bound), 0, size)


def _places(span: Any, size: Any, *, is_alone: bool) -> Any:
    start: Any = 0 if span.start is None else span.start
    stop = size if span.stop is None else span.stop
    if not any(map(deferred_scalars.is_deferred, (start, stop))):
        owner = start if deferred_scalars.is_read(start) else stop
        start, stop = deferred_scalars.plain(start), deferred_scalars.plain(stop)
        owner.ask(_length(start, stop, size))
        return slice(start, stop)
    length = deferred_scalars.deferred(lambda start, stop: _length(start, stop, size), start, stop)
    if length is NotImplemented or not is_alone:
        raise deferred_scalars.ValueNeededError(
            "it combines a slice whose bounds are read from tensors with other indices"
        )
    length = length.ask(length)
    if type(length) is not Length:
        raise deferred_scalars.ValueNeededError(
            "it uses a slice whose bounds are read from tensors, and whose length is unknown"
        )
    start = start.traced() if deferred_scalars.is_deferred(start) else start
    return _Places((_place(start, size) + jax.numpy.arange(length)).astype("int32"), torchax.default_env())


def _length(start: Any, stop: Any, size: Any) -> Any:
    return Length(len(range(*slice(start, stop).indices(size))))
