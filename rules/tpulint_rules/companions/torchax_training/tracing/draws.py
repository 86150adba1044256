"""Random numbers that torch and Python draw while a function is traced, as inputs of it.

Tracing would draw `random.random()` or `torch.randn(x.shape)` but once.
The first run notes what is drawn, and each call of what was traced with that draws the same kinds before it
computes: numbers stand for themselves as those do that are read, and tensors are on the device.
What else draws, such as `random.shuffle`, shows by the states of the generators.
Noise, such as that of dropout, needs no first run: where tracing comes upon some that it knew nothing of, it
begins anew with that.
"""

from __future__ import annotations

import contextlib
import random
from typing import Any, NamedTuple

import jax
import numpy
import torch
import torchax
from torch.utils import _pytree as pytree
from torch.utils._mode_utils import no_dispatch
from torchax.ops import mappings
from torchax.tensor import Tensor
from torchax.view import View

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


#: Whether noise is torch's, so that a program draws what it does on the host: else the device draws its own.
is_of_torch = jax.default_backend() == "cpu"

_collected = None
_noted = None
_again = None


class Like(NamedTuple):
    """Stands for a tensor of which a draw knows how it lies, and not its elements."""

    shape: tuple
    stride: tuple
    dtype: torch.dtype

    def tensor(self, device):
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)


class Draw(NamedTuple):
    """What is drawn in one place."""

    function: Any
    args: tuple
    kwargs: dict

    def taken(self):
        """What is drawn now, as an input."""
        made = self._made("cpu")
        if isinstance(made, torch.Tensor):
            with torch._C.DisableTorchFunction(), no_dispatch():
                value, kind = arrays.of_host(made), _kind(made)
            return value if value.dtype == kind else value.astype(kind)
        if type(made) is int and not standing.is_number(made):
            raise reads.Needed("a number that is drawn is too large for an input")
        return jax.numpy.asarray(made) if isinstance(made, numpy.ndarray) else made

    def like(self):
        """What has the shape and the type of a tensor that is drawn."""
        made = self._made("meta")
        return jax.ShapeDtypeStruct(tuple(made.shape), _kind(made))

    def _made(self, device):
        with torch._C.DisableTorchFunction(), no_dispatch(), torch.no_grad():
            args = [one.tensor(device) if type(one) is Like else one for one in self.args]
            place = {"device": device} if device != "cpu" and not any(map(_is_like, self.args)) else {}
            return self.function(*args, **{**self.kwargs, **place})

    def is_like(self, other):
        """Whether another one is drawn in the same way."""
        return self.function is other.function and self[1:] == other[1:]


def _kind(tensor):
    return jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(tensor.dtype))


def _is_like(value):
    return type(value) is Like


class Others(Exception):
    """Something else is drawn than was known, more or less: all that is are `draws`."""

    def __init__(self, draws, *, are_more):
        super().__init__("something else is drawn")
        self.draws, self.are_more = draws, are_more


class Collected:
    """The draws of what is traced, in their order, with what was `taken` for those that were known before.

    They are those of other shapes if noise `may_be_other`.
    """

    def __init__(self, draws, taken, *, may_be_other=False):
        self.draws, self.taken, self.count = list(draws), taken, 0
        self.may_be_other = may_be_other

    def value(self, one, *, is_noise=False):
        """What was taken for a draw; for noise that was not known something of its shape stands in."""
        place, self.count = self.count, self.count + 1
        if place < len(self.taken):
            if self.draws[place].is_like(one):
                return self.taken[place]
            if not (is_noise and self.may_be_other):
                raise asked.Unknown
            self.draws, self.taken = self.draws[:place], self.taken[:place]
        if not is_noise or one.kwargs.get("generator") is not None:
            raise asked.Unknown
        self.draws.append(one)
        like = one.like()
        return jax.numpy.zeros(like.shape, like.dtype)

    def check(self):
        """Raise `Others` where some were not known, or not drawn, as where they are there from another call."""
        if len(self.draws) > len(self.taken):
            raise Others(self.draws, are_more=True)
        if self.count < len(self.taken):
            raise Others(self.draws[: self.count], are_more=False)


@contextlib.contextmanager
def collecting(collected):
    """Let what is traced have its draws as inputs; None lets the device draw."""
    global _collected
    before, _collected = _collected, collected
    try:
        yield
    finally:
        _collected = before


@contextlib.contextmanager
def noting():
    """Note what noise is drawn, for `again`."""
    global _noted
    before, _noted = _noted, []
    try:
        yield _noted
    finally:
        _noted = before


@contextlib.contextmanager
def again(noted):
    """Let the same be drawn as was noted."""
    global _again
    before, _again = _again, iter(noted)
    try:
        yield
    finally:
        _again = before


def noise(one):
    """What is drawn for the device, as an array; None where it draws itself."""
    if not is_of_torch and one.kwargs.get("generator") is None:
        return None
    if _again is not None:
        return next(_again)
    if _collected is not None:
        value = _collected.value(one, is_noise=True)
    elif isinstance(torchax.default_env().prng_key, jax.core.Tracer):
        return None
    else:
        (value,) = taken([one])
    if _noted is not None:
        _noted.append(value)
    return value


def taken(draws):
    """What is drawn now; a run that is recorded notes it."""
    session = asked.session()
    if isinstance(session, asked.Recording):
        for one in draws:
            _note(session, one)
    return [one.taken() for one in draws]


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
        _note(session, one)
        made = function(*args, **kwargs)
        return session.reads.told(made) if type(made) in (int, float) else made
    if not session.is_told:
        raise asked.Unknown
    place, value = session.collected.count, session.collected.value(one)
    session.drawn += 1
    if value.aval.weak_type:
        kind = float if jax.numpy.issubdtype(value.dtype, jax.numpy.floating) else int
        return session.reads.drawn(value, kind, place)
    return arrays.tensor(value) if function in _OF_TORCH else Drawn(value)


def _note(session, one):
    """Note a draw: it is the same each time where it is given plain values, and generators that can go back."""
    session.note(one, is_repeated=_is_repeated(one.args, one.kwargs, session.generators))


def _is_repeated(args, kwargs, generators):
    given = {name: value for name, value in kwargs.items() if name != "generator"}
    generator = kwargs.get("generator")
    is_known = generator is None or any(generator is one for one in generators)
    leaves = pytree.tree_leaves((args, given))
    return is_known and all(isinstance(leaf, _PLAIN) and not reads.is_read(leaf) for leaf in leaves)


def of_torch(func, args, kwargs):
    """What `torch.randn(x.shape)` gives while a function is noted or traced; None where that is none of the host."""
    if func not in _OF_TORCH or "out" in kwargs or any(isinstance(one, (Tensor, View)) for one in args):
        return None
    device = kwargs.get("device")  # by the number of a device, it is on the device
    if type(device) is int or torchax.default_env()._should_use_torchax_tensor(device):
        return None
    return draw(func, args, kwargs)


def in_tensors(arguments):
    """Arguments of a function of torch in which tensors stand for arrays that are drawn."""
    if not any(type(leaf) is Drawn for leaf in pytree.tree_leaves(arguments)):
        return arguments  # of which a `torch.Size` would become a tuple
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
