"""CPU tensors that a traced function creates, and writes traced values to.

`torch.zeros(n, k).scatter_(1, labels.cpu(), 1)` is an example.
CPU memory cannot hold traced values, so a device tensor replaces the CPU tensor.
"""

from __future__ import annotations

from typing import Any

import torch
import torchax
from torch.utils.weak import WeakIdKeyDictionary
from torchax.tensor import Tensor

from ..adapters.torch_internals import pytree, storage_use_count
from ..tensor import arrays

#: The attribute of a tensor that holds its replacement.
_MARK = "_torchax_written"
_AUGMENTED = frozenset(
    f"__i{name}__" for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "and", "or", "xor"]
)


class HostTensors:
    """The CPU tensors that one run of a function creates, and the replacements of those that it writes to."""

    def __init__(self) -> None:
        self._made, self._became = WeakIdKeyDictionary(), WeakIdKeyDictionary()

    def note(self, result: Any, given: Any) -> None:
        """Note a CPU tensor that a torch function returned, and that shares no memory with another one."""
        if type(result) is torch.Tensor and not any(
            type(one) is torch.Tensor for one in pytree.tree_leaves(given)
        ):
            self._made[result] = True

    def latest(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """A call with the replacements of tensors that were written to."""
        if not self._became:
            return func, args, kwargs
        latest, kwargs = pytree.tree_map_only(
            torch.Tensor,
            lambda one: self._became.get(one, one),
            (args, kwargs),
            is_leaf=lambda one: type(one) is torch.Size,
        )
        if args and latest[0] is not args[0]:
            func = _of_torchax(func)
        return func, latest, kwargs

    def writing(self, func: Any, args: Any, kind: Any) -> Any:
        """A call that may write a traced value to a CPU tensor: it writes to the replacement."""
        name = func.__name__
        writes = name == "__setitem__" or name in _AUGMENTED or (name[-1] == "_" and name[-2] != "_")
        if not writes or args[0] not in self._made or _is_shared(args[0]):
            return func, args
        self._became[args[0]] = made = kind(arrays.on_torchax(args[0]).jax(), torchax.default_env())
        vars(args[0])[_MARK] = made
        return _of_torchax(func), (made, *args[1:])


def replacement_of(value: Any) -> Any:
    """The replacement of a tensor that was written to; other values unchanged."""
    return vars(value).get(_MARK, value) if type(value) is torch.Tensor else value


def _is_shared(tensor: torch.Tensor) -> bool:
    """Whether a CPU tensor has a view, which does not know its replacement."""
    return _sharing(tensor) > _sharing(torch.empty(()))


def _sharing(tensor: torch.Tensor) -> int:
    count: int = storage_use_count(tensor.untyped_storage()._cdata)
    return count


def _of_torchax(func: Any) -> Any:
    """torchax's version of a method or attribute of torch's tensors."""
    name = func.__self__.__name__ if func.__name__ == "__get__" else func.__name__
    own = vars(Tensor).get(name, func)
    return own.fget if isinstance(own, property) else own
