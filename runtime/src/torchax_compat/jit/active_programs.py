"""The compiled versions of modules that calls use at the moment."""

from __future__ import annotations

import contextlib


class Programs:
    """The compiled versions of some modules, by the `id` of the module.

    With `hesitates`, only calls that took long are compiled.
    `objects` returns the objects whose attributes the modules may read and write.
    """

    def __init__(self, *, hesitates=False):
        self.by_module, self.objects, self.hesitates = {}, list, hesitates

    def __reduce__(self):
        return bool, ()  # copies and pickles of a module do not include it


#: Outside of decorated functions.
OUTSIDE = Programs()


class _State:
    """The programs in use; None while JAX traces."""

    __slots__ = ("programs",)

    def __init__(self):
        self.programs = OUTSIDE


state = _State()


@contextlib.contextmanager
def using(programs):
    """Use these programs for calls of modules within the context; None while JAX traces."""
    before, state.programs = state.programs, programs
    try:
        yield
    finally:
        state.programs = before
