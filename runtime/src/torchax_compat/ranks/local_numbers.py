"""Numbers that a program reads from local tensors: one for each rank.

They behave as the number of rank 0.
Arithmetic keeps the numbers of all ranks, so that a sum of losses which is computed in Python can be passed
to `all_reduce` in a new tensor.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs", "round")


class LocalFloat(float):
    """A float for each rank; its own value is that of rank 0."""

    locals: tuple[float, ...]

    def __reduce__(self) -> Any:
        return float, (float(self),)  # copies and pickles have the number of rank 0


class LocalInt(int):
    """An integer for each rank; its own value is that of rank 0."""

    locals: tuple[int, ...]

    def __reduce__(self) -> Any:
        return int, (int(self),)


LOCAL = (LocalFloat, LocalInt)


def number(values: Any) -> Any:
    """The number of the ranks: a plain one if it is the same on all ranks."""
    values = tuple(values)
    first = values[0]
    if isinstance(first, (bool, complex)) or all(one == first for one in values[1:]):
        return first
    kind: Any = LocalInt if all(isinstance(one, int) for one in values) else LocalFloat
    made = kind(first)
    made.locals = values
    return made


def of_rank(value: Any, rank: int) -> Any:
    """A number as one rank has it; other values unchanged."""
    return value.locals[rank] if type(value) in LOCAL else value


def are_among(values: Any) -> bool:
    """Whether a number that differs between ranks is among values, or in lists and tuples among them."""
    return any(
        type(one) in LOCAL or (type(one) in (list, tuple) and are_among(one[:_MOST_ITEMS])) for one in values
    )


#: Of longer lists, only the first items are searched.
_MOST_ITEMS = 64


def _computing(compute: Callable[..., Any], *, is_turned: bool = False) -> Any:
    def result(self: Any, *others: Any) -> Any:
        if any(not isinstance(other, (int, float)) and other is not None for other in others):
            return NotImplemented
        found = []
        for rank, own in enumerate(self.locals):
            values = [own, *(of_rank(other, rank) for other in others)]
            found.append(compute(*(reversed(values) if is_turned else values)))
        return number(found)

    return result


for _class in LOCAL:
    for _name in _BINARY:
        setattr(_class, f"__{_name}__", _computing(getattr(operator, _name)))
        setattr(_class, f"__r{_name}__", _computing(getattr(operator, _name), is_turned=True))
    for _name in _UNARY:
        setattr(_class, f"__{_name}__", _computing(round if _name == "round" else getattr(operator, _name)))
