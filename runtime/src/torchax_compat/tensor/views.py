"""Views that share writes with their tensors, such as those of `t()`, `expand()`, `unbind()` and `.real`.

torchax has views for basic slices only; for all others it returns copies, and writes to these are lost.
Here, such a copy knows its source.
It is read again after the source was written to, and writes to it go to the source.
Where PyTorch copies, as in `x.t().contiguous()`, the result is a copy here, too.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import torch
import torchax
from torchax.ops import jtorch, ops_registry  # noqa: F401 # which registers functions
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchDispatch, DisableTorchFunction, disable_current_modes
from ..autograd import no_grad
from ..ops import bit_views
from ..patches.declarations import TORCHAX, patch, setup
from . import array_groups, arrays, deferral, dispatch, memory_format, shared_data

_aten = torch.ops.aten
#: Views of all elements in their order.
_WHOLE = {_aten.view.default, _aten.unsqueeze.default, _aten.detach.default, _aten.squeeze.default}
_WHOLE |= {_aten.squeeze.dim, _aten.squeeze.dims, _aten.alias.default}
#: Views of some elements, or in another order.
_PARTS = {_aten.t.default, _aten.transpose.int, _aten.permute.default, _aten.diagonal.default}
_PARTS |= {_aten.select.int, _aten.slice.Tensor, _aten.unbind.int, _aten.split.Tensor}
_PARTS |= {_aten.split_with_sizes.default, _aten.unsafe_split.Tensor}
_PARTS |= {_aten.unsafe_split_with_sizes.default, _aten.expand.default, _aten.unfold.default}
_PARTS |= {_aten.as_strided.default}
_VIEWS = _WHOLE | _PARTS | bit_views.BOTH_WAYS.keys()
#: Views that may have an element several times.
_REPEATING = {_aten.expand.default, _aten.unfold.default, _aten.as_strided.default}
#: Operations that change the shape or the graph of a tensor in place.
_OTHERWISE = {"detach_", "resize_", "resize_as_", "set_", "squeeze_", "swapaxes_", "swapdims_", "t_"}
_OTHERWISE |= {"transpose_", "unsqueeze_", "as_strided_"}
#: Those that change the shape, which torch tracks as well.
_SHAPING = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}
#: The number of views whose positions are cached.
_MOST_PLACES = 32


class _Taken:
    """How a tensor was taken from its source, and the source's array at that time."""

    __slots__ = ("args", "array", "func", "number", "source")

    def __init__(self, source: Any, func: Any, args: Any, number: Any = None) -> None:
        self.source, self.func, self.number = source, func, number
        self.args = tuple(tuple(one) if isinstance(one, list) else one for one in args)
        self.array = _root(source)._elem

    def anew(self, shape: Any) -> Any:
        """The present elements."""
        whole = self.source.jax()
        if self.func in bit_views.BOTH_WAYS:
            return bit_views.BOTH_WAYS[self.func][0](whole, *self.args)
        if self.func is _aten.detach.default:
            whole = jax.lax.stop_gradient(whole)
        if self.func is _aten.expand.default:
            return jax.numpy.broadcast_to(whole, shape)
        return whole.reshape(shape) if self.func in _WHOLE else whole.reshape(-1)[self._places().numbers]

    def put(self, value: Any, before: Any) -> None:
        """Write the elements, which were other ones before, to the source."""
        whole, is_repeated = self.source.jax(), False
        if self.func in bit_views.BOTH_WAYS:
            made = bit_views.BOTH_WAYS[self.func][1](value, whole)
        elif self.func in _WHOLE:
            value = value if value.dtype == whole.dtype else value.astype(whole.dtype)
            made = value if value.shape == whole.shape else value.reshape(whole.shape)
        else:
            value = value if value.dtype == whole.dtype else value.astype(whole.dtype)
            places, is_repeated = self._places()
            if is_repeated:  # an element that is several times in the view was written at one of its places
                is_new = (value != before) & ~((value != value) & (before != before))
                places = jax.numpy.where(is_new, places, whole.size)
            made = whole.reshape(-1).at[places].set(value, mode="drop").reshape(whole.shape)
        is_unseen = self.func is _aten.detach.default or not torch.is_grad_enabled()
        if is_unseen and isinstance(whole, jax.core.Tracer):
            made = no_grad.hidden_write(whole, made)
        if isinstance(self.source, View):
            self.source.update(made)
        else:
            with writing(self.source):
                self.source._elem = made
        # The other places of an element that is several times in the view are read again.
        self.array = None if is_repeated else _root(self.source)._elem

    def is_certain(self) -> bool:
        """Whether torch has this view in any case: of a whole tensor that is not a view itself."""
        of_all = self.func is _aten.detach.default and type(self.source) is Tensor
        return of_all and not _is_view(self.source)

    def layout(self) -> Any:
        """A meta tensor with the layout that this view would have in torch."""
        made = self.func(memory_format.of(self.source), *self.args)
        return made if self.number is None else made[self.number]

    def _places(self) -> Any:
        return _places(self.func, self.args, self.number, tuple(self.source.shape))


class _Places(NamedTuple):
    """The positions of a view's elements among those of its source."""

    numbers: np.ndarray
    are_repeated: bool


@functools.lru_cache(_MOST_PLACES)
def _places(func: Any, args: Any, number: Any, shape: Any) -> Any:
    with disable_current_modes():
        numbers = torch.arange(torch.Size(shape).numel(), dtype=torch.int32)
        made = func(numbers.reshape(shape), *args)
        made = (made if number is None else made[number]).numpy()
    return _Places(made, func in _REPEATING and np.unique(made).size < made.size)


def _root(tensor: torch.Tensor) -> Any:
    while isinstance(tensor, View):
        tensor = tensor.parent
    return tensor


@contextlib.contextmanager
def writing(tensor: torch.Tensor) -> Iterator[Any]:
    """Context of a write to a tensor; if it is a view, its source is written to as well."""
    tensor = memory_format.named(tensor)
    if not _is_shared(tensor):
        yield
        return
    taken = vars(tensor)["_taken"]
    before = tensor._elem
    yield
    if tensor._elem is before:
        return
    if tensor._elem.shape == before.shape:
        taken.put(tensor._elem, before)
    else:
        del tensor._taken


def _elements(tensor: torch.Tensor) -> Any:
    """`Tensor._elem`; a view has the present elements of its source."""
    held = vars(tensor)
    taken = held.get("_taken")
    if taken is not None:
        array = _root(taken.source)._elem
        if array is not taken.array and _is_shared(tensor):
            held["_elem"], taken.array = taken.anew(held["_elem"].shape), array
    if "_elem" not in held:
        return deferral.computed(tensor)
    return held["_elem"]


def _hold(tensor: torch.Tensor, array: Any) -> None:
    held = vars(tensor)
    if arrays.KEEPER in held:
        array_groups.release(tensor)
        if "_elem" not in held:  # what is computed later would replace the array
            deferral.settle()
            array_groups.release(tensor)
    held["_elem"] = array


def _is_shared(tensor: torch.Tensor) -> bool:
    """Whether a tensor that was taken from another one is a view in torch, too."""
    taken = vars(tensor).get("_taken")
    if taken is not None and not taken.is_certain():
        with disable_current_modes():
            memory_format.of(tensor)  # drops the source of a copy
    return "_taken" in vars(tensor)


def take(result: Any, func: Any, args: Any) -> None:
    """Note the source of a view, or of several."""
    source = args[0]
    if not isinstance(source, (Tensor, View)):
        return
    if type(result) is Tensor:
        if result is not source:
            result._taken = _Taken(source, func, args[1:])
    elif isinstance(result, (list, tuple)):
        for number, one in enumerate(result):
            if type(one) is Tensor:
                one._taken = _Taken(source, func, args[1:], number)


def _sharing(plain: Any) -> Any:
    def computed(mode: Any, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is _aten.empty_like.default:
            return memory_format.kept(plain(mode, func, types, args, kwargs), args[0])
        if func is _aten.as_strided.default:
            args, kwargs = _of_memory(args, kwargs or {})
        if func in _VIEWS:
            result = plain(mode, func, types, args, kwargs)
            if not kwargs:
                take(result, func, args)
            return result
        if memory_format.is_by_element(func):
            return memory_format.with_layout_of_arguments(plain(mode, func, types, args, kwargs), func, args)
        if args and _shapes(func) and type(args[0]) is Tensor:
            result = plain(mode, func, types, args, kwargs)
            _change_shape_in_torch(func, args, kwargs)
            return result
        if args and _writes(func) and isinstance(args[0], Tensor) and _is_view(args[0]):
            with writing(args[0]):
                return plain(mode, func, types, args, kwargs)
        return plain(mode, func, types, args, kwargs)

    return computed


def _of_memory(args: Any, kwargs: dict[str, Any]) -> Any:
    """The arguments of `as_strided`, which counts in the memory that a view is of, not in the view."""
    tensor, size, stride, offset = (*args, *(kwargs.values()), None)[:4]
    if not isinstance(tensor, (Tensor, View)):
        return args, kwargs
    with disable_current_modes():
        start = memory_format.of(tensor).storage_offset() if offset is None else offset
    while isinstance(tensor, View) or (_is_view(tensor) and _is_shared(memory_format.named(tensor))):
        tensor = (
            tensor.parent if isinstance(tensor, View) else vars(memory_format.named(tensor))["_taken"].source
        )
    return (tensor, tuple(size), tuple(stride), start), {}


def _is_view(tensor: torch.Tensor) -> bool:
    return "_taken" in vars(memory_format.named(tensor))


@functools.cache
def _writes(func: Any) -> Any:
    return dispatch.writes_first(func) and func.overloadpacket.__name__ not in _OTHERWISE


@functools.cache
def _shapes(func: Any) -> bool:
    return func.overloadpacket.__name__ in _SHAPING


def _change_shape_in_torch(func: Any, args: Any, kwargs: dict[str, Any] | None) -> None:
    """Change the shape of torch's own side of a tensor as well.

    torch squeezes the result of `vector @ matrix` in place, for example, and would take it for a matrix
    otherwise.
    """
    with contextlib.ExitStack() as stack:
        for one in (
            disable_current_modes(),
            DisableTorchDispatch(),
            DisableTorchFunction(),
            torch.no_grad(),
            contextlib.suppress(RuntimeError, IndexError),  # it was of another shape before
        ):
            stack.enter_context(one)
        func(*args, **(kwargs or {}))


def _updating(plain: Any) -> Any:
    def update(view: Any, *args: Any, **kwargs: Any) -> None:
        with writing(_root(view)):
            plain(view, *args, **kwargs)

    return update


@patch(
    "torchax.tensor:Tensor.contiguous",
    why="torchax returns a copy of a tensor that is contiguous.",
    upstream=TORCHAX + "tensor.py",
)
@patch(
    "torchax.view:View.contiguous",
    why="torchax returns a copy of a view that is contiguous.",
    upstream=TORCHAX + "view.py",
)
def _contiguous(tensor: torch.Tensor, **kwargs: Any) -> Any:
    """`contiguous()`, which returns the tensor itself unless torch copies."""
    if isinstance(tensor, View) or _is_view(tensor):
        with disable_current_modes():
            is_contiguous = memory_format.of(tensor).is_contiguous(**kwargs)
        if not is_contiguous:
            return tensor.torch() if isinstance(tensor, View) else tensor.clone()
    return tensor


@patch(
    "torchax.tensor:Tensor.detach",
    why="Writes to a detached tensor are lost.",
    upstream=TORCHAX + "tensor.py",
)
def _detached(tensor: torch.Tensor) -> Any:
    made = shared_data.detached(tensor)
    with DisableTorchFunction():
        is_alone = tensor.grad_fn is None  # else it would keep the graph
    if is_alone and type(made) is Tensor:
        take(made, _aten.detach.default, (tensor,))
    return made


patch(
    "torchax.tensor:XLADispatchMode.__torch_dispatch__",
    why="torchax traverses the arguments of an operation several times, and copies where PyTorch has views.",
    upstream=TORCHAX + "tensor.py",
)(_sharing(dispatch.computed))
patch(
    "torchax.tensor:Tensor._elem",
    why="A tensor that is a view in PyTorch keeps its elements after its source was written to.",
    upstream=TORCHAX + "tensor.py",
    is_new=True,
)(property(_elements, _hold))
patch(
    "torchax.view:View.update",
    why="A write through a view is lost if its tensor was taken from another one.",
    upstream=TORCHAX + "view.py",
)(_updating(View.update))


@setup("tensor_split", why="PyTorch's own consists of slices, which are views; torchax's copies.")
def _remove_tensor_split() -> Any:
    registries = ops_registry.all_torch_functions, torchax.default_env()._ops
    removed = [(one, one.pop(torch.tensor_split)) for one in registries if torch.tensor_split in one]

    def undo() -> None:
        for registry, operation in removed:
            registry[torch.tensor_split] = operation

    return undo
