"""A call of a compiled function that is computed together with its backward pass.

The forward pass, the backward pass and, from `optim/steps.py`, the step of the optimizer become one XLA
program: it keeps no intermediate results in memory between them, and starts once.
Nothing is guessed: a call is recorded, and whatever reads one of its results, or an array that it changes,
computes what was recorded so far (`tensor/deferral.py`).
A function whose results are always needed before the backward pass is not recorded any more.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Protocol

import jax
import torch
import torchax
from torch.autograd.graph import register_multi_grad_hook
from torchax.tensor import Tensor

from ..adapters.torch_internals import (
    DisableTorchFunction,
    EnableTorchFunction,
    are_transforms_active,
    run_backward,
    tensor_hooks,
)
from ..jit import host_random, trace
from ..patches.declarations import TORCH, patch
from ..tensor import array_groups, arrays, deferral
from . import step_program

#: A function is recorded from this call on: the first ones compile its parts, which tells what it changes.
FIRST_CALL = 3
#: After this many calls whose results were needed before the backward pass, a function is not recorded.
MOST_MISSES = 3

#: Errors after which the parts of a step are computed one by one.
_NOT_TRACEABLE = (*trace.NEEDS_VALUE, TypeError)


class Update(Protocol):
    """What an optimizer does with the gradients."""

    #: Identifies `compute`, and what it was made for.
    key: Any
    #: The parameters that it changes.
    parameters: Sequence[torch.Tensor]
    #: Inputs that change from step to step.
    numbers: Any

    def values(self) -> list[Any]:
        """The arrays of the parameters."""

    def state(self) -> dict[str, list[Any]]:
        """Its arrays by name, for each parameter; nothing else uses these lists."""

    def compute(self, values: Any, gradients: Any, state: Any, numbers: Any, written: Any) -> Any:
        """The new values of the parameters, and the new state; `written` are the new buffers."""

    def leave(self, values: Any, state: Any) -> None:
        """Take these."""


class Plan:
    """How calls of a version of a function are recorded; one that has been called says what it changes."""

    #: Whether calls are recorded at all: not once a hook was put on nodes of PyTorch's graph.
    is_possible = True
    #: What the processes combine in a backward pass of a plan; None if it cannot be recorded.
    sharing: ClassVar[Callable[[Plan], step_program.Sharing | None]] = lambda _plan: step_program.Alone()

    def __init__(self, version: Any) -> None:
        self.version = version
        self.calls = self.misses = 0
        self.programs: dict[Any, Any] = {}
        self._is_plain: bool | None = None
        self._updates: dict[Any, Any] = {}
        self._observed = -1

    def note(self, floats: Any, rest: Any, bearing: Any) -> None:
        """Note the results of a call that was computed at once."""
        self.calls += 1
        self.floats = [(one.shape, one.dtype) for one in floats]
        self.rest = [(one.shape, one.dtype) for one in rest]
        self.bearing = bearing

    def records(self) -> bool:
        """Whether the next call is recorded."""
        if self.calls < FIRST_CALL - 1 or self.misses >= MOST_MISSES or not self.version.forward.is_optimized:
            return False
        if not Plan.is_possible or are_transforms_active():
            return False
        if threading.current_thread() is not threading.main_thread():
            return False  # another thread may read the results
        if self._is_plain is None:
            self._is_plain = self.version.is_plain() and self._has_known_parameters()
        return self._is_plain

    def _has_known_parameters(self) -> bool:
        """Whether gradients go to parameters of one dtype, and to nothing else."""
        version, count = self.version, len(self.version.parameters)
        if any(version.with_gradient[count:]) or not any(version.reached):
            return False
        learned = [p for p, wants in zip(version.parameters, version.with_gradient, strict=False) if wants]
        self.learned = list(itertools.compress(learned, version.reached))
        self._places = {id(p): i for i, p in enumerate(learned)}
        self._numbers = {id(p): i for i, p in enumerate(self.learned)}
        self.dtype = self.learned[0].jax().dtype
        self.all_places: tuple[int, ...] = tuple(range(len(self.learned)))
        self._ids = list(map(id, self.learned))
        self._show([deferral.waiting(p.shape, p.jax().dtype) for p in self.learned])
        self.inputs = array_groups.ArrayGroup(version.parameters)
        self.buffers = array_groups.ArrayGroup(())
        return len({p.dtype for p in self.learned}) == 1 and all(type(p) is Tensor for p in self.learned)

    def update_of(self, parameters: Sequence[torch.Tensor], key: Any) -> Any:
        """For each parameter of an update, its place among the inputs, and the number of its gradient.

        None if one of them gets no gradient.
        """
        if key not in self._updates:
            has_all = all(id(p) in self._numbers for p in parameters)
            places = tuple(self._places[id(p)] for p in parameters) if has_all else ()
            numbers = tuple(self._numbers[id(p)] for p in parameters) if has_all else ()
            self._updates[key] = (places, numbers) if has_all else None
        return self._updates[key]

    def _show(self, gradients: list[Tensor]) -> None:
        self.gradients = array_groups.ArrayGroup(gradients)
        self.shown = dict(zip(self._ids, zip(self.learned, gradients, strict=True), strict=True))

    def renew_gradients(self) -> None:
        """Replace those of the tensors for gradients that something else holds.

        They stay if gradients are accumulated: then they are those that the parameters have.
        """
        known = self.gradients.tensors
        held = array_groups.references(known)
        if max(held) <= _OF_GRADIENT and not self.gradients.have("is_given"):
            return
        made = []
        for i, p in enumerate(self.learned):
            is_held = held[i] > _OF_GRADIENT or "is_given" in vars(known[i])
            is_current = deferral.gradients.get(id(p)) is self.shown[id(p)]
            made.append(known[i] if is_current or not is_held else deferral.waiting(p.shape, self.dtype))
        self.gradients.release()
        self._show(made)

    def values(self, given: Sequence[torch.Tensor]) -> list[Any]:
        """The arrays of the inputs of a call."""
        known = self.inputs
        count = len(known.tensors)
        if not array_groups.are_same(known.tensors, given):  # a view, as a parameter
            return list(map(arrays.array_of, given))
        return [*known.get(), *map(arrays.array_of, given[count:])]

    def find_buffers(self) -> None:
        """Look for the present buffers of the modules."""
        found = list(trace.buffers_of(self.version.modules).values())
        if not array_groups.have_same(found, self.buffers.tensors):
            self.buffers = array_groups.ArrayGroup(found)

    def is_unobserved(self, learned: Sequence[torch.Tensor]) -> bool:
        """Whether PyTorch has neither gradients of the parameters nor hooks on them."""
        if self._observed != deferral.changes:
            if not deferral.without_gradient(learned) or _have_hooks(learned):
                return False
            self._observed = deferral.changes
        return True


class DeferredStep:
    """A recorded call of a version of a function for some tensors, with their arrays."""

    def __init__(self, version: Any, given: Sequence[torch.Tensor], values: list[Any]) -> None:
        self.version, self.plan, self.given = version, version.plan, given
        self.buffers = self.plan.buffers
        self._buffer_values = self.buffers.get()
        #: An update that waits for a function that follows it (`weight_updates.py`).
        self.waiting_update: Any = None
        wanted = version.with_gradient
        self._learned = list(itertools.compress(values, wanted))
        self._fixed = [value for value, wants in zip(values, wanted, strict=True) if not wants]
        self._key = torchax.default_env().prng_key
        self._drawn = host_random.new_numbers(version.draws or ())
        self._owner_of_key = deferral.wait_for_key() if version.rotates_key else None
        self.buffers.forget()
        self.floats = [deferral.waiting(*kind) for kind in self.plan.floats]
        self.rest = [deferral.waiting(*kind) for kind in self.plan.rest]
        self.pullback: Any = None
        self._seed: int | None = None  # the output on which `backward` was called
        self._share = 1.0
        self._before: list[Any] | None = None
        self._norms: list[tuple[tuple[int, ...], float, Tensor, float | None]] = []

    # The backward pass

    def backward(
        self,
        tensor: torch.Tensor,
        gradient: Any = None,
        retain_graph: Any = None,
        create_graph: Any = False,
        inputs: Any = None,
        *,
        share: float = 1.0,
    ) -> bool:
        """Record `tensor.backward()`, with gradients that are scaled by `share`; whether that can be."""
        if gradient is not None or retain_graph or create_graph or inputs is not None:
            return False
        seed = next((i for i, one in enumerate(self.floats) if one is tensor), None)
        if seed is None or self._seed is not None or not self.plan.bearing[seed]:
            return False
        learned = self.plan.learned
        if not self.plan.is_unobserved(learned) or _have_hooks((tensor,)):
            return False
        sharing = Plan.sharing(self.plan)
        if sharing is None:
            return False
        if deferral.gradients:
            known = [deferral.gradients.get(id(one)) for one in learned]
            if any(known):
                if not all(known):
                    return False
                self._before = [one[1].jax() for one in known if one is not None]
        self._seed, self._share, self._sharing = seed, share, sharing
        self.plan.renew_gradients()
        self.gradients, self._shown = self.plan.gradients, self.plan.shown
        self.gradients.forget()
        deferral.show(self._shown)
        return True

    @property
    def is_backward(self) -> bool:
        """Whether the backward pass is recorded."""
        return self._seed is not None

    def takes(self, update: Update) -> bool:
        """Whether an update of some parameters can be computed together with both passes."""
        is_next = self.is_backward and self.waiting_update is None
        found = self.plan.update_of(update.parameters, update.key) if is_next else None
        if found is None:
            return False
        places, _ = found
        ids = list(map(id, update.parameters))
        has_them = array_groups.are_same(map(deferral.gradients.get, ids), map(self._shown.get, ids))
        # Others were written to since the call.
        return has_them and array_groups.are_same(update.values(), map(self._learned.__getitem__, places))

    def may_wait(self) -> bool:
        """Whether an update may wait for a function that follows: processes agree on each step at once."""
        return isinstance(self._sharing, step_program.Alone)

    # Gradient clipping

    def norm(self, gradients: Any, norm_type: float) -> Tensor | None:
        """The norm of gradients, which is computed later; None if it has to be computed at once."""
        places = self._places(gradients)
        if places is None or self._norms:
            return None
        total = deferral.waiting((), self.plan.dtype)
        self._norms.append((places, norm_type, total, None))
        return total

    def clip(self, gradients: Any, most: float, norm: torch.Tensor) -> bool:
        """Record that gradients are clipped by a norm that is computed later; whether that can be."""
        places = self._places(gradients)
        if places is None or not self._norms or self._norms[-1][2] is not norm:
            return False
        *known, _ = self._norms[-1]
        if known[0] != places or self._norms[-1][3] is not None:
            return False
        self._norms[-1] = (*self._norms[-1][:3], most)
        return True

    def _places(self, gradients: Sequence[torch.Tensor]) -> tuple[int, ...] | None:
        if not self.is_backward or self.waiting_update is not None:
            return None
        own = self.gradients.tensors
        if array_groups.have_same(gradients, own):
            places: tuple[int, ...] = self.plan.all_places
            return places
        known = {id(gradient): i for i, gradient in enumerate(own)}
        places = tuple(known.get(id(gradient), -1) for gradient in gradients)
        return places if places and min(places) >= 0 else None

    # Computing

    def settle(self) -> None:
        """Compute what is recorded so far."""
        update = self.waiting_update
        if update is not None:
            update.expectation.note(has_come=False)
        if self._seed is not None:
            if not self.run(update) and update is not None:
                update.apply()
            return
        self._end()
        self.plan.misses += 1
        with EnableTorchFunction():  # torch may be in the middle of a function
            self._compute_forward()

    def run(self, update: Update | None) -> bool:
        """Compute the forward and backward pass, and what an optimizer does with the gradients.

        Returns whether it did; what cannot be compiled as one program is computed without the optimizer, and
        so is what other processes compute apart.
        """
        self._end()
        self.plan.misses = 0
        places: tuple[int, ...] = ()
        numbers: tuple[int, ...] = ()
        if update is not None:
            places, numbers = self.plan.update_of(update.parameters, update.key)
        clips = self._clips()
        seed = (self._seed, self._share)
        key = (seed, self._before is not None, clips, self._sharing.key, update and update.key)
        is_new = key not in self.plan.programs
        if is_new:
            compute = update and update.compute
            program = step_program.Program(
                self.version, seed, clips, self._sharing, (places, numbers), compute
            )
            self.plan.programs[key] = self._sharing.compiled(program)
        learned = self._learned
        changed = [learned[i] for i in places]
        for i in places:
            learned[i] = None
        state = {} if update is None else update.state()
        try:
            with EnableTorchFunction():
                found = self._computed(self.plan.programs[key], changed, state, update)
        except Exception as error:
            refusal = error if isinstance(error, step_program.NotAgreedError) else None
            if refusal is None and (not is_new or not isinstance(error, _NOT_TRACEABLE)):
                raise
            for i, value in zip(places, changed, strict=True):
                learned[i] = value
            if refusal is not None and refusal.may_share_passes:
                self.run(None)
            else:
                self.plan.misses = MOST_MISSES if refusal is None else 0
                self._run_apart()
            return False
        floats, rest, written, random, gradients, norms, values, state = found
        self._leave(floats, rest, written, random)
        self._leave_gradients(gradients, norms)
        if update is not None:
            update.leave(values, state)
        return True

    def _computed(self, program: Any, changed: Any, state: Any, update: Update | None) -> Any:
        return program(
            (_owned(changed), {name: _owned(values) for name, values in state.items()}),
            (
                self._before,
                *(self._learned, self._fixed, self._buffer_values, self._key, self._drawn),
                () if update is None else update.numbers,
                self._bounds(),
            ),
        )

    def _run_apart(self) -> None:
        """Compute both passes one by one."""
        version = self.version
        self._compute_forward()
        kinds = self.kinds
        share = self._share
        seeds = [
            jax.numpy.full(k.shape, share, k.dtype) if i == self._seed else None for i, k in enumerate(kinds)
        ]
        gradients = version.backward(self.pullback, seeds, kinds, version.reached)
        self.pullback = None
        gradients = step_program.accumulated(gradients, self._before)
        gradients = self._sharing.combined_apart(gradients, self.buffers)
        self._leave_gradients(gradients, step_program.clipped(gradients, self._clips(), self._bounds())[1])

    def _clips(self) -> Any:
        return tuple((where, kind, most is not None) for where, kind, _, most in self._norms)

    def _bounds(self) -> list[float]:
        """The norms to which gradients are clipped."""
        return [most for *_, most in self._norms if most is not None]

    def _compute_forward(self) -> None:
        outputs = self.version.forward(
            self._learned, self._fixed, self._buffer_values, self._key, [], self._drawn
        )
        floats, self.pullback, (rest, _, _, written, random, _) = outputs
        self._leave(floats, rest, written, random)

    def _end(self) -> None:
        """Stop recording; what the call changes has its former value until it is computed."""
        deferral.current = None
        if self.waiting_update is not None:
            self.waiting_update.show()
        self.buffers.keep(self._buffer_values)
        if self._owner_of_key is not None:
            vars(self._owner_of_key)["prng"] = self._key

    def _leave(self, floats: Any, rest: Any, written: Any, random: Any) -> None:
        for tensor, value in zip((*self.floats, *self.rest), (*floats, *rest), strict=True):
            vars(tensor)["_elem"] = value
        self.buffers.keep(written)
        if self._owner_of_key is not None:
            vars(self._owner_of_key)["prng"] = random
        self.kinds = tuple(value.aval for value in floats)
        # The graph of the results holds this step, so it must not hold them.
        self.floats, self.rest, self.given = [], [], ()

    def _leave_gradients(self, gradients: list[Any], norms: Any) -> None:
        clips, bounds = self._clips(), self._bounds()

        def finish(values: list[Any]) -> list[Any]:
            with jax.ensure_compile_time_eval():  # a function that is traced may read them
                return step_program.clipped(values, clips, bounds, norms)[0]

        self.gradients.keep(gradients, finish if bounds else None)
        for (_, _, total, _), value in zip(self._norms, norms, strict=True):
            vars(total)["_elem"] = value


#: The references to an array of a list if nothing else than its tensor holds it.
_OF_ARRAY = 1
#: The references to a gradient of a list if nothing else than its plan holds it.
_OF_GRADIENT = 1


def _owned(values: list[Any]) -> list[Any]:
    """Arrays that XLA may overwrite: copies of those that something else than their tensor holds."""
    for i, count in enumerate(array_groups.references(values)):
        if count > _OF_ARRAY and values[i] is not None:
            values[i] = jax.numpy.copy(values[i])
    return values


def takes(update: Any) -> bool:
    """Compute a recorded backward pass together with an update; whether it did."""
    step = deferral.current
    if not isinstance(step, DeferredStep) or not step.takes(update):
        return False
    if step.may_wait() and update.hide():
        step.waiting_update = update
        return True
    return step.run(update)


def _have_hooks(tensors: Sequence[torch.Tensor]) -> bool:
    first, later = (hooks.__get__ for hooks in tensor_hooks)
    with DisableTorchFunction():
        return any(first(tensor) or later(tensor) for tensor in tensors)


@patch(
    "torch.autograd:_engine_run_backward",
    why="PyTorch may get gradients of tensors whose backward passes are recorded.",
    upstream=TORCH + "autograd/graph.py",
)
def _run_backward(*args: Any, **kwargs: Any) -> Any:
    deferral.hand_over()
    return run_backward(*args, **kwargs)


_register_later_hook = torch.Tensor.register_post_accumulate_grad_hook


@patch(
    "torchax.tensor:Tensor.register_post_accumulate_grad_hook",
    why="A recorded backward pass would not call the hook.",
    upstream=TORCH + "_tensor.py",
)
@functools.wraps(_register_later_hook)
def _later_hook(tensor: torch.Tensor, hook: Any) -> Any:
    deferral.note_change()
    return _register_later_hook(tensor, hook)


@patch(
    "torch.autograd.graph:register_multi_grad_hook",
    why="A recorded backward pass would not call the hook, which belongs to nodes of PyTorch's graph.",
    upstream=TORCH + "autograd/graph.py",
)
@functools.wraps(register_multi_grad_hook)
def _register_multi_grad_hook(*args: Any, **kwargs: Any) -> Any:
    Plan.is_possible = False
    return register_multi_grad_hook(*args, **kwargs)
