"""What Python asks of tensors while a function is traced: whether one is true, or what a buffer counts.

`if torch.isnan(x).any():` needs a value, which tracing has not, and so does `int(self.started)`.
Other numbers that `item()` reads are those of `reads.py`; what they are compared with is asked, too.
A function that asks is run as it is at first, which tells the answers; it is then traced with these, and what
was asked comes out of the compiled function beside its results, to be compared.
What a buffer counts is a number like others at first, as a place in a queue that moves on at each call is.
Where a whole number is needed as it is, as for a size, those that are read are asked: they have to be the same
in two runs then, one after the other.
Where the answers are others, what was computed is dropped, and a version that was traced with those is called,
or the function is run as it is.
"""

from __future__ import annotations

import contextlib
import operator

import jax
import jax.extend.core
import torch
from torchax.tensor import Tensor
from torchax.view import View

from .. import arrays
from . import reads, spans

#: With more versions than this, or more calls that none of them was right for, what is asked keeps changing.
MOST_VERSIONS = 8
MOST_MISSES = 16

_session = None


class Unknown(Exception):
    """Something is asked of which there is no answer yet."""


class Others(Exception):
    """The answers are others; `answers` are the first ones, up to one that is not as it was taken for."""

    def __init__(self, answers):
        super().__init__("the answers are others")
        self.answers = answers


class Counted(Exception):
    """A whole number is needed as it is, and has to be asked."""


class _Session:
    """A call in which something may be asked; `buffers` are those of its modules.

    Whole numbers are asked if it `asks_counts`, and read else.
    """

    def __init__(self, answers, buffers, *, asks_counts):
        self.answers, self.buffers = answers, set(map(id, buffers))
        self.asks_counts, self.reads_counts = asks_counts, False
        self.reads = reads.Reads(self.compare)
        #: Whether something was copied to the host, which stays on the device where it is traced: what is asked
        #: of tensors of the host counts from there on.
        self.has_copies = False

    def counts(self, tensor, *, may_read):
        """Whether to ask for the number of a tensor, which is a whole one.

        Mostly one that is read is what is logged, as a count of right answers is: another one for each call,
        and made use of outside of the computation.
        """
        if tensor.is_floating_point():
            return False
        if may_read:
            self.reads_counts |= not self.asks_counts
            return self.asks_counts
        while isinstance(tensor, View):
            tensor = tensor.parent
        return id(tensor) in self.buffers


class Recording(_Session):
    """Keeps the answers while a function runs as it is, and notes what it draws.

    `generators` are those that can go back.
    """

    def __init__(self, buffers, generators, *, asks_counts):
        super().__init__([], buffers, asks_counts=asks_counts)
        self.generators, self.draws = generators, []

    def note(self, draw, *, is_repeated):
        """Note what is drawn; what is another thing each time has to be drawn by the function itself."""
        if is_repeated:
            self.draws.append(draw)
        else:
            self.reads.are_used = True

    def ask(self, _tensor, plain, _kind):
        return self.compare(plain())

    def compare(self, answer):
        self.answers.append(answer)
        return answer

    def read(self, _tensor, plain):
        return self.reads.told(plain())

    def convert(self, _tensor, plain):
        self.reads.are_used = True
        return plain()


class Replaying(_Session):
    """Gives answers that were kept while a function is traced; `values` are what it asks about.

    What is read stands for numbers if it `is_told` what becomes of these.
    What the function draws it gets of those `collected`; `drawn` are those that its own lines draw.
    """

    def __init__(self, answers, buffers, collected, *, asks_counts, is_told):
        super().__init__(answers, buffers, asks_counts=asks_counts)
        self.collected, self.drawn = collected, 0
        self.is_told = is_told
        self.count, self.places, self.values = 0, [], []
        self.compared = {}  # by its place, what stands for what a comparison says
        self.trace = jax.extend.core.get_opaque_trace_state()

    def ask(self, tensor, plain, kind):
        self.count += 1
        if not arrays.is_traced(tensor):
            return plain()
        if type(self._answer()) is not kind:
            raise Unknown  # another question
        self.places.append(self.count - 1)
        self.values.append(self._value(tensor))
        return self._answer()

    def compare(self, later):
        self.count += 1
        self.compared[self.count - 1] = later
        return self._answer()

    def _answer(self):
        if self.count > len(self.answers):
            raise Unknown
        return self.answers[self.count - 1]

    def read(self, tensor, plain):
        if not arrays.is_traced(tensor):
            return plain()
        if not self.is_told:
            raise Unknown
        return self.reads.later(self._value(tensor), float if tensor.is_floating_point() else int)

    def convert(self, tensor, plain):
        if arrays.is_traced(tensor) and not self.is_told:
            raise Unknown
        return plain()

    def _value(self, tensor):
        # What is traced within, such as a custom gradient, has values that cannot come out.
        if jax.extend.core.get_opaque_trace_state() != self.trace:
            raise Unknown
        return jax.lax.stop_gradient(tensor.jax().reshape(()))

    def check_early(self, numbers):
        """The same of what is known before the computation."""
        for place, later in self.compared.items():
            if not later.is_early:
                break
            self._compare(place, later.number(numbers))

    def check(self, values, numbers):
        """Raise `Others` where what came out, values and numbers, gives other answers than those taken for granted."""
        given = dict(zip(self.places, jax.device_get(values)))
        for place in sorted((*given, *self.compared)):
            value = given[place] if place in given else self.compared[place].number(numbers)
            self._compare(place, value)

    def _compare(self, place, value):
        answer = type(self.answers[place])(value)
        if answer != self.answers[place]:
            raise Others((*self.answers[:place], answer))


def stand_in(value, taken, place):
    """What stands for a number that a call is given, of which the computation has `taken`."""
    if isinstance(_session, Recording):
        return _session.reads.told(value)
    if not isinstance(_session, Replaying):
        return value
    if not _session.is_told:
        raise Unknown
    return _session.reads.given(taken, type(value), place)


def is_replayed():
    """Whether a function is traced with answers."""
    return isinstance(_session, Replaying)


def session():
    """The recording or the replay that is under way."""
    return _session


def is_asked():
    """Whether a call is under way in which something may be asked."""
    return _session is not None


@contextlib.contextmanager
def by(session):
    """Let a recording or a replay have what is asked; None lets it be as ever."""
    global _session
    before, _session = _session, session
    try:
        yield session
    finally:
        _session = before


def length(tensor):
    """The number of a tensor that is a size: a function that asks for one is compiled for each."""
    answer = lambda: spans.Length(tensor.jax().item())  # noqa: E731
    return answer() if _session is None else _session.ask(tensor, answer, spans.Length)


#: What Python makes of the one number of a tensor, by the method that it calls.
_KINDS = {"__bool__": bool, "item": lambda number: number, "__int__": int, "__float__": float}
_KINDS["__index__"] = operator.index
_ANSWERS = {"__bool__": bool, "__int__": int, "__float__": float, "__index__": int}


def _asking(name):
    plain, kind = getattr(torch.Tensor, name), _KINDS[name]

    def ask(tensor):
        if tensor.numel() != 1 or tensor.is_complex():
            return plain(tensor.torch() if isinstance(tensor, View) else tensor)
        # Not by torch, to which an array of JAX has no number where `torch.FloatTensor([a, b])` asks.
        answer = lambda: kind(tensor.jax().item())  # noqa: E731
        return answer() if _session is None else _asked(name, tensor, answer)

    def ask_on_host(tensor):
        is_copy = _session is not None and _session.has_copies and type(tensor) is torch.Tensor
        if not is_copy or tensor.numel() != 1 or tensor.is_complex():
            return plain(tensor)

        def answer():
            with torch._C.DisableTorchFunction():  # which would come here once more
                return plain(tensor)

        return _asked(name, tensor, answer)

    return ask, ask_on_host


def _asked(name, tensor, answer):
    is_truth = name == "__bool__" or tensor.dtype == torch.bool
    if is_truth or _session.counts(tensor, may_read=name == "item"):
        return _session.ask(tensor, answer, _ANSWERS.get(name, bool if is_truth else int))
    if name == "item":
        return _session.read(tensor, answer)
    return answer() if name == "__index__" else _session.convert(tensor, answer)


for _name in _KINDS:
    _ask, _ask_on_host = _asking(_name)
    for _kind, _way in ((Tensor, _ask), (View, _ask), (torch.Tensor, _ask_on_host)):
        setattr(_kind, _name, _way)


class Answers:
    """The answers that a function was given, for one combination of what it is called with."""

    def __init__(self, *, asks_counts=False):
        self.asks_counts = asks_counts
        self.before, self.known, self.last, self.following = None, [], (), {}
        self.hits = self.misses = self.others = 0
        self.patterns, self.draws = {}, {}  # of what was told and drawn where these were the answers
        self.is_borrowed = self.may_draw_others = False

    def borrowed(self):
        """The latest of these, for other shapes that are tried with them first; None where there are none."""
        if not self.known:
            return None
        made, answers = Answers(asks_counts=self.asks_counts), self.known[-1]
        made.known, made.before = [answers], answers
        # Noise has other shapes where inputs have.
        made.is_borrowed = made.may_draw_others = True
        made.patterns[answers], made.draws[answers] = self.patterns[answers], self.draws[answers]
        return made

    def keep(self, answers, pattern, draws):
        """Keep those of a run, if they are worth a version of their own, and what it told and drew."""
        self.misses += self.before is not None
        self.is_borrowed = False
        self.patterns[answers], self.draws[answers] = pattern, draws
        if answers == self.before or all(type(answer) in (bool, spans.Length) for answer in answers):
            self.known.append(answers)
        self.before = answers

    def may_be_others(self):
        """Whether what is asked and told may be learned anew, as where an attribute that it depends on changed."""
        self.others += 1
        return self.others <= max(MOST_MISSES, self.hits)

    def keep_changing(self):
        """Whether versions are in vain."""
        return len(self.known) > MOST_VERSIONS or self.misses > max(MOST_MISSES, self.hits)

    def fitting(self, first=()):
        """Those to try, which begin with some that are known to be right; None where there are none."""
        fitting = [one for one in self.known if one[: len(first)] == first]
        likely = self.following.get(self.last)
        return likely if likely in fitting else (fitting or [None])[-1]

    def fitting_instead(self, answers):
        """Those to try where some turned out to be too few, as when a number was not known to change yet."""
        self.known = [one for one in self.known if one != answers]
        return self.fitting()

    def were(self, answers):
        """Note that these were right, after those of the last call."""
        self.hits += 1
        self.following[self.last] = self.last = answers
        self.known.remove(answers)
        self.known.append(answers)  # the latest is tried first
