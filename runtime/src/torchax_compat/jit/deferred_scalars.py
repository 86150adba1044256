"""Numbers that a traced function reads from tensors and passes on, for example to a log.

`return loss, {"kl": kl.item()}` does not need the number while it is traced: the compiled function returns
the tensor beside its results, and it becomes a number then.
Torch functions get the tensor of the computation in place of such a number, without a gradient: `b *
(a.item() / c.item())`.
The result of a comparison is an answer, like the truth value of a tensor (`concrete_values.py`).

A function that reads numbers runs without compilation first, with numbers that record how they are used.
Only its results and the attributes of its arguments may hold such a number afterwards, and no number may have
been converted to anything but another number, or text that is printed (`captured_output.py`).
"""

from __future__ import annotations

import gc
import math
import operator
import types
from collections.abc import Callable
from typing import Any, NamedTuple

import jax

from ..adapters.torch_internals import pytree
from ..tensor import arrays

_ARITHMETIC = ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow")
_UNARY = ("neg", "pos", "abs", "round")
#: Methods that need the value of a number.
_NEEDING = ["int", "float", "index", "complex", "trunc", "floor", "ceil", "hash", "array"]
_ASKING = ["bool", "lt", "le", "gt", "ge", "eq", "ne"]
_TEXTS = ("format", "repr")
#: The marker for the text of a number that is not known yet.
MARK = "\ue000([0-9]{9})\ue001"


class ValueNeededError(TypeError):
    """The value of a number is needed while a function is traced."""


class Numbers(NamedTuple):
    """The numbers of one call: those that were read, those that were given, and those that were drawn."""

    read: list[Any]
    given: list[Any]
    drawn: list[Any]


class Reads:
    """The numbers that are read in one run of a function, as JAX arrays if it is traced.

    The result of a comparison, or its placeholder, is passed to `answer`, which returns the answer.
    """

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.values: list[Any] = []
        self.alive, self.are_used = 0, False
        self.texts: list[Any] = []  # texts of numbers, or the placeholders and their formats

    def are_kept(self) -> bool:
        """Whether something still holds one of the numbers."""
        if self.alive:
            gc.collect()
        return self.alive > 0

    def recorded(self, number: Any) -> Any:
        """A number that records how it is used."""
        return (_RecordedInt if type(number) is int else _RecordedFloat)(number).of(self)

    def later(self, value: Any, kind: Any) -> Any:
        """A placeholder for a number of which only the type is known yet."""
        self.values.append(value)
        place = len(self.values) - 1
        return _Later(self, kind, lambda numbers: numbers.read[place], lambda: weakly_typed(value))

    def given(self, value: Any, kind: Any, place: Any) -> Any:
        """A placeholder for a number that is an input of each call."""
        return _Later(self, kind, lambda numbers: numbers.given[place], lambda: value, is_early=True)

    def drawn(self, value: Any, kind: Any, place: Any) -> Any:
        """A placeholder for a number that is drawn for each call."""
        return _Later(self, kind, lambda numbers: numbers.drawn[place], lambda: value, is_early=True)


class _One:
    """A number of a run; the existing ones are counted."""

    def of(self, reads: Any) -> Any:
        self.reads = reads
        reads.alive += 1
        return self

    def __del__(self) -> None:
        self.reads.alive -= 1

    def ask(self, answer: Any) -> Any:
        """The answer that the run gives about a number."""
        return self.reads.answer(answer)


class _Recorded(_One):
    """A number, a float or an integer, that records how it is used."""

    real: Any

    def __reduce_ex__(self, _protocol: Any) -> Any:
        return type(self.real), (self.real,)  # copies and pickles have a plain number


class _RecordedFloat(_Recorded, float):
    pass


class _RecordedInt(_Recorded, int):
    pass


def _recording(kind: Any, name: str) -> Any:
    plain = getattr(kind, name)

    def result(self: Any, *others: Any) -> Any:
        found = plain(self, *others)
        return self.reads.recorded(found) if type(found) in (int, float) else found

    return result


def _asking_of(kind: Any, name: str) -> Any:
    plain = getattr(kind, name)

    def result(self: Any, *others: Any) -> Any:
        found = plain(self, *others)
        return found if found is NotImplemented else self.reads.answer(found)

    return result


def _using(kind: Any, name: str) -> Any:
    plain = getattr(kind, name)

    def result(self: Any, *others: Any) -> Any:
        self.reads.are_used = True
        return plain(self, *others)

    return result


def _texting(kind: Any, name: str) -> Any:
    plain = getattr(kind, name)

    def text(self: Any, *form: Any) -> Any:
        self.reads.texts.append(plain(self.real, *form))
        return self.reads.texts[-1]

    return text


_both_ways = [f"__{before}{name}__" for name in _ARITHMETIC for before in ("", "r")]
_class: Any
for _kind, _class in ((float, _RecordedFloat), (int, _RecordedInt)):
    for _name in (*_both_ways, *(f"__{name}__" for name in _UNARY)):
        setattr(_class, _name, _recording(_kind, _name))
    for _name in (f"__{name}__" for name in _NEEDING):
        if hasattr(_kind, _name):
            setattr(_class, _name, _using(_kind, _name))
    for _name in (f"__{name}__" for name in _ASKING):
        setattr(_class, _name, _asking_of(_kind, _name))
    for _name in (f"__{name}__" for name in _TEXTS):
        setattr(_class, _name, _texting(_kind, _name))
    _class.__str__ = _class.__repr__


class _Later(_One):
    """A placeholder for a number that is known after the function has run.

    `number` computes it from the `Numbers` of a call, and `traced` returns it as an array of the computation.
    If it `is_early`, it is known before the computation.
    """

    def __init__(
        self, reads: Any, kind: Any, number: Any, traced: Any, parts: Any = (), *, is_early: bool = False
    ) -> None:
        self.of(reads)
        self.is_early = is_early or (bool(parts) and all(part.is_early for part in parts))
        self.kind, self.number, self.traced, self.parts = kind, number, traced, parts

    @property  # type: ignore[misc]  # an object's own is assignable
    def __class__(self) -> Any:
        return self.kind  # for `isinstance`

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args, kwargs = for_computation((args, kwargs or {}))
        return func(*args, **kwargs)

    def __format__(self, form: Any) -> str:
        try:
            format(self.kind(1), form)
        except ValueError as error:
            raise ValueNeededError(
                "it formats a number that is read from a tensor in a way that fails"
            ) from error
        self.reads.texts.append((self, form))
        return marker(len(self.reads.texts) - 1)

    def __repr__(self) -> str:
        return format(self)

    __str__ = __repr__


def deferred(compute: Callable[..., Any], *parts: Any, traced: Any = None) -> Any:
    """The result of a function of numbers of which some are not known yet; `traced` is for arrays."""
    laters = [part for part in parts if type(part) is _Later]
    if any(type(part) not in (_Later, bool, int, float) for part in parts):
        return NotImplemented
    kinds = [part.kind if type(part) is _Later else type(part) for part in parts]
    try:
        kind = type(compute(*(kind(1) for kind in kinds)))
    except (ArithmeticError, ValueError) as error:
        raise ValueNeededError("it needs the value of a number that is read from a tensor") from error

    def number(values: Any) -> Any:
        return compute(*(part.number(values) if type(part) is _Later else part for part in parts))

    def of_arrays() -> Any:
        return (traced or compute)(*(part.traced() if type(part) is _Later else part for part in parts))

    later = _Later(laters[0].reads, kind, number, of_arrays, laters)
    return later.reads.answer(later) if kind is bool else later


def weakly_typed(value: Any) -> Any:
    """An array with one number that promotes other arrays as little as a Python number does."""
    kind = 0 if jax.numpy.issubdtype(value.dtype, jax.numpy.integer) else 0.0
    return jax.numpy.asarray(kind).at[()].set(value)


def for_computation(arguments: Any) -> Any:
    """Arguments of a torch function: tensors for placeholders, and plain numbers for recording ones."""
    leaves, tree = pytree.tree_flatten(arguments)
    if not any(map(is_read, leaves)):
        return arguments
    leaves = [arrays.tensor(leaf.traced()) if type(leaf) is _Later else plain(leaf) for leaf in leaves]
    return pytree.tree_unflatten(leaves, tree)


def _computing(compute: Callable[..., Any], *, is_turned: bool = False) -> Any:
    if is_turned:
        return lambda self, other: deferred(compute, other, self)
    return lambda self, *others: deferred(compute, self, *others)


def _needing(name: str) -> Any:
    def refuse(_self: Any, *_: Any) -> Any:
        raise ValueNeededError(f"`{name}` needs the value of a number that is read from a tensor")

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


def cast(kind: Any, *args: Any) -> Any:
    """`float(x)` or `int(x)`, which is a placeholder if `x` is one."""
    return _made_of_numbers(kind, lambda value: value.astype(kind), *args)


def _made_of_numbers(compute: Callable[..., Any], traced: Any, *args: Any) -> Any:
    """The result of a function: a placeholder, or a recording number, if one of its arguments is one."""
    if any(type(one) is _Later for one in args):
        found = deferred(compute, *args, traced=traced)
        if found is NotImplemented:
            raise ValueNeededError("it needs the value of a number that is read from a tensor")
        return found
    reads = next((one.reads for one in args if isinstance(one, _Recorded)), None)
    if reads is None:
        return compute(*args)
    found = compute(*map(plain, args))
    return reads.recorded(found) if type(found) in (int, float) else reads.answer(found)


def _of_arrays(name: str) -> Any:
    """The version of a `math` function for arrays."""
    compute = getattr(jax.numpy, name, None)

    def traced(*args: Any) -> Any:
        if compute is None or (name == "log" and len(args) > 1):
            raise ValueNeededError(f"`math.{name}` needs the value of a number that is read from a tensor")
        return compute(*args)

    return traced


def _of_numbers(name: str, compute: Callable[..., Any]) -> Any:
    def made(*args: Any, **options: Any) -> Any:
        return compute(*args, **options) if options else _made_of_numbers(compute, _of_arrays(name), *args)

    return made


#: The functions of `math` of one or two numbers, and their replacements for placeholders.
MATHEMATICS = {
    compute: _of_numbers(name, compute)
    for name, compute in vars(math).items()
    if isinstance(compute, types.BuiltinFunctionType)
}


def marker(index: int) -> str:
    """The marker for a formatted number."""
    return f"\ue000{index:09}\ue001"


def is_deferred(value: Any) -> bool:
    """Whether a value is a placeholder for a number that is not known yet."""
    return type(value) is _Later


def is_read(value: Any) -> bool:
    """Whether a value is a number that was read, or a placeholder for one."""
    return type(value) is _Later or isinstance(value, _Recorded)


def plain(leaf: Any) -> Any:
    """A recording number as a plain one; other values unchanged."""
    return leaf.real if isinstance(leaf, _Recorded) else leaf


def resolved(leaf: Any, numbers: Any) -> Any:
    """The number for a placeholder, which is known now; other values unchanged."""
    return leaf.number(numbers) if type(leaf) is _Later else leaf


def check(reads: Any, leaves: Any) -> None:
    """Raise `ValueNeededError` if anything but these values holds a placeholder."""
    held, waiting = {}, [leaf for leaf in leaves if type(leaf) is _Later]
    while waiting:
        one = waiting.pop()
        held[id(one)] = one
        waiting += one.parts
    if reads.alive > len(held):
        raise ValueNeededError(
            "it keeps a number that is read from a tensor where a compiled function cannot put it"
        )
