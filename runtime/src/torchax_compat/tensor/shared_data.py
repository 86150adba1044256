"""`tensor.data`, `tensor.detach()` and `state_dict()`, which share their data with the tensor.

torchax returns the tensor itself, or a copy: writes to it are lost, or raise.
Here, writes go to the tensor, and gradients do not.
Once the tensor is given other data, as when averaged weights replace it for a while, an earlier `data` keeps
the old data.
It does not keep tensors alive that were computed with gradients, since their graphs would stay, too.
"""

from __future__ import annotations

import functools
import weakref
from typing import Any

import jax
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction
from ..autograd import no_grad
from ..patches.declarations import TORCH, TORCHAX, patch
from . import arrays


class Data(Tensor):
    """`tensor.data`: writes go to the tensor, and it is detached from the graph.

    Once the tensor is given other data, this keeps the old data.
    """

    @staticmethod
    def __new__(cls: Any, tensor: torch.Tensor) -> Any:
        """A tensor that shows the data of another."""
        return Tensor.__new__(cls, tensor.jax(), tensor._env)

    def __init__(self, tensor: torch.Tensor) -> None:
        self._shown, self._env, self._stopped = _shown(tensor) or _Shown(tensor), tensor._env, (None, None)

    @property
    def _of(self) -> Any:
        return self._shown.tensor

    @property
    def _elem(self) -> Any:
        value = self._of._elem
        if not isinstance(value, jax.core.Tracer):
            return value
        if self._stopped[0] is not value:
            self._stopped = value, jax.lax.stop_gradient(value)
        return self._stopped[1]

    @_elem.setter
    def _elem(self, value: Any) -> None:
        self._of._elem = _unseen(self._of, value)


class _Shown:
    """The data that all results of `tensor.data` show: that of the tensor, or data that it had before.

    A tensor that was computed with gradients is not kept alive, since its graph would be, too.
    """

    def __init__(self, tensor: torch.Tensor) -> None:
        with DisableTorchFunction():
            self._kept = tensor if tensor.grad_fn is None else None
        if self._kept is None:  # torch cannot swap tensors with weak references
            self._weak, self._last = weakref.ref(tensor), tensor._elem
        vars(tensor)["_shown_by"] = weakref.ref(self)

    @property
    def tensor(self) -> Any:
        if self._kept is None:
            shown = self._weak()
            if shown is not None:
                self._last = shown._elem
                return shown
            self._kept = Tensor(self._last, torchax.default_env())
        return self._kept

    def set_aside(self, tensor: torch.Tensor) -> None:
        """Keep the data of a tensor that is given other data."""
        self._kept = Tensor(tensor.jax(), tensor._env)
        del vars(tensor)["_shown_by"]


def _shown(tensor: torch.Tensor) -> Any:
    """The data that the results of a tensor's `data` show, if one of these still exists."""
    reference = vars(tensor).get("_shown_by")
    return reference and reference()


def _data(tensor: torch.Tensor) -> Any:
    """`tensor.data`."""
    return tensor if isinstance(tensor, Data) else Data(tensor)


def _replaced(tensor: torch.Tensor, other: Any) -> None:
    """`tensor.data = other`."""
    value, shown = arrays.on_torchax(other).jax(), _shown(tensor)
    if shown is not None:
        shown.set_aside(tensor)
    tensor._elem = _unseen(tensor, value)


def _unseen(tensor: torch.Tensor, value: Any) -> Any:
    """The array that a write leaves in a tensor, which keeps its gradient."""
    before = tensor._elem
    return no_grad.hidden_write(before, value) if isinstance(before, jax.core.Tracer) else value


_detach, _shares_all = Tensor.detach, False


def detached(tensor: torch.Tensor) -> Any:
    """`detach()`, which shares writes; not for tensors computed with gradients, which tracing sees."""
    if isinstance(tensor, Data):
        return tensor
    is_shared = _shares_all or isinstance(tensor, torch.nn.Parameter)
    return Data(tensor) if is_shared or _is_plain(tensor) else _detach(tensor)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether a tensor has a concrete array, and no graph."""
    with DisableTorchFunction():
        return tensor.grad_fn is None and not isinstance(tensor._elem, jax.core.Tracer)


_state_dict = torch.nn.Module.state_dict


@patch(
    "torch.nn:Module.state_dict",
    why="The buffers in a `state_dict()` of a traced function share no data with those of the module.",
    upstream=TORCH + "nn/modules/module.py",
)
@functools.wraps(_state_dict)
def _shared_state(*args: Any, **kwargs: Any) -> Any:
    """`state_dict()`, whose buffers share their data also while JAX traces."""
    global _shares_all
    before, _shares_all = _shares_all, True
    try:
        return _state_dict(*args, **kwargs)
    finally:
        _shares_all = before


@patch(
    "torchax.view:View.detach",
    why="Writes to the detached view are lost.",
    upstream=TORCHAX + "view.py",
)
def _part_of_data(view: Any) -> Any:
    """`detach()` and `data` of a view: the same view of the detached tensor."""
    parent = view.parent
    if isinstance(parent, View):
        parent = _part_of_data(parent)
    elif not isinstance(parent, Data):
        parent = Data(parent)
    return View(parent, view.view_info, view._env)


patch(
    "torchax.tensor:Tensor.data",
    why="`tensor.data` is the tensor itself, or a copy: it has a gradient, and writes to it are lost.",
    upstream=TORCHAX + "tensor.py",
)(property(_data, _replaced))
patch(
    "torchax.view:View.data",
    why="`view.data` is a copy: writes to it are lost.",
    upstream=TORCHAX + "view.py",
)(property(_part_of_data, torch.Tensor.data.__set__))
