"""Attributes that keep changing without tensors: what stands for their values while a function is traced.

`self.total += loss.item()` and `self.step += 1` leave another number at each call, `self.history.append(...)`
another list.
The number stands for one that is known at the call, as what is read does (`reads.py`), and what is put to the
end of a list comes out of the function; neither may be made use of otherwise.
"""

from __future__ import annotations

from collections import deque

from . import asked, reads

#: What JAX takes for a whole number.
_MOST = 2**31 - 1


def is_number(value):
    """Whether a value is a number that an input may be."""
    return type(value) is float or (type(value) is int and abs(value) <= _MOST)


def has_grown(before, now, content):
    """Whether a list is what it was, with more at its end; of a deque it is enough that it is the same."""
    if type(now) not in (list, deque) or now is not before or content is None:
        return False
    return type(now) is deque or (len(now) > len(content) and all(a is b for a, b in zip(content, now)))


class Grown(list):
    """Stands for a list or a deque, of which nothing is known but what is put to its end."""

    def items(self):
        """What was put to its end."""
        return list.copy(self)


def _refusing(name):
    def refuse(self, *_args, **_options):
        raise reads.Needed(f"`{name}` needs a list that keeps growing")

    return refuse


_PUTTING = {"append", "extend", "__iadd__", "copy"}
_PUTTING |= {
    "__new__",
    "__init__",
    "__class__",
    "__getattribute__",
    "__setattr__",
    "__init_subclass__",
    "__doc__",
}
_PUTTING |= {"__delattr__", "__dir__", "__subclasshook__", "__sizeof__", "__class_getitem__"}
for _name in {*dir(list), *dir(deque)} - _PUTTING:
    setattr(Grown, _name, _refusing(_name))


def in_place_of(value, taken, place):
    """What stands for a value of an attribute, of which the computation has `taken`, in the `place` given."""
    if isinstance(value, (list, deque)):
        return Grown() if asked.is_replayed() else value
    return asked.stand_in(value, taken, place)
