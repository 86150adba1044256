"""What Python asks of tensors while a function is traced: whether one is true, or which whole number it is.

`if torch.isnan(x).any():` needs a value, which tracing has not.
A function that asks is run as it is at first, which tells the answers; it is then traced with these, numbers
once they have come twice, and what was asked comes out of the compiled function beside its results, to be
compared.
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
MOST_VERSIONS = 16
MOST_MISSES = 64
#: Of so many answers those that come twice are told.
MOST_SEEN = 1000

_session = None


class Unknown(Exception):
    """Something is asked of which there is no answer yet."""


class Others(Exception):
    """The answers are others; `answers` are the first ones, up to one that is not as it was taken for."""

    def __init__(self, answers):
        super().__init__("the answers are others")
        self.answers = answers


class Recording:
    """Keeps the answers while a function runs as it is."""

    def __init__(self):
        self.answers = []

    def ask(self, _tensor, plain):
        self.answers.append(plain())
        return self.answers[-1]


class Replaying:
    """Gives answers that were kept while a function is traced; `values` are what it asks about."""

    def __init__(self, answers):
        self.answers, self.count, self.places, self.values = answers, 0, [], []
        self.trace = jax.extend.core.get_opaque_trace_state()

    def ask(self, tensor, plain):
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


def _asking(plain, *, of_numbers):
    def ask(tensor):
        answer = lambda: plain(tensor.torch() if isinstance(tensor, View) else tensor)  # noqa: E731
        is_asked = tensor.numel() == 1 and (not of_numbers or not tensor.is_floating_point())
        return answer() if _session is None or not is_asked else _session.ask(tensor, answer)

    return ask


for _kind in (Tensor, View):
    _kind.__bool__ = _asking(torch.Tensor.__bool__, of_numbers=False)
    for _name in ("item", "__int__", "__index__"):
        setattr(_kind, _name, _asking(getattr(torch.Tensor, _name), of_numbers=True))


class Answers:
    """The answers that a function was given, for one combination of what it is called with."""

    def __init__(self):
        self.seen, self.known, self.last, self.following = set(), {}, (), {}
        self.hits = self.misses = 0

    def keep(self, answers):
        """Keep those of a run; of numbers those that came twice are worth a version of their own."""
        self.misses += bool(self.known)
        if answers in self.seen or all(type(answer) is bool for answer in answers):
            self.known[answers] = answers
        if len(self.seen) < MOST_SEEN:
            self.seen.add(answers)

    def keep_changing(self):
        """Whether versions are in vain."""
        return len(self.known) > MOST_VERSIONS or self.misses > max(MOST_MISSES, self.hits)

    def fitting(self, first=()):
        """Those to try, which begin with some that are known to be right; None where there are none."""
        fitting = [one for one in self.known if one[: len(first)] == first]
        likely = self.following.get(self.last)
        return likely if likely in fitting else next(reversed(fitting), None)

    def were(self, answers):
        """Note that these were right, after those of the last call."""
        self.hits += 1
        self.following[self.last] = self.last = answers
        self.known[answers] = self.known.pop(answers)  # the latest is tried first
