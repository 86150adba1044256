"""`torch.cuda.FloatTensor` and the other types of CUDA tensors.

Without CUDA they raise, when they are called and in `tensor.type(...)`.
Here, they create device tensors, and device tensors are their instances.
`type` moves tensors and modules to the device, also for a string, or for the class of another tensor.
"""

from __future__ import annotations

from typing import Any

import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..patches.declarations import patch
from . import arrays, conversions

_CUDA = "torch.cuda."
_NAMES = {
    torch.bfloat16: "BFloat16Tensor",
    torch.bool: "BoolTensor",
    torch.float16: "HalfTensor",
    torch.float32: "FloatTensor",
    torch.float64: "DoubleTensor",
    torch.int8: "CharTensor",
    torch.int16: "ShortTensor",
    torch.int32: "IntTensor",
    torch.int64: "LongTensor",
    torch.uint8: "ByteTensor",
}


class _Type(type):
    """The metaclass of these types, whose instances are device tensors."""

    dtype: torch.dtype

    def __call__(cls, *data: Any) -> Any:
        if len(data) == 1 and isinstance(data[0], (Tensor, View)):
            return data[0].to(cls.dtype)
        return getattr(torch, cls.__name__)(*data).to("jax")

    def __instancecheck__(cls, one: Any) -> Any:
        return isinstance(one, (Tensor, View)) and one.dtype == cls.dtype

    def __repr__(cls) -> str:
        return f"<class '{_CUDA}{cls.__name__}'>"


_TYPES = {}
for _dtype, _name in _NAMES.items():
    _made = _Type(_name, (), {"__module__": "torch.cuda", "dtype": _dtype, "is_cuda": True})
    _TYPES[_CUDA + _name] = _made
    patch(f"torch.cuda:{_name}", why="Without CUDA, the types of CUDA tensors raise.")(_made)


def _typed(_environment: Any, _func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """`tensor.type(...)` that moves it to the device, or its type if it is there; None for other calls."""
    tensor, *given = args
    wanted: Any = given[0] if given else kwargs.get("dtype")
    if wanted is None:
        known = isinstance(tensor, (Tensor, View)) and tensor.dtype in _NAMES
        return _CUDA + _NAMES[tensor.dtype] if known else None
    wanted = _TYPES.get(wanted, wanted) if isinstance(wanted, str) else wanted
    is_class = isinstance(wanted, type) and issubclass(wanted, (Tensor, View))
    if not is_class and not isinstance(wanted, _Type):
        return None
    with arrays.entered():
        return tensor.to("jax", torch.get_default_dtype() if is_class else wanted.dtype)


conversions.FUNCTIONS[torch.Tensor.type] = _typed
