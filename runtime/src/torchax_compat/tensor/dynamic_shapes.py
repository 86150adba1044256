"""Operations whose shapes keep changing, on the host: this is faster than to compile them.

JAX compiles an operation for each shape, in 30 ms or more: a hundred boxes that suppress each other, one
after the other, took two minutes.
An operation that was called with many shapes runs on the host for new shapes, if it has few elements, until a
shape has occurred often.
An operation whose result has a shape that depends on values, such as `nonzero`, runs there at each call.
Slices, and indices that are tensors, are operations, too, for reading and for writing.
"""

from __future__ import annotations

import functools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import NarrowInfo, View

from ..adapters.jax_internals import ArrayImpl
from ..adapters.torch_internals import DisableTorchFunction, OpOverload, no_dispatch
from ..jit import concrete_values
from ..patches.declarations import TORCHAX, patch
from . import arrays

#: For this many shapes, an operation is compiled at once.
MANY = 4
#: For each further one, it is compiled after this many calls.
OFTEN = 16
#: The number of shapes of an operation that are counted.
MOST_COUNTED = 4096

_ARRAY = ArrayImpl
_OF_NUMPY = (torch.bool, torch.uint8, torch.int32, torch.float32)
_NOT_PLAIN = (torch.device, torch.Generator, torch.dtype)
#: How often each operation was called with which shapes.
_counts: dict[Any, dict[Any, int]] = {}
#: Which operations the host can compute, and whose results have shapes that depend on values.
_pure: dict[Any, bool] = {}
_sized: dict[Any, bool] = {}


@functools.cache
def few_numbers() -> Any:
    """The number of elements up to which the host takes less time than compiling.

    Transfers from an accelerator are slower.
    """
    return 1 << (22 if jax.default_backend() == "cpu" else 16)


def keeps_changing(what: Any, shapes: Any, counts: Any = _counts) -> bool:
    """Whether something has new shapes again; `counts` has the number of calls for its shapes."""
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


def is_for_host(func: Any, shapes: Any, leaves: Any) -> bool:
    """Whether the host should compute an operation; `leaves` are its arguments, including JAX arrays."""
    is_pure = _pure.get(func)
    if is_pure is None:
        is_pure = isinstance(func, OpOverload) and not func._schema.is_mutable
        # The host would draw other numbers than the device.
        is_pure = is_pure and torch.Tag.nondeterministic_seeded not in func.tags
        _pure[func] = is_pure
        _sized[func] = is_pure and torch.Tag.dynamic_output_shape in func.tags
    count = 0
    for leaf in leaves:
        if type(leaf) is _ARRAY:
            count += leaf.size
        elif isinstance(leaf, _NOT_PLAIN):
            return False
    if not is_pure or not 0 < count <= few_numbers():
        return False
    if any(type(leaf) is _ARRAY and not leaf.is_fully_addressable for leaf in leaves):
        return False  # it is sharded over several processes
    # While answers are recorded, the number of elements is one of them.
    return not concrete_values.is_active() if _sized[func] else keeps_changing(func, shapes)


def computed(func: Any, args: Any, options: Any) -> Any:
    """The result of an operation for JAX arrays, computed by torch on the host."""
    with no_dispatch(), DisableTorchFunction(), torch.no_grad():
        args, options = jax.tree.map(on_host, (_with_tensors(func, args), options))
        result = func(*args, **options)
        return jax.tree.map(on_device, result)


def _with_tensors(func: Any, args: Any) -> Any:
    """Arguments with tensors for bools that were CPU tensors, as the condition of `where` may be."""
    return [
        torch.tensor(value) if type(value) is bool and isinstance(wanted.type, torch.TensorType) else value
        for value, wanted in zip(args, func._schema.arguments, strict=False)
    ]


def on_host(value: Any) -> Any:
    """A CPU copy of an array: torch's `native_batch_norm` writes to its arguments, against its schema."""
    if type(value) is not _ARRAY:
        return value
    if value.dtype == jnp.int32:
        return torch.from_numpy(np.asarray(value, np.int64))  # as indices have to be
    return arrays.on_host(value)


def on_device(value: Any) -> Any:
    """A JAX array for a CPU tensor; other values unchanged."""
    if not isinstance(value, torch.Tensor):
        return value
    # JAX would convert other types by a compiled operation.
    if value.dtype in (torch.int64, torch.float64) and not jax.config.jax_enable_x64:
        value = value.to(torch.int32 if value.dtype == torch.int64 else torch.float32)
    return jax.device_put(value.numpy()) if value.dtype in _OF_NUMPY else arrays.of_host(value)


def indexed(tensor: torch.Tensor, index: Any) -> Any:
    """The array of `tensor[index]`, if the host should compute it."""
    source = tensor.jax()
    items = _items(source, index)
    if items is None or not keeps_changing("indexed", (source.aval, *map(_shape, items))):
        return None
    return jax.device_put(np.asarray(source)[_on_numpy(items)])


def assigned(source: Any, index: Any, value: Any) -> Any:
    """The array after `source[index] = value`, if the host should compute it."""
    items = _items(source, index)
    if items is None or not (type(value) is _ARRAY or isinstance(value, (bool, int, float))):
        return None
    key = (_shape(value) if type(value) is _ARRAY else type(value), *map(_shape, items))
    if not keeps_changing("assigned", (source.aval, *key)):
        return None
    made = np.array(source)
    given = np.asarray(value)
    while given.shape[:1] == (1,):  # NumPy accepts fewer of these than torch
        given = given[0]
    made[_on_numpy(items)] = given
    return jax.device_put(made)


def _items(source: Any, index: Any) -> Any:
    """The items of an index, including JAX arrays; None if the host cannot use it, or takes too long."""
    if type(source) is not _ARRAY or source.size > few_numbers():
        return None
    items = [
        i.jax() if isinstance(i, (Tensor, View)) else i for i in (index if type(index) is tuple else (index,))
    ]
    is_plain = all(type(i) is _ARRAY or isinstance(i, (int, slice, type(None), type(...))) for i in items)
    return items if is_plain else None


def _shape(item: Any) -> Any:
    """The shapes for which an operation is compiled; for a mask, the number of selected elements as well."""
    if type(item) is not _ARRAY:
        return _plain(item)
    is_mask = item.dtype == bool and item.ndim
    return (item.aval, int(np.count_nonzero(np.asarray(item)))) if is_mask else item.aval


def _on_numpy(items: Any) -> Any:
    return tuple(np.asarray(i) if type(i) is _ARRAY else i for i in items)


def _plain(index: Any) -> Any:
    if isinstance(index, (tuple, list)):
        return tuple(map(_plain, index))
    if isinstance(index, np.ndarray):
        return index.shape, index.dtype
    return (index.start, index.stop, index.step) if type(index) is slice else (type(index), index)


_transform = NarrowInfo.transform_tensor


@patch(
    "torchax.view:NarrowInfo.transform_tensor",
    why="JAX compiles a slice for each of its bounds, in 30 ms or more.",
    upstream=TORCHAX + "view.py",
)
def _part(view: Any, source: Any) -> Any:
    items = view.slices if isinstance(view.slices, tuple) else (view.slices,)
    is_basic = not any(isinstance(item, jax.Array) for item in items)
    is_small = is_basic and type(source) is _ARRAY and source.size <= few_numbers()
    if is_small and keeps_changing("part", (source.aval, _plain(view.slices))):
        return jax.device_put(np.asarray(source)[view.slices])
    return _transform(view, source)
