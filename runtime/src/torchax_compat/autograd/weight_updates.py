"""Updates of weights that follow a step of an optimizer, such as averages, as a part of its program.

A function without gradients, as under `@compile_update`, is expected once it was called after two steps in a
row and used the parameters that these changed.
From then on, the step waits for the function, and one XLA program computes both.
Whatever reads or writes what the step changes before that computes the step without the function.
If this happens at more than one step in eight, steps do not wait.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torchax

from ..jit import compiler_settings
from ..tensor import arrays, deferral

#: An update is expected after this many steps in a row that one followed.
FEWEST_CALLS = 2
#: For each step that no update has followed, so many others are followed by one if steps wait.
CALLS_OF_MISS = 8

#: The name of the arrays that the function replaces, among the state of the optimizer.
_REPLACED = "replaced by the function"


class Expectation:
    """Whether an update of weights follows the steps of an optimizer."""

    def __init__(self) -> None:
        self._calls = self._misses = 0
        self._parameters: Sequence[torch.Tensor] = ()
        self._numbers: dict[int, int] = {}

    @property
    def is_met(self) -> bool:
        """Whether an update is expected after the next step."""
        return self._calls >= max(FEWEST_CALLS, CALLS_OF_MISS * (self._misses - 2))

    def note(self, *, has_come: bool) -> None:
        """Note whether an update followed a step."""
        if has_come:
            self._calls += 1
        elif self._calls < FEWEST_CALLS:
            self._calls = 0
        else:
            self._misses += 1

    def numbers(self, parameters: Sequence[torch.Tensor]) -> dict[int, int]:
        """The numbers of parameters by their `id`."""
        if parameters is not self._parameters:
            self._parameters, self._numbers = parameters, {id(p): i for i, p in enumerate(parameters)}
        return self._numbers


#: The latest step of an optimizer that no update has followed so far.
_latest: Any = None


def note_step(update: Any) -> None:
    """Note a step of an optimizer, which an update may follow."""
    global _latest
    if _latest is not None and _latest.expectation is update.expectation:
        update.expectation.note(has_come=False)
    _latest = None if update.is_waiting else update


def may_follow(version: Any) -> bool:
    """Whether a call of a version of a function may be computed together with a step that waits for it."""
    return _waiting_step() is not None and _is_part(version)


def _waiting_step() -> Any:
    """The recorded step, if it waits for a function."""
    step = deferral.current
    return None if getattr(step, "waiting_update", None) is None else step


def _is_part(version: Any) -> bool:
    """Whether calls only compute from tensors, and need no gradients and random numbers."""
    if torch.is_grad_enabled() or version.is_new or not isinstance(version.forward, compiler_settings.Jitted):
        return False
    replay = version.replay
    kept = (
        *(replay.values, replay.reads.values, replay.drawn, version.draws, version.rotates_key),
        *(version.pattern, version.drew_on_host, any(version.with_gradient), version.frozen.left),
    )
    return not any(kept)


def computed(version: Any, given: Sequence[torch.Tensor], buffers: Any, states: Any) -> Any:
    """What the forward pass of a version computes, together with the step that waits for it.

    Args:
        version: the version of a function.
        given: its inputs.
        buffers: the buffers of its modules.
        states: the values of the attributes that it reads.

    Returns:
        The outputs, None for the pullback, and the other results; None if no step waits for the function.
    """
    global _latest
    step = _waiting_step()
    if not may_follow(version):
        if _latest is not None and _is_part(version):
            numbers = _latest.expectation.numbers(_latest.parameters)
            if not numbers.keys().isdisjoint(map(id, given)):
                _latest.expectation.note(has_come=True)
                _latest = None
        return None
    call = _Call(version, step.waiting_update, step.buffers, given, buffers, states)
    if _waiting_step() is not step or not call.uses_step:
        deferral.settle()
        return None
    if not step.run(call):
        step.waiting_update.apply()
        return None
    call.expectation.note(has_come=True)
    floats, (rest, values, numbers, written, left) = call.take_results()
    return floats, None, (rest, values, numbers, written, torchax.default_env().prng_key, left)


class _Call:
    """An update by an optimizer (`deferred_step.Update`), and a call of a function that follows it."""

    def __init__(
        self,
        version: Any,
        update: Any,
        buffers_of_step: Any,
        given: Sequence[torch.Tensor],
        buffers: Any,
        states: Any,
    ) -> None:
        self._version, self._update = version, update
        self.parameters, self.expectation = update.parameters, update.expectation
        updated = self.expectation.numbers(self.parameters)
        written = {id(one): i for i, one in enumerate(buffers_of_step.tensors)}
        #: For each input, the number of the parameter of the step that it is.
        self._of_step = [updated.get(id(one)) for one in given]
        self._buffers_of_step = [written.get(id(one)) for one in buffers]
        self.uses_step = any(number is not None for number in self._of_step)
        inputs = [
            None if number is not None else arrays.array_of(one)
            for one, number in zip(given, self._of_step, strict=True)
        ]
        others = [
            None if number is not None else arrays.array_of(one)
            for one, number in zip(buffers, self._buffers_of_step, strict=True)
        ]
        self._replaced = [i for i in version.changed if inputs[i] is not None]
        self._owned = [inputs[i] for i in self._replaced]
        for i in self._replaced:
            inputs[i] = None
        self.key = (update.key, version, *self._of_step, *self._buffers_of_step)
        self.numbers: Any = (update.numbers, inputs, others, states)
        self._results: Any = None

    def values(self) -> list[Any]:
        """The arrays of the parameters."""
        values: list[Any] = self._update.values()
        return values

    def state(self) -> dict[str, list[Any]]:
        """The arrays of the optimizer, and those that the function replaces."""
        owned, self._owned = self._owned, []
        return {**self._update.state(), _REPLACED: owned}

    def compute(self, values: Any, gradients: Any, state: Any, numbers: Any, written: Any) -> Any:
        """The new values of the parameters, the new state, and the results of the function."""
        of_update, inputs, buffers, states = numbers
        state = dict(state)
        inputs = list(inputs)
        for i, value in zip(self._replaced, state.pop(_REPLACED), strict=True):
            inputs[i] = value
        values, state = self._update.compute(values, gradients, state, of_update, written)
        inputs = _filled(inputs, self._of_step, values)
        buffers = _filled(buffers, self._buffers_of_step, written)
        floats, _, (rest, *others, changed, _, left) = self._version.trace_forward(
            [], inputs, buffers, torchax.default_env().prng_key, [], states
        )
        return values, (state, (floats, (rest, *others, changed, left)))

    def leave(self, values: Any, state: Any) -> None:
        """Take the new values and the new state."""
        of_update, self._results = state
        self._update.leave(values, of_update)

    def take_results(self) -> Any:
        """The results of the function, which the call forgets: the compiled program keeps its first call."""
        results, self._results, self.numbers = self._results, None, None
        return results


def _filled(inputs: Sequence[Any], numbers: Sequence[int | None], values: Sequence[Any]) -> list[Any]:
    """Inputs, in which those with a number are values."""
    return [one if number is None else values[number] for one, number in zip(inputs, numbers, strict=True)]
