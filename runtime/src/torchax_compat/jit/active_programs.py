"""The compiled versions of modules that calls use at the moment."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any


class Programs:
    """The compiled versions of some modules, by the `id` of the module.

    With `hesitates`, only calls that took long are compiled.
    `objects` returns the objects whose attributes the modules may read and write.
    """

    def __init__(self, *, hesitates: bool = False) -> None:
        self.by_module: dict[int, Any] = {}
        self.objects: Callable[[], list[Any]] = list
        self.hesitates = hesitates

    def __reduce__(self) -> Any:
        return bool, ()  # copies and pickles of a module do not include it


#: Outside of decorated functions.
OUTSIDE = Programs()


class _State:
    """The programs in use; None while JAX traces."""

    __slots__ = ("programs",)

    def __init__(self) -> None:
        self.programs = OUTSIDE


state = _State()


@contextlib.contextmanager
def using(programs: Any) -> Iterator[Any]:
    """Use these programs for calls of modules within the context; None while JAX traces."""
    before, state.programs = state.programs, programs
    try:
        yield
    finally:
        state.programs = before
