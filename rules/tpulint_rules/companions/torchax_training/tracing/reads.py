"""Numbers that a traced function reads out of tensors and hands on, as what is logged is.

`return loss, {"kl": kl.item()}` needs no number while it is traced: what is read comes out of the compiled
function beside its results, and becomes a number there.
A function that reads is run as it is first, with numbers that tell what becomes of them: nothing but its
results and the attributes of what it was given may hold one afterwards, and none may have been compared, or
made anything but another number, or text that is printed (`printed.py`).
"""

from __future__ import annotations

import gc
import operator

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs", "round")
#: What needs a number as it is.
_NEEDING = "bool int float index complex trunc floor ceil hash lt le gt ge eq ne array".split()
_TEXTS = ("format", "repr")
#: What stands for the text of a number that is not known yet.
MARK = "\ue000([0-9]{9})\ue001"


class Needed(TypeError):
    """A number is needed as it is."""


class Reads:
    """The numbers that are read in one run of a function, as arrays of JAX where it is traced."""

    def __init__(self):
        self.values, self.alive, self.are_used = [], 0, False
        self.texts = []  # that were made of numbers: themselves, or of what they are made and how

    def are_kept(self):
        """Whether something holds one of the numbers still."""
        if self.alive:
            gc.collect()
        return self.alive > 0

    def told(self, number):
        """A number that tells what becomes of it."""
        return (_ToldInt if type(number) is int else _ToldFloat)(number)._of(self)

    def later(self, value, kind):
        """What stands for a number that is not known yet, but for its kind."""
        self.values.append(value)
        return _Later(self, kind, operator.itemgetter(len(self.values) - 1))


class _One:
    """A number of a run; how many there are is counted."""

    def _of(self, reads):
        self._reads = reads
        reads.alive += 1
        return self

    def __del__(self):
        self._reads.alive -= 1


class _Told(_One):
    """A number that tells what becomes of it: a float, or an integer."""

    def __reduce_ex__(self, _protocol):
        return type(self.real), (self.real,)  # copies and files have a plain one


class _ToldFloat(_Told, float):
    pass


class _ToldInt(_Told, int):
    pass


def _telling(kind, name):
    plain = getattr(kind, name)

    def result(self, *others):
        found = plain(self, *others)
        return self._reads.told(found) if type(found) in (int, float) else found

    return result


def _using(kind, name):
    plain = getattr(kind, name)

    def result(self, *others):
        self._reads.are_used = True
        return plain(self, *others)

    return result


def _texting(kind, name):
    plain = getattr(kind, name)

    def text(self, *form):
        self._reads.texts.append(plain(self, *form))
        return self._reads.texts[-1]

    return text


_both_ways = [f"__{before}{name}__" for name in _ARITHMETIC for before in ("", "r")]
for _kind, _told in ((float, _ToldFloat), (int, _ToldInt)):
    for _name in (*_both_ways, *(f"__{name}__" for name in _UNARY)):
        setattr(_told, _name, _telling(_kind, _name))
    for _name in (f"__{name}__" for name in _NEEDING):
        if hasattr(_kind, _name):
            setattr(_told, _name, _using(_kind, _name))
    for _name in (f"__{name}__" for name in _TEXTS):
        setattr(_told, _name, _texting(_kind, _name))
    _told.__str__ = _told.__repr__


class _Later(_One):
    """A number that is known once the function has run: what gives it from all that are read."""

    def __init__(self, reads, kind, number, parts=()):
        self._of(reads)
        self._kind, self.number, self.parts = kind, number, parts

    @property
    def __class__(self):
        return self._kind  # what asks by `isinstance` is told so

    def __format__(self, form):
        try:
            format(self._kind(1), form)
        except ValueError as error:
            raise Needed("a number has no such text") from error
        self._reads.texts.append((self, form))
        return mark(len(self._reads.texts) - 1)

    def __repr__(self):
        return format(self)

    __str__ = __repr__


def _later(compute, *parts):
    """What comes of numbers of which some are not known yet."""
    laters = [part for part in parts if type(part) is _Later]
    if any(type(part) not in (_Later, bool, int, float) for part in parts):
        return NotImplemented
    kinds = [part._kind if type(part) is _Later else type(part) for part in parts]
    try:
        kind = type(compute(*(kind(1) for kind in kinds)))
    except ArithmeticError as error:
        raise Needed("a number that is read is needed") from error

    def number(values):
        return compute(*(part.number(values) if type(part) is _Later else part for part in parts))

    return _Later(laters[0]._reads, kind, number, laters)


def _computing(compute, *, is_turned=False):
    if is_turned:
        return lambda self, other: _later(compute, other, self)
    return lambda self, *others: _later(compute, self, *others)


def _needing(name):
    def refuse(self, *_):
        raise Needed(f"`{name}` needs a number that is read")

    return refuse


for _name in _ARITHMETIC:
    setattr(_Later, f"__{_name}__", _computing(getattr(operator, _name)))
    setattr(_Later, f"__r{_name}__", _computing(getattr(operator, _name), is_turned=True))
for _name in _UNARY:
    setattr(_Later, f"__{_name}__", _computing(round if _name == "round" else getattr(operator, _name)))
for _name in _NEEDING:
    setattr(_Later, f"__{_name}__", _needing(f"__{_name}__"))


def cast(kind, *args):
    """`float(x)` or `int(x)`, which stands for a number where `x` does."""
    if len(args) == 1 and type(args[0]) is _Later:
        return _later(kind, *args)
    if len(args) == 1 and isinstance(args[0], _Told):
        return args[0]._reads.told(kind(args[0].real))
    return kind(*args)


def mark(index):
    """What stands for one of the texts of numbers."""
    return f"\ue000{index:09}\ue001"


def is_read(value):
    """Whether a value is a number that is read, or stands for one."""
    return type(value) is _Later or isinstance(value, _Told)


def plain(leaf):
    """A number that told what became of it, as a number like others; anything else as it is."""
    return leaf.real if isinstance(leaf, _Told) else leaf


def known(leaf, numbers):
    """What stood for a number that is known now, as that; anything else as it is."""
    return leaf.number(numbers) if type(leaf) is _Later else leaf


def check(reads, leaves):
    """Raise `Needed` where something else than these holds what stands for a number."""
    held, waiting = {}, [leaf for leaf in leaves if type(leaf) is _Later]
    while waiting:
        one = waiting.pop()
        held[id(one)] = one
        waiting += one.parts
    if reads.alive > len(held):
        raise Needed("something keeps a number that is read")
