"""The attributes of objects whose classes have `__slots__`."""

from __future__ import annotations

import functools
import types
from typing import Any


@functools.cache
def names(cls: Any) -> tuple[str, ...]:
    """The names of the slots of a class and its bases, as the class stores those of private ones."""
    return tuple(
        name
        for one in cls.__mro__
        if "__slots__" in vars(one)  # not those of classes written in C
        for name, value in vars(one).items()
        if isinstance(value, types.MemberDescriptorType)
    )
