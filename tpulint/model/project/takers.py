"""Functions that do something with what they are given, wherever they are called."""

from __future__ import annotations

from typing import NamedTuple


class Taker(NamedTuple):
    """A function that calls `backward` on one of its parameters, or that saves it.

    `function` is its qualified name, `position` that of the parameter among the arguments of a call.
    `is_whole` says that it does so with the parameter itself, not with what it makes of it.
    """

    function: str
    position: int
    parameter: str
    is_whole: bool = True
