"""Arguments that are given by torch's names, as in `F.interpolate(input=x, size=8)`.

What stands for torch's functions, in torchax and here, has names of its own.
"""

from __future__ import annotations

import functools
import inspect

from torch.overrides import get_testing_overrides


def in_order(func, function, args, kwargs):
    """The arguments of a function of torch for what computes it: in their order where it has other names."""
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
def _names(function):
    try:
        return inspect.signature(function).parameters.keys()
    except ValueError:  # it is torch's own
        return None


@functools.cache
def _names_of_torch(func):
    listed = get_testing_overrides().get(func)
    names = tuple(inspect.signature(listed).parameters) if listed else ()
    is_of_matrices = func.__name__.startswith("linalg_")  # whose first one torch lists under another name
    return ("A", *names[1:]) if is_of_matrices and names else names
