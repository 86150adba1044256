"""Plain arguments of a traced function that keep changing, as inputs of the compiled function.

A function is compiled for the plain values that it is called with.
A number that keeps changing, such as an annealed weight or a step count, is passed as a tensor instead, so
that one version serves all values.
The same holds for NumPy arrays of integers, such as the indices of a minibatch.
A string that keeps changing, such as the name of an image, is left out.
If the function uses one of them as a tensor cannot be used, or returns it, all stay as they are.
"""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import torch
import torchax
from torchax.tensor import Tensor

from ..tensor import arrays

#: A number that had this many values is one that keeps changing.
FEWEST_VALUES = 3


class VaryingArguments:
    """The plain arguments of one function."""

    def __init__(self) -> None:
        self.is_on = True
        self.seen: dict[Any, set[Any]] = {}

    def taken(self, leaves: Any, tree: Any, *, has_texts: bool = False) -> Any:
        """The arguments, with tensors for those that vary, and their positions."""
        places = [i for i, leaf in enumerate(leaves) if self.is_on and self._varies(leaf, (tree, i))]
        leaves = list(leaves)
        if has_texts and self.is_on:
            texts = [
                i for i, leaf in enumerate(leaves) if type(leaf) is str and self._is_another((tree, i), leaf)
            ]
            for i in texts:
                leaves[i] = Text(leaves[i])
        for i in places:
            value = float(leaves[i]) if isinstance(leaves[i], float) else leaves[i]
            leaves[i] = placeholder(jax.numpy.asarray(value))  # of a Python float: it promotes no others
        return leaves, places

    def _varies(self, leaf: Any, place: Any) -> bool:
        if isinstance(leaf, np.ndarray):
            return np.issubdtype(leaf.dtype, np.integer)
        if not isinstance(leaf, float) and type(leaf) is not int:
            return False
        return self._is_another(place, leaf)

    def _is_another(self, place: Any, leaf: Any) -> bool:
        values = self.seen.setdefault(place, set())
        if len(values) < FEWEST_VALUES:
            values.add(leaf)
        return len(values) == FEWEST_VALUES


class Number(Tensor):
    """A tensor in place of a Python number: it cannot be formatted, or used as an index or a key."""

    def _plain(self) -> Any:
        if isinstance(self.jax(), jax.core.Tracer):
            raise TypeError("the value of a number that changes between calls is needed for tracing")
        return self.jax().item()

    def __format__(self, form: Any) -> str:
        return format(self._plain(), form)

    def __str__(self) -> str:
        return str(self._plain())

    def __hash__(self) -> int:
        return hash(self._plain())

    __repr__ = __str__
    item = __int__ = __index__ = __float__ = _plain


class Text:
    """A placeholder for a string that a function does not use while it is traced."""

    __slots__ = ("text",)
    __class__ = property(lambda _self: str)

    def __init__(self, text: Any) -> None:
        self.text = text

    def _needed(self, *_args: Any) -> Any:
        raise TypeError("the value of a string that changes between calls is needed for tracing")

    __str__ = __repr__ = __format__ = __hash__ = __len__ = __iter__ = __getitem__ = __contains__ = _needed
    __eq__ = __ne__ = __lt__ = __le__ = __gt__ = __ge__ = __bool__ = _needed
    __add__ = __radd__ = __mul__ = __rmul__ = __mod__ = __rmod__ = _needed

    def __getattr__(self, name: str) -> None:
        if name.startswith("__"):  # for lookups by this package
            raise AttributeError(name)
        self._needed()


def has_texts(leaves: Any) -> bool:
    """Whether a string is left out among some arguments."""
    return any(type(leaf) is Text for leaf in leaves)


def with_texts(leaves: Any) -> Any:
    """Arguments with the strings that are left out."""
    return [leaf.text if type(leaf) is Text else leaf for leaf in leaves]


def placeholder(value: Any) -> Any:
    """A tensor around a JAX array in place of a plain argument."""
    kind = arrays.tensor if value.ndim else lambda value: Number(value, torchax.default_env())
    return kind(value)


def check(given: Any, results: Any, written: Any) -> None:
    """Raise if a function returns, or keeps, a plain argument that was replaced by a tensor."""
    for leaf in (*results, *(leaf for _, leaves, _ in written for leaf in leaves)):
        if type(leaf) is Text or (isinstance(leaf, torch.Tensor) and any(leaf is one for one in given)):
            raise TypeError("the function returns or keeps a number or string that changes between calls")
