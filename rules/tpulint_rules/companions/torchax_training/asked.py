"""What Python asks of tensors while a function is traced: whether one is true, or what a buffer counts.

`if torch.isnan(x).any():` needs a value, which tracing has not, and so does `int(self.started)`.
A function that asks is run as it is at first, which tells the answers; it is then traced with these, and what
was asked comes out of the compiled function beside its results, to be compared.
Counts have to be the same in two such runs, one after the other: a place that moves on at each call would be
compiled anew for each.
Where the answers are others, what was computed is dropped, and a version that was traced with those is called,
or the function is run as it is.
"""

from __future__ import annotations

import contextlib

import jax
import jax.extend.core
import torch
from torchax.tensor import Tensor
from torchax.view import View

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


class _Session:
    """A call in which something may be asked; `buffers` are those of its modules."""

    def __init__(self, answers, buffers):
        self.answers, self.buffers = answers, set(map(id, buffers))

    def counts(self, tensor):
        """Whether a tensor is a buffer, or a part of one.

        Other numbers that are read are what is logged, as counts of right answers are: another one for each
        call, and made use of outside of the computation.
        """
        while isinstance(tensor, View):
            tensor = tensor.parent
        return id(tensor) in self.buffers


class Recording(_Session):
    """Keeps the answers while a function runs as it is."""

    def ask(self, tensor, plain, *, of_number):
        if of_number and not self.counts(tensor):
            return plain()
        self.answers.append(plain())
        return self.answers[-1]


class Replaying(_Session):
    """Gives answers that were kept while a function is traced; `values` are what it asks about."""

    def __init__(self, answers, buffers):
        super().__init__(answers, buffers)
        self.count, self.places, self.values = 0, [], []
        self.trace = jax.extend.core.get_opaque_trace_state()

    def ask(self, tensor, plain, *, of_number):
        if of_number and not self.counts(tensor):
            return plain()
        self.count += 1
        if not isinstance(tensor.jax(), jax.core.Tracer):
            return plain()
        # What is traced within, such as a custom gradient, has values that cannot come out.
        if self.count > len(self.answers) or jax.extend.core.get_opaque_trace_state() != self.trace:
            raise Unknown
        self.places.append(self.count - 1)
        self.values.append(jax.lax.stop_gradient(tensor.jax().reshape(())))
        return self.answers[self.count - 1]

    def check(self, values):
        """Raise `Others` where the values that came out are not the answers that were taken for granted."""
        for place, value in zip(self.places, jax.device_get(values)):
            answer = type(self.answers[place])(value)
            if answer != self.answers[place]:
                raise Others((*self.answers[:place], answer))


def is_replayed():
    """Whether a function is traced with answers."""
    return isinstance(_session, Replaying)


@contextlib.contextmanager
def by(session):
    """Let a recording or a replay have what is asked; None lets it be as ever."""
    global _session
    before, _session = _session, session
    try:
        yield session
    finally:
        _session = before


def _asking(plain, *, of_number):
    def ask(tensor):
        answer = lambda: plain(tensor.torch() if isinstance(tensor, View) else tensor)  # noqa: E731
        is_asked = tensor.numel() == 1 and not (of_number and tensor.is_floating_point())
        if _session is None or not is_asked:
            return answer()
        return _session.ask(tensor, answer, of_number=of_number)

    return ask


for _kind in (Tensor, View):
    _kind.__bool__ = _asking(torch.Tensor.__bool__, of_number=False)
    for _name in ("item", "__int__", "__index__"):
        setattr(_kind, _name, _asking(getattr(torch.Tensor, _name), of_number=True))


class Answers:
    """The answers that a function was given, for one combination of what it is called with."""

    def __init__(self):
        self.before, self.known, self.last, self.following = None, [], (), {}
        self.hits = self.misses = 0

    def keep(self, answers):
        """Keep those of a run, if they are worth a version of their own."""
        self.misses += bool(self.known)
        if answers == self.before or all(type(answer) is bool for answer in answers):
            self.known.append(answers)
        self.before = answers

    def keep_changing(self):
        """Whether versions are in vain."""
        return len(self.known) > MOST_VERSIONS or self.misses > max(MOST_MISSES, self.hits)

    def fitting(self, first=()):
        """Those to try, which begin with some that are known to be right; None where there are none."""
        fitting = [one for one in self.known if one[: len(first)] == first]
        likely = self.following.get(self.last)
        return likely if likely in fitting else (fitting or [None])[-1]

    def were(self, answers):
        """Note that these were right, after those of the last call."""
        self.hits += 1
        self.following[self.last] = self.last = answers
        self.known.remove(answers)
        self.known.append(answers)  # the latest is tried first
