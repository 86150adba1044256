"""Placeholders for attributes without tensors that change at each call, such as a counter or a list.

`self.total += loss.item()` and `self.step += 1` leave another number at each call, and
`self.history.append(...)` a longer list.
A placeholder stands for the number, which is known at the call (`deferred_scalars.py`).
Items that are appended to a list are returned by the compiled function.
Neither may be used in another way.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from . import concrete_values, deferred_scalars

#: The largest integer that JAX accepts.
_MOST = 2**31 - 1


def is_number(value: Any) -> bool:
    """Whether a value is a number that can be an input."""
    return type(value) is float or (type(value) is int and abs(value) <= _MOST)


def has_grown(before: Any, now: Any, content: Any) -> bool:
    """Whether a list is the same, with items appended; a deque only has to be the same."""
    if type(now) not in (list, deque) or now is not before or content is None:
        return False
    return type(now) is deque or (
        len(now) > len(content) and all(a is b for a, b in zip(content, now, strict=False))
    )


class AppendedItems(list[Any]):
    """A placeholder for a list or deque of which only the appended items are known."""

    def items(self) -> Any:
        """The appended items."""
        return list.copy(self)


def _refusing(name: str) -> Any:
    def refuse(_self: Any, *_args: Any, **_options: Any) -> Any:
        raise deferred_scalars.ValueNeededError(f"`{name}` needs the items of a list that grows at each call")

    return refuse


_PUTTING = {
    *("append", "extend", "__iadd__", "copy"),
    *("__new__", "__init__", "__class__", "__getattribute__", "__setattr__", "__init_subclass__", "__doc__"),
    *("__delattr__", "__dir__", "__subclasshook__", "__sizeof__", "__class_getitem__"),
}
for _name in {*dir(list), *dir(deque)} - _PUTTING:
    setattr(AppendedItems, _name, _refusing(_name))


def placeholder(value: Any, taken: Any, place: Any) -> Any:
    """A placeholder for the value of an attribute, which has the value `taken` in the computation."""
    if isinstance(value, (list, deque)):
        return AppendedItems() if concrete_values.is_replaying() else value
    return concrete_values.placeholder(value, taken, place)
