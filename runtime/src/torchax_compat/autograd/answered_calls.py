"""Calls of a compiled function that needs values of tensors in Python, its *answers*.

`jit/concrete_values.py` records and replays the answers.
There is a compiled version for each combination of answers; a call tries the likely one first.
"""

from __future__ import annotations

from typing import Any

from ..jit import (
    captured_output,
    concrete_values,
    host_random,
    random_states,
    scalar_casts,
    tensor_objects,
    trace,
    varying_arguments,
)
from ..tensor import arrays, lazy_modules
from . import frozen_parameters, higher_order

#: After these, the call starts again.
_STARTED_AGAIN = (
    concrete_values.OtherAnswersError,
    concrete_values.UnknownAnswerError,
    host_random.OtherDrawsError,
    higher_order.NotRecordedError,
    lazy_modules.AwaitedError,
    frozen_parameters.UnfrozenError,
)


class PlainValueNeededError(Exception):
    """Plain arguments that keep changing are needed as Python values, not as tensors."""


class AnsweredCalls:
    """The calls of one function, and the answers that tensors gave in them."""

    def __init__(self, owner: Any) -> None:
        self.owner = owner
        self.answers: dict[Any, Any] = {}  # by the key of a call
        self.used: Any = None  # the version that computed the latest call
        self.latest: dict[Any, Any] = {}  # those of the last run without compilation, by the plain values

    def result(self, key: Any, make: Any, given: Any, note: Any) -> Any:
        """Call the version with the right answers; if there is none, run the function without compilation."""
        self.used = None
        known: Any = self._answers_for(key) if self.owner.is_compiled else None
        answers = () if known is None else known.fitting()
        while answers is not None:
            asks_counts = known is not None and known.asks_counts
            version = self._fitting((key, answers, asks_counts))
            if version is None:
                version = make(answers)
                self.owner.known.add((key, answers, asks_counts), version)
            is_new = self.owner.is_compiled and version.is_new
            version.has_recording, version.asks_counts = known is not None, asks_counts
            version.pattern = [] if known is None else known.patterns.get(answers)
            if known is not None and version.draws is None:
                version.draws = known.draws.get(answers, [])
                version.may_draw_others = known.may_draw_others
            try:
                result = self._run(version, given)
            except host_random.OtherDrawsError as error:
                version.draws = error.draws
                if known is not None and error.are_more:
                    known.draws[answers], known.may_draw_others = error.draws, False
            except concrete_values.OtherAnswersError as error:
                answers = known.fitting(error.answers)
            except concrete_values.IntegerNeededError:
                known = self.answers[key] = concrete_values.Answers(asks_counts=True)
                answers = None
            except concrete_values.UnknownAnswerError:
                version.is_void = True
                if known is not None and not known.may_be_others():
                    self.owner.stop_compiling(
                        "it needs values of tensors in Python that differ at each call, or that a compiled "
                        "function cannot return"
                    )
                    return version(given, is_compiled=False)
                known = self.answers.setdefault(key, concrete_values.Answers())
                answers = known.fitting_instead(answers)
            else:
                if known is not None:
                    known.were(answers)
                    known.is_borrowed = False
                self.used = version
                return result
            finally:
                if is_new and self.owner.is_compiled and not version.is_new:
                    note()
        return self._result_of_recording(key, known, make, given)

    def _result_of_recording(self, key: Any, known: Any, make: Any, given: Any) -> Any:
        """Run the function without compilation, and note the answers."""
        version = make(())
        buffers = trace.buffers_of(version.modules).values()
        recording = concrete_values.Recording(buffers, version.generators, asks_counts=known.asks_counts)
        output = captured_output.RecordedOutput(recording.reads)
        before = random_states.states(version.generators)
        try:
            with (
                concrete_values.using(recording),
                output.listening(),
                scalar_casts.replaced(self.owner.function, version.modules),
            ):
                result = version(given, is_compiled=False)
        except higher_order.NotRecordedError:
            random_states.restore(before)  # the function runs once more
            raise
        except TypeError as error:
            if not version.in_place_of:
                raise
            random_states.restore(before)
            raise PlainValueNeededError from error
        version = None  # it keeps the results of the run alive
        if recording.reads.are_used or recording.reads.are_kept() or not output.is_complete():
            if recording.reads_counts:
                self.answers[key] = concrete_values.Answers(asks_counts=True)
            else:
                self.owner.stop_compiling(
                    "it uses numbers that it reads from tensors (`.item()`, `float(x)`) for more than to "
                    "return or log them, or draws random numbers that cannot be drawn again; keep such "
                    "numbers as tensors"
                )
            return result
        known.keep(tuple(recording.answers), output.pattern, recording.draws)
        self.latest[key[0]] = known
        if known.keep_changing():
            self.owner.stop_compiling(
                "conditions on tensors, or sizes that are read from tensors, keep changing; use "
                "`torch.where` or fixed sizes"
            )
        return result

    def _answers_for(self, key: Any) -> Any:
        """The answers for a key; new shapes use the latest ones of other shapes, if those were confirmed."""
        if key not in self.answers:
            latest = self.latest.get(key[0])
            borrowed = None if latest is None or latest.is_borrowed else latest.borrowed()
            if borrowed is not None:
                self.answers[key] = borrowed
        return self.answers.get(key)

    def _run(self, version: Any, given: Any) -> Any:
        may_fail = version.is_new or (version.draws and version.has_recording)
        before = random_states.states(version.generators) if self.owner.is_compiled and may_fail else None
        try:
            result = version(given, self.owner.is_compiled)
        except Exception as error:
            if before is not None:
                random_states.restore(before)  # undo the draws of the failed trace
            if isinstance(error, _STARTED_AGAIN):
                raise
            if version.is_new and (version.in_place_of or version.stands_in()):
                raise PlainValueNeededError from error
            if varying_arguments.has_texts(version.leaves):
                raise PlainValueNeededError from error
            needs_value = isinstance(error, trace.NEEDS_VALUE) or version.reads_numbers()
            if self.owner.is_compiled and needs_value and version.replay.reads_counts:
                raise concrete_values.IntegerNeededError from error
            if not self.owner.is_compiled or not needs_value:
                if version.is_new and self.owner.records.are_taken:
                    raise tensor_objects.ObjectNeededError from error
                version.held.emit_without_numbers()
                raise
            self.owner.stop_compiling(arrays.first_line(error))
            return version(given, self.owner.is_compiled)
        if self.owner.is_compiled and version.drew_on_host:
            self.owner.stop_compiling(
                "it draws random numbers on the host, which a compiled function would draw only once; draw "
                "them before the call and pass them as arguments"
            )
        return result

    def _fitting(self, key: Any) -> Any:
        if self.owner.is_compiled:
            try:
                return self.owner.known.fitting(key)
            except trace.TooManyStatesError as error:
                self.owner.stop_compiling(error)
        elif len(self.owner.known.traces) > trace.MOST_VERSIONS:
            self.owner.known.traces.clear()
        return next(iter(self.owner.known.traces.get(key, ())), None)
