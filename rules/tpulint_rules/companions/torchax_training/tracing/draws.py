"""Random numbers of the host that a function draws in its own lines, as inputs of it.

Tracing would draw `random.random()` or `torch.randn(x.shape)` but once.
The first run notes what is drawn, and each call of what was traced with that draws the same kinds before it
computes: numbers stand for themselves as those do that are read, and tensors are on the device.
What else draws, such as `random.shuffle`, shows by the states of the generators.
"""

from __future__ import annotations

import random
from typing import Any, NamedTuple

import jax
import numpy
import torch
import torchax
from torch.utils import _pytree as pytree

from .. import arrays
from . import asked, reads, standing

#: What gives a number, or in NumPy's place an array.
_OF_PYTHON = "random uniform randint randrange gauss normalvariate betavariate expovariate triangular".split()
_OF_NUMPY = (
    "rand random random_sample uniform normal randn standard_normal beta randint permutation exponential gamma"
).split()
#: What gives a tensor.
_OF_TORCH = {torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal}
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)


class Draw(NamedTuple):
    """What is drawn in one place."""

    function: Any
    args: tuple
    kwargs: dict

    def taken(self):
        """What is drawn now, as an input."""
        made = self.function(*self.args, **self.kwargs)
        if isinstance(made, torch.Tensor):
            return made.to("jax").jax()
        if type(made) is int and not standing.is_number(made):
            raise reads.Needed("a number that is drawn is too large for an input")
        return jax.numpy.asarray(made) if isinstance(made, numpy.ndarray) else made

    def is_like(self, other):
        """Whether another one is drawn in the same way."""
        return self.function is other.function and self[1:] == other[1:]


class Drawn:
    """Stands for an array of NumPy that is an input, of which a tensor can be made."""

    def __init__(self, value):
        self.value = value

    def astype(self, dtype, **_options):
        return Drawn(self.value.astype(dtype))

    def __array__(self, *_args, **_options):
        raise reads.Needed("an array that is drawn is needed")

    def __getattr__(self, name):
        raise reads.Needed(f"`{name}` needs an array that is drawn")


def draw(function, args, kwargs):
    """What a function gives that draws, while a function is noted or traced."""
    session, one = asked.session(), Draw(function, args, kwargs)
    if isinstance(session, asked.Recording):
        if _is_repeated(args, kwargs, session.generators):
            session.draws.append(one)
        else:
            session.reads.are_used = True
        made = function(*args, **kwargs)
        return session.reads.told(made) if type(made) in (int, float) else made
    if not session.is_told:
        raise asked.Unknown
    place, session.drawn = session.drawn, session.drawn + 1
    if place >= len(session.draws) or not session.draws[place].is_like(one):
        raise asked.Unknown
    value = session.taken[place]
    if value.aval.weak_type:
        kind = float if jax.numpy.issubdtype(value.dtype, jax.numpy.floating) else int
        return session.reads.drawn(value, kind, place)
    return arrays.tensor(value) if function in _OF_TORCH else Drawn(value)


def _is_repeated(args, kwargs, generators):
    """Whether a draw is the same each time: it is given plain values, and generators that can go back."""
    given = {name: value for name, value in kwargs.items() if name != "generator"}
    generator = kwargs.get("generator")
    is_known = generator is None or any(generator is one for one in generators)
    leaves = pytree.tree_leaves((args, given))
    return is_known and all(isinstance(leaf, _PLAIN) and not reads.is_read(leaf) for leaf in leaves)


def of_torch(func, args, kwargs):
    """What `torch.randn(x.shape)` gives while a function is noted or traced; None where that is none of the host."""
    if func not in _OF_TORCH or "out" in kwargs:
        return None
    device = kwargs.get("device")  # by the number of a device, it is on the device
    if type(device) is int or torchax.default_env()._should_use_torchax_tensor(device):
        return None
    return draw(func, args, kwargs)


def in_tensors(arguments):
    """Arguments of a function of torch in which tensors stand for arrays that are drawn."""
    return pytree.tree_map(lambda one: arrays.tensor(one.value) if type(one) is Drawn else one, arguments)


def _drawing(plain):
    def drawn(*args, **kwargs):
        return draw(plain, args, kwargs) if asked.is_asked() else plain(*args, **kwargs)

    return drawn


def _from_numpy(array):
    return arrays.tensor(array.value) if type(array) is Drawn else _plain_from_numpy(array)


_plain_from_numpy = torch.from_numpy
#: What stands for functions that draw, while a function is noted or traced.
DRAWING = {
    plain: _drawing(plain)
    for names, module in ((_OF_PYTHON, random), (_OF_NUMPY, numpy.random))
    for plain in (getattr(module, name) for name in names)
}
DRAWING[_plain_from_numpy] = _from_numpy
