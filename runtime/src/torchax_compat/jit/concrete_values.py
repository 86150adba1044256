"""Values of tensors that Python needs while a function is traced: conditions, sizes and counts.

`if torch.isnan(x).any():` and `int(self.started)` need a value, which a traced tensor does not have.
A function that needs such values, its *answers*, runs without compilation first, which gives the answers.
It is then traced with these, and the compiled function returns the tensors in question beside its results, so
that they can be compared with the answers.
If they differ, the results are dropped, and a version that was traced with the right answers is called, or
the function runs without compilation.

Other numbers that `item()` reads are handled by `deferred_scalars.py`; the results of comparisons with them
are answers, too.
A count in a buffer is such a number at first, for example a position in a queue that moves on at each call.
If an integer is needed as it is, as for a size, integers that are read become answers: they then have to be
the same in two consecutive runs.
"""

from __future__ import annotations

import contextlib
import operator
from collections.abc import Callable, Iterator
from typing import Any

import jax
import jax.extend.core
import torch
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction
from ..patches.declarations import patch
from ..tensor import arrays
from . import deferred_scalars, dynamic_slices

#: With more versions than this, or more calls without a right one, the answers keep changing.
MOST_VERSIONS = 8
MOST_MISSES = 16

_session: Any = None


class UnknownAnswerError(Exception):
    """A value is needed for which there is no answer yet."""


class OtherAnswersError(Exception):
    """The answers differ; `answers` are the right ones, up to the first that differs."""

    def __init__(self, answers: Any) -> None:
        super().__init__("the answers differ")
        self.answers = answers


class IntegerNeededError(Exception):
    """An integer is needed as it is, and has to be an answer."""


class _Session:
    """A call whose answers are recorded or replayed; `buffers` are those of its modules.

    Integers are answers if it `asks_counts`, and numbers that are read otherwise.
    `compare` gives the answer for the result of a comparison.
    """

    compare: Callable[[Any], Any]

    def __init__(self, answers: Any, buffers: Any, *, asks_counts: bool) -> None:
        self.answers, self.buffers = answers, set(map(id, buffers))
        self.asks_counts, self.reads_counts = asks_counts, False
        self.reads = deferred_scalars.Reads(self.compare)
        #: Whether a tensor was copied to the host, which tracing keeps on the device: from then on, values of
        #: CPU tensors are answers, too.
        self.has_copies = False

    def counts(self, tensor: torch.Tensor, *, may_read: bool) -> Any:
        """Whether the integer in a tensor is an answer.

        Integers that are read are mostly logged, such as a count of correct predictions: they differ at each
        call, and are only used outside of the computation.
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
    """Records the answers while a function runs without compilation, and the random numbers that it draws.

    `generators` are the random generators whose states can be restored.
    """

    def __init__(self, buffers: Any, generators: Any, *, asks_counts: bool) -> None:
        super().__init__([], buffers, asks_counts=asks_counts)
        self.generators = generators
        self.draws: list[Any] = []

    def note(self, draw: Any, *, is_repeated: bool) -> None:
        """Note a draw; one that differs each time has to be made by the function itself."""
        if is_repeated:
            self.draws.append(draw)
        else:
            self.reads.are_used = True

    def ask(self, _tensor: Any, plain: Any, _kind: Any) -> Any:
        """Record the value of a tensor as an answer."""
        return self.compare(plain())

    def compare(self, answer: Any) -> Any:
        """Record the result of a comparison as an answer."""
        self.answers.append(answer)
        return answer

    def read(self, _tensor: Any, plain: Any) -> Any:
        """The number in a tensor, which records how it is used."""
        return self.reads.recorded(plain())

    def convert(self, _tensor: Any, plain: Any) -> Any:
        """The number in a tensor as it is, which a compiled function does not have."""
        self.reads.are_used = True
        return plain()


class Replaying(_Session):
    """Replays recorded answers while a function is traced; `values` are the tensors in question.

    Numbers that are read have placeholders if it `has_recording`: a run without compilation has shown how
    they are used.
    The function gets its random numbers from `collected`; `drawn` counts those of its own statements.
    """

    def __init__(
        self, answers: Any, buffers: Any, collected: Any, *, asks_counts: bool, has_recording: bool
    ) -> None:
        super().__init__(answers, buffers, asks_counts=asks_counts)
        self.collected, self.drawn = collected, 0
        self.has_recording = has_recording
        self.count = 0
        self.places: list[int] = []
        self.values: list[Any] = []
        self.compared: dict[int, Any] = {}  # by position, the placeholder for the result of a comparison
        self.trace = jax.extend.core.get_opaque_trace_state()

    def ask(self, tensor: torch.Tensor, plain: Any, kind: Any) -> Any:
        """The answer for a tensor, which the compiled function returns for comparison."""
        self.count += 1
        if not arrays.is_traced(tensor):
            return plain()
        if type(self._answer()) is not kind:
            raise UnknownAnswerError  # another question
        self.places.append(self.count - 1)
        self.values.append(self._value(tensor))
        return self._answer()

    def compare(self, later: Any) -> Any:
        """The answer of a comparison, whose result is computed after the call."""
        self.count += 1
        self.compared[self.count - 1] = later
        return self._answer()

    def _answer(self) -> Any:
        if self.count > len(self.answers):
            raise UnknownAnswerError
        return self.answers[self.count - 1]

    def read(self, tensor: torch.Tensor, plain: Any) -> Any:
        """A placeholder for the number in a tensor."""
        if not arrays.is_traced(tensor):
            return plain()
        if not self.has_recording:
            raise UnknownAnswerError
        return self.reads.later(self._value(tensor), float if tensor.is_floating_point() else int)

    def convert(self, tensor: torch.Tensor, plain: Any) -> Any:
        """The number in a tensor as it is; a traced tensor has none, which raises an error."""
        if arrays.is_traced(tensor) and not self.has_recording:
            raise UnknownAnswerError
        return plain()

    def _value(self, tensor: torch.Tensor) -> Any:
        # The values of an inner trace, such as a custom gradient, cannot be returned.
        if jax.extend.core.get_opaque_trace_state() != self.trace:
            raise UnknownAnswerError
        return jax.lax.stop_gradient(tensor.jax().reshape(()))

    def check_early(self, numbers: Any) -> None:
        """Compare the answers that are known before the computation."""
        for place, later in self.compared.items():
            if not later.is_early:
                break
            self._compare(place, later.number(numbers))

    def check(self, values: Any, numbers: Any) -> None:
        """Raise `OtherAnswersError` if returned values and numbers differ from the answers of the trace."""
        given = dict(zip(self.places, jax.device_get(values), strict=False))
        for place in sorted((*given, *self.compared)):
            value = given[place] if place in given else self.compared[place].number(numbers)
            self._compare(place, value)

    def _compare(self, place: Any, value: Any) -> None:
        answer = type(self.answers[place])(value)
        if answer != self.answers[place]:
            raise OtherAnswersError((*self.answers[:place], answer))


def placeholder(value: Any, taken: Any, place: Any) -> Any:
    """A placeholder for a number that is an input; the computation has it as `taken`."""
    if isinstance(_session, Recording):
        return _session.reads.recorded(value)
    if not isinstance(_session, Replaying):
        return value
    if not _session.has_recording:
        raise UnknownAnswerError
    return _session.reads.given(taken, type(value), place)


def is_replaying() -> bool:
    """Whether a function is traced with answers."""
    return isinstance(_session, Replaying)


def session() -> Any:
    """The current recording or replay."""
    return _session


def is_active() -> bool:
    """Whether answers are recorded or replayed."""
    return _session is not None


@contextlib.contextmanager
def using(session: Any) -> Iterator[Any]:
    """Let a recording or a replay give the answers; with None, tensors give their values."""
    global _session
    before, _session = _session, session
    try:
        yield session
    finally:
        _session = before


def length(tensor: torch.Tensor) -> Any:
    """The number in a tensor that is a size: a function is compiled for each size."""

    def answer() -> Any:
        return dynamic_slices.Length(tensor.jax().item())

    return answer() if _session is None else _session.ask(tensor, answer, dynamic_slices.Length)


#: The conversion of a tensor's single number, by the method that Python calls.
_KINDS: dict[str, Callable[[Any], Any]] = {
    "__bool__": bool,
    "item": lambda number: number,
    "__int__": int,
    "__float__": float,
}
_KINDS["__index__"] = operator.index
_ANSWERS = {"__bool__": bool, "__int__": int, "__float__": float, "__index__": int}


def _asking(name: str) -> Any:
    plain, kind = getattr(torch.Tensor, name), _KINDS[name]

    def ask(tensor: torch.Tensor) -> Any:
        if tensor.numel() != 1 or tensor.is_complex():
            return plain(tensor.torch() if isinstance(tensor, View) else tensor)

        def answer() -> (
            Any
        ):  # not by torch, which finds no number in a JAX array for `torch.FloatTensor([a, b])`
            return kind(tensor.jax().item())

        return answer() if _session is None else _asked(name, tensor, answer)

    def ask_on_host(tensor: torch.Tensor) -> Any:
        is_copy = _session is not None and _session.has_copies and type(tensor) is torch.Tensor
        if not is_copy or tensor.numel() != 1 or tensor.is_complex():
            return plain(tensor)

        def answer() -> Any:
            with DisableTorchFunction():  # it would call this function again
                return plain(tensor)

        return _asked(name, tensor, answer)

    return ask, ask_on_host


def _asked(name: str, tensor: torch.Tensor, answer: Any) -> Any:
    is_truth = name == "__bool__" or tensor.dtype == torch.bool
    if is_truth or _session.counts(tensor, may_read=name == "item"):
        return _session.ask(tensor, answer, _ANSWERS.get(name, bool if is_truth else int))
    if name == "item":
        return _session.read(tensor, answer)
    return answer() if name == "__index__" else _session.convert(tensor, answer)


for _name in _KINDS:
    _ask, _ask_on_host = _asking(_name)
    for _owner, _way in (
        ("torchax.tensor:Tensor", _ask),
        ("torchax.view:View", _ask),
        ("torch:Tensor", _ask_on_host),
    ):
        patch(
            f"{_owner}.{_name}",
            why="A tensor that JAX traces has no value, and a compiled function would keep the first one.",
        )(_way)


class Answers:
    """The answers of a function, for one combination of arguments."""

    def __init__(self, *, asks_counts: bool = False) -> None:
        self.asks_counts = asks_counts
        self.before: Any = None
        self.known: list[Any] = []
        self.last: Any = ()
        self.following: dict[Any, Any] = {}
        self.hits = self.misses = self.others = 0
        #: The output and the draws of a run with these answers.
        self.patterns: dict[Any, Any] = {}
        self.draws: dict[Any, Any] = {}
        self.is_borrowed = self.may_draw_others = False

    def borrowed(self) -> Any:
        """The latest answers, to be tried for other shapes; None if there are none."""
        if not self.known:
            return None
        made, answers = Answers(asks_counts=self.asks_counts), self.known[-1]
        made.known, made.before = [answers], answers
        # The shapes of noise change with those of inputs.
        made.is_borrowed = made.may_draw_others = True
        made.patterns[answers], made.draws[answers] = self.patterns[answers], self.draws[answers]
        return made

    def keep(self, answers: Any, pattern: Any, draws: Any) -> None:
        """Keep the answers of a run if they are worth a version of their own, with its output and draws."""
        self.misses += self.before is not None
        self.is_borrowed = False
        self.patterns[answers], self.draws[answers] = pattern, draws
        if answers == self.before or all(type(answer) in (bool, dynamic_slices.Length) for answer in answers):
            self.known.append(answers)
        self.before = answers

    def may_be_others(self) -> bool:
        """Whether the answers may be recorded again, as after a change of an attribute."""
        self.others += 1
        return self.others <= max(MOST_MISSES, self.hits)

    def keep_changing(self) -> Any:
        """Whether the answers change too often for compiled versions."""
        return len(self.known) > MOST_VERSIONS or self.misses > max(MOST_MISSES, self.hits)

    def fitting(self, first: Any = ()) -> Any:
        """Answers to try that begin with `first`, which are known to be right; None if there are none."""
        fitting = [one for one in self.known if one[: len(first)] == first]
        likely = self.following.get(self.last)
        return likely if likely in fitting else (fitting or [None])[-1]

    def fitting_instead(self, answers: Any) -> Any:
        """Answers to try after some were incomplete, as before a number was known to change."""
        self.known = [one for one in self.known if one != answers]
        return self.fitting()

    def were(self, answers: Any) -> None:
        """Note that these answers were right, after those of the last call."""
        self.hits += 1
        self.following[self.last] = self.last = answers
        self.known.remove(answers)
        self.known.append(answers)  # the latest is tried first
