"""Operations whose shapes keep changing, which torch computes on the host: that takes less than compiling them.

JAX compiles an operation for each shape that it is given, in 30 ms or more: a hundred boxes that suppress each
other, one after the other, took two minutes.
An operation that was called with many shapes is left to the host where it has to do with few numbers, for the
shapes that are new, until one of them has come often; so is one whose result has a shape that values decide, as
`nonzero` has, at each call.
Parts of tensors, and indices that are tensors, are operations, too, read or written.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy
import torch
from torch._ops import OpOverload
from torch.utils._mode_utils import no_dispatch
from torchax.tensor import Tensor
from torchax.view import NarrowInfo, View

from .. import arrays
from ..tracing import asked

#: With so many shapes an operation is compiled at once.
MANY = 4
#: With each further one it is after so many calls.
OFTEN = 16
#: So many shapes of an operation are counted.
MOST_COUNTED = 4096
#: For more numbers than these the host may take longer than compiling; the way to an accelerator's is longer.
FEW_NUMBERS = 1 << (22 if jax.default_backend() == "cpu" else 16)

_ARRAY = type(jnp.zeros(()))
_OF_NUMPY = (torch.bool, torch.uint8, torch.int32, torch.float32)
_NOT_PLAIN = (torch.device, torch.Generator, torch.dtype)
#: How often each operation was called with which shapes, which operations the host can compute, and whose
#: results have shapes that values decide.
_counts, _pure, _sized = {}, {}, {}


def keeps_changing(what, shapes, counts=_counts):
    """Whether something has shapes that are new again; `counts` has how often it had which."""
    known = counts.setdefault(what, {})
    count = known.get(shapes)
    if count is None:
        if len(known) < MANY:
            known[shapes] = OFTEN
            return False
        if len(known) == MOST_COUNTED:
            for one in [one for one, count in known.items() if count < OFTEN]:
                del known[one]
        count = 0
    if count >= OFTEN:
        return False
    known[shapes] = count + 1
    return True


def is_for_host(func, shapes, leaves):
    """Whether the host had better compute an operation; `leaves` are its arguments, arrays of JAX among them."""
    is_pure = _pure.get(func)
    if is_pure is None:
        is_pure = isinstance(func, OpOverload) and not func._schema.is_mutable
        # What the host would draw is not what the device draws.
        is_pure = is_pure and torch.Tag.nondeterministic_seeded not in func.tags
        _pure[func] = is_pure
        _sized[func] = is_pure and torch.Tag.dynamic_output_shape in func.tags
    count = 0
    for leaf in leaves:
        if type(leaf) is _ARRAY:
            count += leaf.size
        elif isinstance(leaf, _NOT_PLAIN):
            return False
    if not is_pure or not 0 < count <= FEW_NUMBERS:
        return False
    # Where answers are told apart, how many elements there are is one of them.
    return not asked.is_asked() if _sized[func] else keeps_changing(func, shapes)


def computed(func, args, options):
    """What an operation gives for arrays of JAX, computed by torch on the host."""
    with no_dispatch(), torch._C.DisableTorchFunction(), torch.no_grad():
        args, options = jax.tree.map(on_host, (_with_tensors(func, args), options))
        result = func(*args, **options)
        return jax.tree.map(on_device, result)


def _with_tensors(func, args):
    """Arguments with tensors for truth values, which were some on the host, as the condition of `where` may be."""
    return [
        torch.tensor(value) if type(value) is bool and isinstance(wanted.type, torch.TensorType) else value
        for value, wanted in zip(args, func._schema.arguments)
    ]


def on_host(value):
    """A copy of an array: torch's `native_batch_norm` writes to its arguments, whatever it says."""
    if type(value) is not _ARRAY:
        return value
    if value.dtype == jnp.int32:
        return torch.from_numpy(numpy.asarray(value, numpy.int64))  # as indices have to be
    return arrays.on_host(value)


def on_device(value):
    if not isinstance(value, torch.Tensor):
        return value
    # Other types JAX would convert, by an operation that is compiled.
    if value.dtype in (torch.int64, torch.float64) and not jax.config.jax_enable_x64:
        value = value.to(torch.int32 if value.dtype == torch.int64 else torch.float32)
    return jax.device_put(value.numpy()) if value.dtype in _OF_NUMPY else arrays.of_host(value)


def indexed(tensor, index):
    """What `tensor[index]` holds, if the host had better take it."""
    source = tensor.jax()
    items = _items(source, index)
    if items is None or not keeps_changing("indexed", (source.aval, *map(_shape, items))):
        return None
    return jax.device_put(numpy.asarray(source)[_on_numpy(items)])


def assigned(source, index, value):
    """The elements of an array with others at an index, if the host had better set them."""
    items = _items(source, index)
    if items is None or not (type(value) is _ARRAY or isinstance(value, (bool, int, float))):
        return None
    key = (_shape(value) if type(value) is _ARRAY else type(value), *map(_shape, items))
    if not keeps_changing("assigned", (source.aval, *key)):
        return None
    made = numpy.array(source)
    made[_on_numpy(items)] = numpy.asarray(value)
    return jax.device_put(made)


def _items(source, index):
    """What an index consists of, arrays of JAX among it; None where the host cannot take it, or not in time."""
    if type(source) is not _ARRAY or source.size > FEW_NUMBERS:
        return None
    items = [
        i.jax() if isinstance(i, (Tensor, View)) else i for i in (index if type(index) is tuple else (index,))
    ]
    is_plain = all(type(i) is _ARRAY or isinstance(i, (int, slice, type(None), type(...))) for i in items)
    return items if is_plain else None


def _shape(item):
    """What an operation is compiled for: of a mask, how many it picks as well."""
    if type(item) is not _ARRAY:
        return _plain(item)
    is_mask = item.dtype == bool and item.ndim
    return (item.aval, int(numpy.count_nonzero(numpy.asarray(item)))) if is_mask else item.aval


def _on_numpy(items):
    return tuple(numpy.asarray(i) if type(i) is _ARRAY else i for i in items)


def _plain(index):
    if isinstance(index, (tuple, list)):
        return tuple(map(_plain, index))
    if isinstance(index, numpy.ndarray):
        return index.shape, index.dtype
    return (index.start, index.stop, index.step) if type(index) is slice else (type(index), index)


_transform = NarrowInfo.transform_tensor


def _part(view, source):
    if type(source) is _ARRAY and source.size <= FEW_NUMBERS:
        if keeps_changing("part", (source.aval, _plain(view.slices))):
            return jax.device_put(numpy.asarray(source)[view.slices])
    return _transform(view, source)


NarrowInfo.transform_tensor = _part
