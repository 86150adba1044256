"""Compiles the `step` of `SGD`, `Adam`, `AdamW` and other optimizers of `torch.optim` with JAX."""

from __future__ import annotations

import contextlib
import itertools
import types
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np
import torch
import torchax
from torchax.tensor import Tensor

from ..autograd import deferred_step, weight_updates
from ..jit import compiler_settings, contents, trace
from ..tensor import array_groups, arrays, deferral, placements
from . import step_counts

#: Optimizers that give the same results compiled: `RAdam` subtracts large numbers, others compare steps.
_COMPILED = frozenset(
    {"SGD", "Adam", "AdamW", "NAdam", "ASGD", "RMSprop", "Adadelta", "Adagrad", "Adamax", "Rprop"}
)
#: The number of learning rates for which an optimizer is compiled that needs its rate as a Python number.
MOST_RATES = 4
#: Used for a rate of zero, as at the start of a warm-up: torch divides by the rate if it is a tensor.
NEARLY_NOTHING = 1e-30
_NOT_TRACEABLE = (*trace.NEEDS_VALUE, TypeError)
#: Which of the numbers that change from step to step are inputs of the compiled step; it is compiled again
#: for each value of the others.
_WAYS: tuple[Callable[[set[Any]], set[Any]], ...] = (
    lambda changing: changing,
    lambda changing: {place for place in changing if place[1] == "lr"},
    lambda _changing: set(),  # some optimizers need their rate as a number
)


#: Numbers for the parameters of optimizers.
_numbers_left = itertools.count()


class _Changing(Tensor):
    """A number of an optimizer that schedulers change, such as a momentum."""

    def __ne__(self, other: Any) -> bool:
        return True

    __gt__ = __ne__  # torch compares with zero to skip terms


def compile_step(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """Compile the `step` of an optimizer with JAX; its `lr` and `betas` may differ from step to step.

    Args:
        optimizer: the optimizer.

    Returns:
        The same optimizer. Optimizers whose compiled step would give different results are not changed.

    Warns:
        UserWarning: the step cannot be compiled.
    """
    if type(optimizer).__name__ not in _COMPILED or not type(optimizer).__module__.startswith("torch.optim"):
        return optimizer
    for group in optimizer.param_groups:  # torchax lacks the operations of these
        group.update({name: False for name in ("foreach", "fused") if name in group})
    plain, plain_zero_grad = optimizer.step, optimizer.zero_grad
    versions: dict[Any, Any] = {}
    latest: dict[Any, Any] = {}
    known: list[_Held] = []  # what the optimizer held at the latest step
    numbers_of_held: dict[Any, int] = {}
    looked_at: list[Any] = []  # the state in which it was tried to share the step count
    expectation = weight_updates.Expectation()
    changing: set[Any] = {(number, "lr", None) for number in range(len(optimizer.param_groups))}
    ways = list(_WAYS)

    def zero_grad(self: Any, set_to_none: bool = True) -> Any:
        if not set_to_none:
            return plain_zero_grad(set_to_none)
        deferral.drop([p for group in self.param_groups for p in group["params"]])
        return None

    def step(self: Any, closure: Any = None) -> Any:
        parameters = deferral.with_gradients([p for group in self.param_groups for p in group["params"]])
        hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
        if closure is not None or hooks:
            return plain(closure)
        is_known = bool(known) and known[0].is_of(self, parameters)
        are_computed = is_known and known[0].parameters.keeps()
        if not are_computed and not arrays.computes_on_torchax(parameters):
            return plain(closure)
        if not is_known:
            known[:] = [_Held(self, parameters, numbers_of_held)]
        held = known[0]
        numbers = _numbers(self.param_groups)
        changing.update(place for place, value in numbers.items() if latest.get(place, value) != value)
        changing.update(place for place in numbers if place[1] == "lr")
        latest.update(numbers)
        while ways and len(versions) <= (trace.MOST_VERSIONS if ways[1:] else MOST_RATES):
            given = ways[0](changing)
            if not held.is_first and not any(one is self.state for one in looked_at):
                looked_at[:] = [self.state]  # `load_state_dict` makes it anew
                held.share_count()
            update = _Update(self, plain, held, numbers, given, versions, expectation)
            try:
                if update.key not in versions or not deferred_step.takes(update):
                    update.apply()
                weight_updates.note_step(update)
                return None
            except Exception as error:
                versions.clear()
                if held.is_first:
                    break  # a state that cannot be created while tracing
                if not isinstance(error, _NOT_TRACEABLE):
                    raise
                while ways and ways[0](changing) == given:
                    ways.pop(0)
                if not ways:
                    name, why = type(self).__name__, arrays.first_line(error)
                    warnings.warn(
                        f"`{name}.step` is not compiled (slower, same results): {why}",
                        stacklevel=2,
                    )
        return plain()

    optimizer.step = types.MethodType(step, optimizer)
    if type(optimizer).zero_grad is torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad = types.MethodType(zero_grad, optimizer)
    return optimizer


def _numbers(groups: Any) -> Any:
    """The numbers in groups of parameters, by group, name, and position in a tuple."""
    found: dict[tuple[int, str, int | None], Any] = {}
    for number, group in enumerate(groups):
        for name, value in group.items():
            if isinstance(value, float) or name == "lr":
                found[number, name, None] = value
            elif isinstance(value, tuple):
                found.update(
                    {(number, name, i): one for i, one in enumerate(value) if isinstance(one, float)}
                )
    return found


def _with_numbers(group: Any, number: Any, numbers: Any) -> Any:
    """The entries of a group that contain numbers, with other numbers."""
    entries = {}
    for (where, name, place), value in numbers.items():
        if where == number and place is None:
            entries[name] = value
        elif where == number:
            whole = list(entries.get(name, group[name]))
            whole[place] = value
            entries[name] = tuple(whole)
    return entries


class _Held:
    """Some parameters of an optimizer, and what it keeps for them."""

    def __init__(
        self, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor], numbers: dict[Any, int]
    ) -> None:
        self.parameters, self._whole = array_groups.ArrayGroup(parameters), optimizer.state
        self._ids = _ids_of(optimizer)
        #: A number for these parameters in these groups: it takes less time to compare.
        self.number = numbers.setdefault((*map(id, parameters), *map(tuple, self._ids)), next(_numbers_left))
        self.entries = [optimizer.state.get(p) for p in parameters]
        self.is_first = None in self.entries
        for p, entry in zip(parameters, self.entries, strict=True):
            for value in (entry or {}).values():  # loaded from a checkpoint
                placements.follow(p, value)
        self._read = contents.Contents()
        self._read.values(optimizer.state)
        for entry in self.entries:
            self._read.values(entry or {})
        self._read.keep()
        self._groups = {} if self.is_first else _groups_of(self.entries)
        kept = sum(isinstance(one, torch.Tensor) for entry in self.entries for one in (entry or {}).values())
        #: Whether all tensors of the state are in groups.
        self._are_in_groups = kept == sum(len(group.tensors) for group in self._groups.values())

    def is_of(self, optimizer: torch.optim.Optimizer, parameters: list[torch.Tensor]) -> bool:
        """Whether an optimizer still holds the same for parameters."""
        if self.is_first or optimizer.state is not self._whole:
            return False
        if not array_groups.have_same(parameters, self.parameters.tensors):
            return False
        return _ids_of(optimizer) == self._ids and self._read.are_same()

    def count(self) -> Any:
        """The step count, if all parameters have the same array for it."""
        counts = self._groups["step"].get() if "step" in self._groups else ()
        return counts[0] if counts and array_groups.are_same(counts, itertools.repeat(counts[0])) else None

    def share_count(self) -> None:
        """Let all parameters have one array for their step count if they are at the same step."""
        if "step" in self._groups and self.count() is None:
            values = self._groups["step"].get()
            if len({one.item() for one in jax.device_get(values)}) == 1:
                self._groups["step"].keep(values[:1] * len(values))

    def arrays(self) -> dict[str, list[Any]]:
        """The arrays by name, for each parameter."""
        if self._groups or self.is_first:
            return {name: group.get() for name, group in self._groups.items()}
        return _arrays_of(self.entries)

    def groups(self) -> list[array_groups.ArrayGroup]:
        """The groups of all tensors that a step changes; none if not all of them are kept in groups."""
        found = [self.parameters, *self._groups.values()]
        return found if self._are_in_groups and all(one.is_keeper for one in found) else []

    def put(self, name: str, values: Iterable[Any]) -> None:
        """Replace the arrays of a name."""
        if name in self._groups:
            self._groups[name].keep(list(values))
            return
        known = self._whole
        for p, value in zip(self.parameters.tensors, values, strict=False):
            entry = known[p]
            if value is not None and isinstance(entry.get(name), Tensor):
                arrays.put(entry[name], value)
            elif value is not None:
                entry[name] = arrays.tensor(value)


def _ids_of(optimizer: torch.optim.Optimizer) -> list[list[int]]:
    """The `id`s of the parameters, by group."""
    return [list(map(id, group["params"])) for group in optimizer.param_groups]


def _groups_of(entries: list[dict[str, Any]]) -> dict[str, array_groups.ArrayGroup]:
    """The tensors of the entries by name; none if some are not on torchax, or not in all entries."""
    names = entries[0].keys()
    if any(entry.keys() != names for entry in entries):
        return {}
    tensors = {name: [entry[name] for entry in entries] for name in names}
    tensors = {name: held for name, held in tensors.items() if isinstance(held[0], torch.Tensor)}
    if not all(type(one) is Tensor for held in tensors.values() for one in held):
        return {}
    return {name: array_groups.ArrayGroup(held) for name, held in tensors.items()}


class _Update:
    """A step of an optimizer for some parameters, as a function of arrays.

    `changing` are the places of the numbers that are inputs, `versions` the compiled steps by their keys, and
    `expectation` says whether a function follows that changes weights, too.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        plain: Any,
        held: _Held,
        numbers: Any,
        changing: Any,
        versions: dict[Any, Any],
        expectation: weight_updates.Expectation,
    ) -> None:
        self._optimizer, self._plain, self._held = optimizer, plain, held
        self._versions, self.expectation = versions, expectation
        self._settings = list(map(dict, optimizer.param_groups))
        self._hidden: list[Any] = []
        self._gradients: Any = None  # those that the parameters had when the step began to wait
        self.is_waiting = False
        self.parameters = held.parameters.tensors
        self._places = sorted(changing, key=str)
        others = tuple(
            (number, name, *map(trace.identity, value if isinstance(value, (tuple, list)) else (value,)))
            for number, group in enumerate(optimizer.param_groups)
            for name, value in {**group, **_with_numbers(group, number, dict.fromkeys(changing))}.items()
            if name != "params"
        )
        count = held.count()
        self._has_count = count is not None
        self.key = (id(optimizer), held.number, tuple(self._places), others, self._has_count)
        kind = np.float64 if any(p.dtype == torch.float64 for p in self.parameters[:1]) else np.float32
        self.numbers = [kind(numbers[p] or (NEARLY_NOTHING if p[1] == "lr" else 0)) for p in self._places]
        self.numbers += [count] if self._has_count else []

    def values(self) -> list[Any]:
        """The arrays of the parameters."""
        return self._held.parameters.get()

    def state(self) -> dict[str, list[Any]]:
        """The arrays of the optimizer by name, for each parameter; a step count that all have is a number."""
        found = self._held.arrays()
        if self._has_count:
            del found["step"]
        return found

    def hide(self) -> bool:
        """Let what reads a changed tensor compute the step, if a function is expected to follow it."""
        groups = self._held.groups() if self.expectation.is_met else []
        self._hidden, self._gradients = [(group, group.get()) for group in groups], deferral.gradients
        for group in groups:
            group.forget()
        self.is_waiting = bool(groups)
        return self.is_waiting

    def show(self) -> None:
        """Let the tensors have the arrays from before the step again."""
        for group, values in self._hidden:
            group.keep(values)
        self._hidden = []

    def apply(self) -> None:
        """Compute the step by itself."""
        if self.key not in self._versions:
            self._versions[self.key] = compiler_settings.Jitted(self.compute)
        with deferral.having(deferral.gradients if self._gradients is None else self._gradients):
            gradients = [p.grad.jax() for p in self.parameters]
        self.leave(*self._versions[self.key](self.values(), gradients, self.state(), self.numbers))

    def compute(self, values: Any, gradients: Any, state: Any, numbers: Any, _written: Any = ()) -> Any:
        """The new values of the parameters, and the new state."""
        optimizer, parameters = self._optimizer, self.parameters
        if self._has_count:
            *numbers, count = numbers
            state = {**state, "step": [count] * len(parameters)}
        known = {
            place: _Changing(value, torchax.default_env())
            for place, value in zip(self._places, numbers, strict=True)
        }
        with contextlib.ExitStack() as stack:
            made = {id(p): (p, arrays.tensor(g)) for p, g in zip(parameters, gradients, strict=True)}
            stack.enter_context(deferral.having(made))
            for p, value in zip(parameters, values, strict=True):
                stack.enter_context(deferral.holding(p, value))
            for i, p in enumerate(parameters):
                if p in optimizer.state:
                    stack.callback(optimizer.state.__setitem__, p, optimizer.state[p])
                    traced = {
                        name: arrays.tensor(found[i]) for name, found in state.items() if found[i] is not None
                    }
                    optimizer.state[p] = step_counts.State({**optimizer.state[p], **traced})
                else:  # the first step creates the state
                    stack.callback(optimizer.state.pop, p, None)
                    optimizer.state[p] = step_counts.State()
            for number, (group, settings) in enumerate(
                zip(optimizer.param_groups, self._settings, strict=True)
            ):
                # With `capturable`, torch does not read the step count as a number.
                traced = {"capturable": True, "foreach": False, "fused": False}
                traced = settings | {name: value for name, value in traced.items() if name in group}
                traced |= _with_numbers(group, number, known)
                stack.callback(group.update, {name: group[name] for name in traced})
                group.update(traced)
            stack.enter_context(arrays.entered())
            self._plain()
            found = _arrays_of([optimizer.state[p] for p in parameters])
            count = found.pop("step")[0] if self._has_count else None
            return [p.jax() for p in parameters], (found, count)

    def leave(self, values: Any, state: Any) -> None:
        """Take the new values and the new state."""
        found, count = state
        self._gradients = None
        self._held.parameters.keep(list(values))
        if self._has_count:
            self._held.put("step", [count] * len(self.parameters))
        for name, made in found.items():
            self._held.put(name, made)


def _arrays_of(entries: list[dict[str, Any]]) -> dict[str, list[Any]]:
    """The arrays in the state of an optimizer by name, for each parameter; None where it has none."""
    names = entries[0].keys()
    if not all(entry.keys() == names for entry in entries):
        names = dict.fromkeys(name for entry in entries for name in entry).keys()
    found = {}
    for name in names:
        tensors = [entry.get(name) for entry in entries]
        if any(isinstance(tensor, torch.Tensor) for tensor in tensors):
            found[name] = [
                arrays.array_of(tensor) if isinstance(tensor, torch.Tensor) else None for tensor in tensors
            ]
    return found
