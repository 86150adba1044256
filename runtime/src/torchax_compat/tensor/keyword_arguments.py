"""Keyword arguments by PyTorch's names, as in `F.interpolate(input=x, size=8)`.

The implementations in torchax and in this package have other parameter names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from torch.overrides import get_testing_overrides


def in_order(func: Any, function: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
    """The arguments of a torch function for its implementation: by position if that has other names."""
    names = _names(function)
    if names is None or kwargs.keys() <= names:
        return args, kwargs
    kwargs = dict(kwargs)
    for name in _names_of_torch(func)[len(args) :]:
        if name not in kwargs:
            break
        args = (*args, kwargs.pop(name))
    return args, kwargs


@functools.cache
def _names(function: Callable[..., Any]) -> Any:
    try:
        return inspect.signature(function).parameters.keys()
    except ValueError:  # a function of torch itself
        return None


@functools.cache
def _names_of_torch(func: Any) -> Any:
    listed = get_testing_overrides().get(func)
    names = tuple(inspect.signature(listed).parameters) if listed else ()
    is_of_matrices = func.__name__.startswith("linalg_")  # torch gives their first argument another name
    return ("A", *names[1:]) if is_of_matrices and names else names
