"""Random numbers in place: a tensor of the device is filled with those that torch draws on the host.

Of torchax's own `normal_` raises where it is given a deviation, `exponential_` and `cauchy_` change nothing,
and `random_` draws no whole numbers.
Weights that are initialised on the device are thus those of the same program on the host.
While a function is traced torchax's own draw: the host's numbers would be the same in each call.
`torch.nn.init` takes tensors of torchax for ones without data, whose initialisation it leaves out, and writes
through views, which do not hold.
"""

from __future__ import annotations

import functools

import jax
import torch
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torchax.ops.mappings import j2t, t2j
from torchax.tensor import Tensor
from torchax.view import View

_aten = torch.ops.aten
_KINDS = (Tensor, View)
_NAMES = (
    "bernoulli_",
    "cauchy_",
    "exponential_",
    "geometric_",
    "log_normal_",
    "normal_",
    "random_",
    "uniform_",
)
#: What draws the numbers of a tensor.
DRAWS = {getattr(getattr(_aten, name), kind) for name in _NAMES for kind in getattr(_aten, name).overloads()}
#: What makes its numbers somewhere else, and writes them through a view or by `out`.
_ELSEWHERE = ("dirac_", "eye_", "orthogonal_")


def is_held(tensor):
    """Whether a tensor is on the device, and not traced."""
    return isinstance(tensor, _KINDS) and not isinstance(tensor.jax(), jax.core.Tracer)


def _on_host(value):
    return j2t(value.jax()) if isinstance(value, _KINDS) else value


def filled(fill, tensor, *args, **kwargs):
    """A tensor of the device with the numbers that one of the host is filled with."""
    args, kwargs = pytree.tree_map(_on_host, (args, kwargs))
    with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad():
        made = torch.empty(tensor.shape, dtype=tensor.dtype)
        fill(made, *args, **kwargs)
    value = t2j(made).astype(tensor.jax().dtype)
    if isinstance(tensor, View):
        tensor.update(value)
    else:
        tensor._elem = value
    return tensor


def _initialising(plain):
    @functools.wraps(plain)
    def initialised(tensor, *args, **kwargs):
        if is_held(tensor):
            return filled(plain, tensor, *args, **kwargs)
        return plain(tensor, *args, **kwargs)

    return initialised


for _name in _ELSEWHERE:
    setattr(torch.nn.init, _name, _initialising(getattr(torch.nn.init, _name)))

for _kind in _KINDS:
    _kind.is_meta = False
