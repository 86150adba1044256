"""Numbers that a traced function reads out of tensors and hands on, as what is logged is.

`return loss, {"kl": kl.item()}` needs no number while it is traced: what is read comes out of the compiled
function beside its results, and becomes a number there.
Torch's functions are given the one of the computation instead, without a gradient: `b * (a.item() / c.item())`.
What comparisons of it say is asked, as whether a tensor is true is (`asked.py`).
A function that reads is run as it is first, with numbers that tell what becomes of them: nothing but its
results and the attributes of what it was given may hold one afterwards, and none may have been made anything
but another number, or text that is printed (`printed.py`).
"""

from __future__ import annotations

import gc
import math
import operator
import types
from typing import NamedTuple

import jax
from torch.utils import _pytree as pytree

from .. import arrays

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs", "round")
#: What needs a number as it is.
_NEEDING = "int float index complex trunc floor ceil hash array".split()
_ASKING = "bool lt le gt ge eq ne".split()
_TEXTS = ("format", "repr")
#: What stands for the text of a number that is not known yet.
MARK = "\ue000([0-9]{9})\ue001"


class Needed(TypeError):
    """A number is needed as it is."""


class Numbers(NamedTuple):
    """The numbers of one call: those that were read, those that were given, and those that were drawn."""

    read: list
    given: list
    drawn: list


class Reads:
    """The numbers that are read in one run of a function, as arrays of JAX where it is traced.

    What a comparison says, or would say, it hands to `answer`, which gives the answer.
    """

    def __init__(self, answer):
        self.answer = answer
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
        place = len(self.values) - 1
        return _Later(self, kind, lambda numbers: numbers.read[place], lambda: weak(value))

    def given(self, value, kind, place):
        """What stands for a number that is given at each call."""
        return _Later(self, kind, lambda numbers: numbers.given[place], lambda: value, is_early=True)

    def drawn(self, value, kind, place):
        """What stands for a number that is drawn for each call."""
        return _Later(self, kind, lambda numbers: numbers.drawn[place], lambda: value, is_early=True)


class _One:
    """A number of a run; how many there are is counted."""

    def _of(self, reads):
        self._reads = reads
        reads.alive += 1
        return self

    def __del__(self):
        self._reads.alive -= 1

    def ask(self, answer):
        """What a number of the same run says that Python has to know."""
        return self._reads.answer(answer)


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


def _asking_of(kind, name):
    plain = getattr(kind, name)

    def result(self, *others):
        found = plain(self, *others)
        return found if found is NotImplemented else self._reads.answer(found)

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
        self._reads.texts.append(plain(self.real, *form))
        return self._reads.texts[-1]

    return text


_both_ways = [f"__{before}{name}__" for name in _ARITHMETIC for before in ("", "r")]
for _kind, _told in ((float, _ToldFloat), (int, _ToldInt)):
    for _name in (*_both_ways, *(f"__{name}__" for name in _UNARY)):
        setattr(_told, _name, _telling(_kind, _name))
    for _name in (f"__{name}__" for name in _NEEDING):
        if hasattr(_kind, _name):
            setattr(_told, _name, _using(_kind, _name))
    for _name in (f"__{name}__" for name in _ASKING):
        setattr(_told, _name, _asking_of(_kind, _name))
    for _name in (f"__{name}__" for name in _TEXTS):
        setattr(_told, _name, _texting(_kind, _name))
    _told.__str__ = _told.__repr__


class _Later(_One):
    """A number that is known once the function has run.

    `number` gives it from all `Numbers` of a call, and `traced` gives the one that the computation has.
    One that `is_early` is known before that.
    """

    def __init__(self, reads, kind, number, traced, parts=(), *, is_early=False):
        self._of(reads)
        self.is_early = is_early or (bool(parts) and all(part.is_early for part in parts))
        self._kind, self.number, self.traced, self.parts = kind, number, traced, parts

    @property
    def __class__(self):
        return self._kind  # what asks by `isinstance` is told so

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        args, kwargs = of_computation((args, kwargs or {}))
        return func(*args, **kwargs)

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


def later(compute, *parts, traced=None):
    """What comes of numbers of which some are not known yet; `traced` computes it of arrays."""
    laters = [part for part in parts if type(part) is _Later]
    if any(type(part) not in (_Later, bool, int, float) for part in parts):
        return NotImplemented
    kinds = [part._kind if type(part) is _Later else type(part) for part in parts]
    try:
        kind = type(compute(*(kind(1) for kind in kinds)))
    except (ArithmeticError, ValueError) as error:
        raise Needed("a number that is read is needed") from error

    def number(values):
        return compute(*(part.number(values) if type(part) is _Later else part for part in parts))

    def of_arrays():
        return (traced or compute)(*(part.traced() if type(part) is _Later else part for part in parts))

    later = _Later(laters[0]._reads, kind, number, of_arrays, laters)
    return later._reads.answer(later) if kind is bool else later


def weak(value):
    """An array of one number, which promotes others as little as a number of Python does."""
    kind = 0 if jax.numpy.issubdtype(value.dtype, jax.numpy.integer) else 0.0
    return jax.numpy.asarray(kind).at[()].set(value)


def of_computation(arguments):
    """Arguments of a function of torch: tensors for numbers that are not known yet, and no others that tell."""
    leaves, tree = pytree.tree_flatten(arguments)
    if not any(map(is_read, leaves)):
        return arguments
    leaves = [arrays.tensor(leaf.traced()) if type(leaf) is _Later else plain(leaf) for leaf in leaves]
    return pytree.tree_unflatten(leaves, tree)


def _computing(compute, *, is_turned=False):
    if is_turned:
        return lambda self, other: later(compute, other, self)
    return lambda self, *others: later(compute, self, *others)


def _needing(name):
    def refuse(self, *_):
        raise Needed(f"`{name}` needs a number that is read")

    return refuse


for _name in _ARITHMETIC:
    setattr(_Later, f"__{_name}__", _computing(getattr(operator, _name)))
    setattr(_Later, f"__r{_name}__", _computing(getattr(operator, _name), is_turned=True))
for _name in _UNARY:
    setattr(_Later, f"__{_name}__", _computing(round if _name == "round" else getattr(operator, _name)))
for _name in _ASKING:
    setattr(_Later, f"__{_name}__", _computing(bool if _name == "bool" else getattr(operator, _name)))
for _name in _NEEDING:
    setattr(_Later, f"__{_name}__", _needing(f"__{_name}__"))


def cast(kind, *args):
    """`float(x)` or `int(x)`, which stands for a number where `x` does."""
    return _made_of_numbers(kind, lambda value: value.astype(kind), *args)


def _made_of_numbers(compute, traced, *args):
    """What a function makes of numbers: another one to be known later, or that tells, where one of these does."""
    if any(type(one) is _Later for one in args):
        found = later(compute, *args, traced=traced)
        if found is NotImplemented:
            raise Needed("a number that is read is needed")
        return found
    reads = next((one._reads for one in args if isinstance(one, _Told)), None)
    if reads is None:
        return compute(*args)
    found = compute(*map(plain, args))
    return reads.told(found) if type(found) in (int, float) else reads.answer(found)


def _of_arrays(name):
    """What a function of `math` is for arrays."""
    compute = getattr(jax.numpy, name, None)

    def traced(*args):
        if compute is None or (name == "log" and len(args) > 1):
            raise Needed(f"`{name}` of a number that is read is needed")
        return compute(*args)

    return traced


def _of_numbers(name, compute):
    def made(*args, **options):
        return compute(*args, **options) if options else _made_of_numbers(compute, _of_arrays(name), *args)

    return made


#: The functions of `math` of one or two numbers, and what stands for them where numbers are not known yet.
MATHEMATICS = {
    compute: _of_numbers(name, compute)
    for name, compute in vars(math).items()
    if isinstance(compute, types.BuiltinFunctionType)
}


def mark(index):
    """What stands for one of the texts of numbers."""
    return f"\ue000{index:09}\ue001"


def is_later(value):
    """Whether a value stands for a number that is not known yet."""
    return type(value) is _Later


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
