"""Random numbers that a traced function draws on the host, as inputs of the compiled function.

Tracing would draw `random.random()` or `torch.randn(x.shape)` only once.
So the first run records the draws, and each call of the compiled function makes the same draws before it
computes.
Numbers have placeholders, like those that are read from tensors, and tensors are on the device.
Other draws, such as `random.shuffle`, are noticed by the states of the random generators.
Noise, such as that of dropout, needs no first run: if tracing finds an unknown draw of noise, it begins again
with it.
"""

from __future__ import annotations

import contextlib
import functools
import random
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
import torch
import torchax
from torchax.ops import mappings
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch, pytree
from ..tensor import arrays
from . import attribute_placeholders, concrete_values, deferred_scalars

#: Functions that return a number, or in NumPy an array.
_OF_PYTHON = [
    "random",
    "uniform",
    "randint",
    "randrange",
    "gauss",
    "normalvariate",
    "betavariate",
    "expovariate",
    "triangular",
]
_OF_NUMPY = [
    "rand",
    "random",
    "random_sample",
    "uniform",
    "normal",
    "randn",
    "standard_normal",
    "beta",
    "randint",
    "permutation",
    "exponential",
    "gamma",
]
#: Functions that return a tensor.
_OF_TORCH = {torch.rand, torch.randn, torch.randint, torch.randperm, torch.normal}
_PLAIN = (bool, int, float, str, type(None), torch.dtype, torch.device, torch.Size)


_collected: Any = None
_noted: Any = None
_again: Any = None


class Layout(NamedTuple):
    """A tensor argument of a draw: its layout, and not its elements."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype

    def tensor(self, device: Any) -> Any:
        """A tensor with this layout."""
        return torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device=device)


class Draw(NamedTuple):
    """One draw of random numbers."""

    function: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def taken(self) -> Any:
        """The numbers of a new draw, as an input."""
        made = self._made("cpu")
        if isinstance(made, torch.Tensor):
            with DisableTorchFunction(), no_dispatch():
                value, kind = arrays.of_host(made), _kind(made)
            return value if value.dtype == kind else value.astype(kind)
        if type(made) is int and not attribute_placeholders.is_number(made):
            raise deferred_scalars.ValueNeededError(
                "it draws an integer of more than 31 bits, which cannot be an input"
            )
        return jax.numpy.asarray(made) if isinstance(made, np.ndarray) else made

    def like(self) -> Any:
        """The shape and dtype of a tensor that is drawn."""
        made = self._made("meta")
        return jax.ShapeDtypeStruct(tuple(made.shape), _kind(made))

    def _made(self, device: Any) -> Any:
        with DisableTorchFunction(), no_dispatch(), torch.no_grad():
            args = [one.tensor(device) if type(one) is Layout else one for one in self.args]
            place = {"device": device} if device != "cpu" and not any(map(_is_like, self.args)) else {}
            return self.function(*args, **{**self.kwargs, **place})

    def is_like(self, other: Any) -> bool:
        """Whether another draw is made in the same way."""
        return self.function is other.function and self[1:] == other[1:]


def _kind(tensor: torch.Tensor) -> Any:
    return jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(tensor.dtype))


def _is_like(value: Any) -> bool:
    return type(value) is Layout


class OtherDrawsError(Exception):
    """The function made other draws than known; `draws` are all of them."""

    def __init__(self, draws: Any, *, are_more: bool) -> None:
        super().__init__("the function made other random draws than known")
        self.draws, self.are_more = draws, are_more


class CollectedDraws:
    """The draws of a traced function in order, with the numbers `taken` for those that were known before.

    Noise may have other shapes than the known draws if it `may_be_other`.
    """

    def __init__(self, draws: Any, taken: Any, *, may_be_other: bool = False) -> None:
        self.draws, self.taken, self.count = list(draws), taken, 0
        self.may_be_other = may_be_other

    def value(self, one: Any, *, is_noise: bool = False) -> Any:
        """The numbers for a draw; for unknown noise, zeros of its shape."""
        place, self.count = self.count, self.count + 1
        if place < len(self.taken):
            if self.draws[place].is_like(one):
                return self.taken[place]
            if not (is_noise and self.may_be_other):
                raise concrete_values.UnknownAnswerError
            self.draws, self.taken = self.draws[:place], self.taken[:place]
        if not is_noise or one.kwargs.get("generator") is not None:
            raise concrete_values.UnknownAnswerError
        self.draws.append(one)
        like = one.like()
        return jax.numpy.zeros(like.shape, like.dtype)

    def check(self) -> None:
        """Raise `OtherDrawsError` if draws were unknown, or known ones were not made, as in another call."""
        if len(self.draws) > len(self.taken):
            raise OtherDrawsError(self.draws, are_more=True)
        if self.count < len(self.taken):
            raise OtherDrawsError(self.draws[: self.count], are_more=False)


@contextlib.contextmanager
def collecting(collected: Any) -> Iterator[Any]:
    """Let a traced function have its draws as inputs; None lets the device draw."""
    global _collected
    before, _collected = _collected, collected
    try:
        yield
    finally:
        _collected = before


@contextlib.contextmanager
def recording_noise() -> Iterator[Any]:
    """Record the noise that is drawn, for `repeating_noise`."""
    global _noted
    before, _noted = _noted, []
    try:
        yield _noted
    finally:
        _noted = before


@contextlib.contextmanager
def repeating_noise(noted: Any) -> Iterator[Any]:
    """Repeat the noise that was recorded."""
    global _again
    before, _again = _again, iter(noted)
    try:
        yield
    finally:
        _again = before


@functools.cache
def is_drawn_by_torch() -> bool:
    """Whether noise is torch's, so that a program draws the same as on the host; else the device draws it."""
    return bool(jax.default_backend() == "cpu")


def noise(one: Any) -> Any:
    """Noise for the device, as an array; None if the device draws it itself."""
    if not is_drawn_by_torch() and one.kwargs.get("generator") is None:
        return None
    if _again is not None:
        return next(_again)
    if _collected is not None:
        value = _collected.value(one, is_noise=True)
    elif isinstance(torchax.default_env().prng_key, jax.core.Tracer):
        return None
    else:
        (value,) = new_numbers([one])
    if _noted is not None:
        _noted.append(value)
    return value


def new_numbers(draws: Any) -> Any:
    """New numbers for the draws; a run that is recorded notes them."""
    session = concrete_values.session()
    if isinstance(session, concrete_values.Recording):
        for one in draws:
            _note(session, one)
    return [one.taken() for one in draws]


class DrawnArray:
    """A placeholder for a random NumPy array that is an input, from which a tensor can be created."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def astype(self, dtype: Any, **_options: Any) -> Any:
        """The array with another dtype."""
        return DrawnArray(self.value.astype(dtype))

    def __array__(self, *_args: Any, **_options: Any) -> Any:
        raise deferred_scalars.ValueNeededError(
            "it uses a random NumPy array for more than to create a tensor from it"
        )

    def __getattr__(self, name: str) -> Any:
        raise deferred_scalars.ValueNeededError(
            f"it uses `{name}` of a random NumPy array; create a tensor from the array first"
        )


def draw(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of a function that draws, while draws are recorded or a function is traced."""
    session, one = concrete_values.session(), Draw(function, args, kwargs)
    if isinstance(session, concrete_values.Recording):
        _note(session, one)
        made = function(*args, **kwargs)
        return session.reads.recorded(made) if type(made) in (int, float) else made
    if not session.has_recording:
        raise concrete_values.UnknownAnswerError
    place, value = session.collected.count, session.collected.value(one)
    session.drawn += 1
    if value.aval.weak_type:
        kind = float if jax.numpy.issubdtype(value.dtype, jax.numpy.floating) else int
        return session.reads.drawn(value, kind, place)
    return arrays.tensor(value) if function in _OF_TORCH else DrawnArray(value)


def _note(session: Any, one: Any) -> None:
    """Note a draw: it can be repeated for plain arguments, and a generator whose state can be restored."""
    session.note(one, is_repeated=_is_repeated(one.args, one.kwargs, session.generators))


def _is_repeated(args: Any, kwargs: dict[str, Any], generators: Any) -> bool:
    given = {name: value for name, value in kwargs.items() if name != "generator"}
    generator = kwargs.get("generator")
    is_known = generator is None or any(generator is one for one in generators)
    leaves = pytree.tree_leaves((args, given))
    return is_known and all(
        isinstance(leaf, _PLAIN) and not deferred_scalars.is_read(leaf) for leaf in leaves
    )


def drawn_by_torch(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """The result of `torch.randn(x.shape)` while recording or tracing; None if not drawn on the host."""
    if func not in _OF_TORCH or "out" in kwargs or any(isinstance(one, (Tensor, View)) for one in args):
        return None
    device = kwargs.get("device")  # the index of a device means the device
    if type(device) is int or torchax.default_env()._should_use_torchax_tensor(device):
        return None
    return draw(func, args, kwargs)


def in_tensors(arguments: Any) -> Any:
    """Arguments of a torch function, with tensors for random NumPy arrays."""
    if not any(type(leaf) is DrawnArray for leaf in pytree.tree_leaves(arguments)):
        return arguments  # a `torch.Size` would become a tuple
    return pytree.tree_map(
        lambda one: arrays.tensor(one.value) if type(one) is DrawnArray else one, arguments
    )


def _drawing(plain: Any) -> Any:
    def drawn(*args: Any, **kwargs: Any) -> Any:
        return draw(plain, args, kwargs) if concrete_values.is_active() else plain(*args, **kwargs)

    return drawn


def _from_numpy(array: Any) -> Any:
    return arrays.tensor(array.value) if type(array) is DrawnArray else _plain_from_numpy(array)


_plain_from_numpy = torch.from_numpy
#: Replacements for functions that draw, while draws are recorded or a function is traced.
DRAWING = {
    plain: _drawing(plain)
    for names, module in ((_OF_PYTHON, random), (_OF_NUMPY, np.random))
    for plain in (getattr(module, name) for name in names)
}
DRAWING[_plain_from_numpy] = _from_numpy
