"""Slices between numbers that a traced function reads, such as the place of a batch in a queue.

`queue[start : start + 16]` is the same computation wherever it starts.
How many elements there are is asked, since a slice may reach beyond the end.
"""

from __future__ import annotations

import jax
import torchax
from torchax.tensor import Tensor
from torchax.view import NarrowInfo

from . import reads


class Length(int):
    """How many elements there are between two bounds."""


class Span(NarrowInfo):
    """A view of elements between bounds that the computation has."""

    def calculate_output_shape(self, source):
        """The shape of the view."""
        return jax.eval_shape(self.transform_tensor, source).shape


def places(shape, index):
    """An index of a tensor, in which slices between numbers that are read are the places of their elements."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(map(_is_span, items)):
        return reads.of_computation(index)
    apart = (None, Ellipsis)
    beyond = len(shape) - sum(all(one is not other for other in apart) for one in items)
    is_alone = all(isinstance(one, slice) or any(one is other for other in apart) for one in items)
    made, dim = [], 0
    for one in items:
        made.append(_places(one, shape[dim], is_alone=is_alone) if _is_span(one) else one)
        dim += beyond if one is Ellipsis else one is not None
    if sum(isinstance(one, Tensor) for one in made) > 1:
        raise reads.Needed("several slices are between numbers that are read")
    made = reads.of_computation(tuple(made))
    return made if isinstance(index, tuple) else made[0]


def view_of(index):
    """What makes a view by an index with places in it, or None."""
    items = index if isinstance(index, tuple) else (index,)
    if not any(type(one) is _Places for one in items):
        return None
    return Span(tuple(one.jax() if type(one) is _Places else one for one in items))


class _Places(Tensor):
    """Those of the elements of a slice."""


def _is_span(item):
    is_between = isinstance(item, slice) and (reads.is_read(item.start) or reads.is_read(item.stop))
    return is_between and item.step in (None, 1)


def _places(span, size, *, is_alone):
    start, stop = 0 if span.start is None else span.start, size if span.stop is None else span.stop
    if not any(map(reads.is_later, (start, stop))):
        owner = start if reads.is_read(start) else stop
        start, stop = reads.plain(start), reads.plain(stop)
        owner.ask(_length(start, stop, size))
        return slice(start, stop)
    length = reads.later(lambda start, stop: _length(start, stop, size), start, stop)
    if length is NotImplemented or not is_alone:
        raise reads.Needed("a slice is between numbers that are read")
    length = length.ask(length)
    if type(length) is not Length:
        raise reads.Needed("a slice is between numbers that are read")
    start = start.traced() if reads.is_later(start) else start
    first = jax.numpy.clip(jax.numpy.where(start < 0, start + size, start), 0, size)
    return _Places((first + jax.numpy.arange(length)).astype("int32"), torchax.default_env())


def _length(start, stop, size):
    return Length(len(range(*slice(start, stop).indices(size))))
