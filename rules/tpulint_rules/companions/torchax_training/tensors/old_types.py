"""CUDA's types of tensors, as programs named them before there were devices; importing this file brings them in.

Without CUDA `torch.cuda.FloatTensor` raises, called and in `tensor.type(...)`.
Here it makes tensors of the device, `type` moves tensors and modules there, also by a text or by the class of
another one, and those of the device are of such a type, by `isinstance`, too.
"""

from __future__ import annotations

import torch
from torchax.tensor import Tensor
from torchax.view import View

from .. import arrays
from . import conversions

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
    """The type of such types, of which there are no instances but the tensors of the device."""

    def __call__(cls, *data):
        if len(data) == 1 and isinstance(data[0], (Tensor, View)):
            return data[0].to(cls.dtype)
        return getattr(torch, cls.__name__)(*data).to("jax")

    def __instancecheck__(cls, one):
        return isinstance(one, (Tensor, View)) and one.dtype == cls.dtype

    def __repr__(cls):
        return f"<class '{_CUDA}{cls.__name__}'>"


_TYPES = {}
for _dtype, _name in _NAMES.items():
    _made = _Type(_name, (), {"__module__": "torch.cuda", "dtype": _dtype, "is_cuda": True})
    _TYPES[_CUDA + _name] = _made
    setattr(torch.cuda, _name, _made)


def _typed(_environment, _func, args, kwargs):
    """`tensor.type(...)` that moves it to the device, or what it says of a tensor there; None for all else."""
    tensor, *given = args
    wanted = given[0] if given else kwargs.get("dtype")
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
