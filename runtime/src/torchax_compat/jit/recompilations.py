"""Log messages about functions and modules that JAX compiles again because of a new shape of an argument.

The logger `torchax_compat` gets a warning at the second compilation of a function, and again at the tenth
and the hundredth.
The message has the function and its file and line, the argument, its old and new shape, the number of
compilations, and the seconds that they took.
"""

from __future__ import annotations

import inspect
import logging
from collections.abc import Callable
from typing import Any

import torch

from ..adapters.torch_internals import pytree
from . import concrete_values

#: The numbers of compilations at which there is a message.
MESSAGES_AT = (2, 10, 100)
#: A function that was compiled for this many shapes is likely to be compiled for more.
MANY_SHAPES = 4

_LOG = logging.getLogger("torchax_compat")


class Compilations:
    """The compilations of a function, or of a module, for the shapes of its arguments."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.seconds = 0.0
        self.latest: dict[Any, Any] = {}
        #: How often the function was compiled, and for how many shapes in place of those before.
        self.count = self.shapes = 0

    def took(self, seconds: Any) -> None:
        """Note the duration of a call that compiled a part of the function: its forward or backward pass."""
        self.seconds += seconds

    def have_many_shapes(self) -> bool:
        """Whether the shapes keep changing."""
        return self.shapes >= MANY_SHAPES

    def note(self, kind: Any, args: Any, kwargs: dict[str, Any]) -> None:
        """Note a compilation for arguments; those of the same `kind` differ only in their shapes."""
        # Another function is recorded or traced, with the messages that it logs.
        if concrete_values.is_active():
            return
        self.count += 1
        now = _shapes(self.function, args, kwargs)
        before: Any = self.latest.get(kind)
        self.latest[kind] = now
        changed = [] if before is None else [name for name in now if now[name] != before.get(name, now[name])]
        if not changed:
            return
        self.shapes += 1
        if self.count in MESSAGES_AT or self.shapes == 1:
            name = changed[0]
            self._log_message(name, before[name], now[name])

    def _log_message(self, name: str, before: Any, now: Any) -> None:
        name_of_function = getattr(self.function, "__qualname__", type(self.function).__name__)
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        where = f"{code.co_filename}:{code.co_firstlineno}: " if code is not None else ""
        _LOG.warning(
            "%sJAX compiles `%s` again for a new shape: `%s` had the shape %s and now has the shape %s. "
            "JAX has compiled `%s` %d times, which took %.1f s in total. "
            "Each further shape is compiled, too: pad the arguments to a few shapes.",
            where,
            name_of_function,
            name,
            before,
            now,
            name_of_function,
            self.count,
            self.seconds,
        )


def _shapes(function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The shapes of the tensors among the arguments, by the names of these, as in `masks[1]`."""
    try:
        given = inspect.signature(function).bind(*args, **kwargs).arguments
    except (TypeError, ValueError):  # the function itself raises for such arguments
        given = {f"argument {number}": one for number, one in enumerate(args, 1)} | kwargs
    return {
        name + place: tuple(leaf.shape)
        for name, value in given.items()
        for place, leaf in _leaves(value)
        if isinstance(leaf, torch.Tensor)
    }


def _leaves(value: Any) -> Any:
    """The leaves of an argument with their places in it, or their numbers if its type names no places."""
    try:
        leaves, _ = pytree.tree_flatten_with_path(value)
    except ValueError:
        return [(f"[{number}]", leaf) for number, leaf in enumerate(pytree.tree_leaves(value))]
    return [(pytree.keystr(path), leaf) for path, leaf in leaves]
