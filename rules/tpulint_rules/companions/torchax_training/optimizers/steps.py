"""Optimizers whose `step` JAX compiles."""

from __future__ import annotations

import contextlib
import functools
import types
import warnings

import numpy
import torch
import torchax
from torchax.tensor import Tensor

from .. import arrays
from ..host import compiling
from ..tracing import trace
from . import counts

#: Those that give the same numbers compiled: `RAdam` subtracts large ones, others compare the count of steps.
_COMPILED = frozenset(
    {"SGD", "Adam", "AdamW", "NAdam", "ASGD", "RMSprop", "Adadelta", "Adagrad", "Adamax", "Rprop"}
)
#: Optimizers that are compiled anew for each learning rate are so for no more than these.
MOST_RATES = 4
#: Taken for a rate of zero, as warm-ups begin with: torch divides by the rate if that is a tensor.
NEARLY_NOTHING = 1e-30
_NOT_TRACEABLE = (*trace.NEEDS_VALUE, TypeError)
#: Which of the numbers that change from step to step are inputs of the compiled step; it is made anew for each
#: value of the others.
_WAYS = (
    lambda changing: changing,
    lambda changing: {place for place in changing if place[1] == "lr"},
    lambda changing: set(),  # some optimizers want their rate as a number
)


class _Changing(Tensor):
    """A number of an optimizer that schedulers change, such as a momentum."""

    def __ne__(self, other):
        return True

    __gt__ = __ne__  # which is asked to leave out what zero makes nothing of


def compiled(optimizer):
    """The optimizer, with a `step` that JAX compiles; its `lr` and `betas` may differ from step to step.

    Those that would give other numbers are left as they are.
    """
    if type(optimizer).__name__ not in _COMPILED or not type(optimizer).__module__.startswith("torch.optim"):
        return optimizer
    for group in optimizer.param_groups:  # torchax lacks what these are made of
        group.update({name: False for name in ("foreach", "fused") if name in group})
    plain, plain_zero_grad = optimizer.step, optimizer.zero_grad
    versions, latest = {}, {}
    changing = {(number, "lr", None) for number in range(len(optimizer.param_groups))}
    ways = list(_WAYS)

    def zero_grad(self, set_to_none=True):
        if not set_to_none:
            return plain_zero_grad(set_to_none)
        with torch._C.DisableTorchFunction():  # which torch would ask of each gradient
            for p in (p for group in self.param_groups for p in group["params"]):
                p.grad = None

    def step(self, closure=None):
        with torch._C.DisableTorchFunction():
            parameters = [p for group in self.param_groups for p in group["params"] if p.grad is not None]
        hooks = self._optimizer_step_pre_hooks or self._optimizer_step_post_hooks
        if closure is not None or hooks or not arrays.computes_on_torchax(parameters):
            return plain(closure)
        is_first = any(p not in self.state for p in parameters)
        numbers = _numbers(self.param_groups)
        changing.update(place for place, value in numbers.items() if latest.get(place, value) != value)
        changing.update(place for place in numbers if place[1] == "lr")
        latest.update(numbers)
        while ways and len(versions) <= (trace.MOST_VERSIONS if ways[1:] else MOST_RATES):
            given = ways[0](changing)
            try:
                return _step(self, plain, parameters, versions, numbers, given)
            except Exception as error:
                versions.clear()
                if is_first:
                    break  # what cannot be made while tracing is made as ever
                if not isinstance(error, _NOT_TRACEABLE):
                    raise
                while ways and ways[0](changing) == given:
                    ways.pop(0)
                if not ways:
                    name, why = type(self).__name__, arrays.first_line(error)
                    warnings.warn(f"`{name}.step` runs without being compiled: {why}", stacklevel=2)
        return plain()

    optimizer.step = types.MethodType(step, optimizer)
    if type(optimizer).zero_grad is torch.optim.Optimizer.zero_grad:
        optimizer.zero_grad = types.MethodType(zero_grad, optimizer)
    return optimizer


def _numbers(groups):
    """The numbers that groups of parameters have, by the group, the name, and the place in a tuple."""
    found = {}
    for number, group in enumerate(groups):
        for name, value in group.items():
            if isinstance(value, float) or name == "lr":
                found[number, name, None] = value
            elif isinstance(value, tuple):
                found.update(
                    {(number, name, i): one for i, one in enumerate(value) if isinstance(one, float)}
                )
    return found


def _with_numbers(group, number, numbers):
    """The entries of a group in which there are numbers, with these in the place of its own."""
    entries = {}
    for (where, name, place), value in numbers.items():
        if where == number and place is None:
            entries[name] = value
        elif where == number:
            whole = list(entries.get(name, group[name]))
            whole[place] = value
            entries[name] = tuple(whole)
    return entries


def _step(optimizer, plain, parameters, versions, numbers, given):
    groups = optimizer.param_groups
    places = sorted(given, key=str)
    others = tuple(
        (number, name, *map(trace.identity, value if isinstance(value, tuple) else (value,)))
        for number, group in enumerate(groups)
        for name, value in {**group, **_with_numbers(group, number, dict.fromkeys(given))}.items()
        if name != "params"
    )
    key = (tuple(id(p) for p in parameters), tuple(places), others)
    if key not in versions:
        versions[key] = compiling.Jitted(
            functools.partial(_traced_step, optimizer, plain, parameters, places)
        )
    kind = numpy.float64 if any(p.dtype == torch.float64 for p in parameters) else numpy.float32
    with torch._C.DisableTorchFunction():
        gradients = [p.grad.jax() for p in parameters]
    values, state = versions[key](
        [p.jax() for p in parameters],
        gradients,
        [_tensors_of(optimizer.state.get(p, {})) for p in parameters],
        [kind(numbers[p] or (NEARLY_NOTHING if p[1] == "lr" else 0)) for p in places],
    )
    for p, value, entry in zip(parameters, values, state):
        arrays.put(p, value)
        kept = optimizer.state[p]
        for name, new in entry.items():
            if isinstance(kept.get(name), Tensor):
                arrays.put(kept[name], new)
            else:
                kept[name] = arrays.tensor(new)


def _traced_step(optimizer, plain, parameters, places, values, gradients, state, numbers):
    numbers = {place: _Changing(value, torchax.default_env()) for place, value in zip(places, numbers)}
    with contextlib.ExitStack() as stack:
        tensors = [*parameters, *[p.grad for p in parameters]]
        for tensor, value in zip(tensors, [*values, *gradients]):
            stack.callback(arrays.put, tensor, tensor.jax())
            arrays.put(tensor, value)
        for p, entry in zip(parameters, state):
            if p in optimizer.state:
                stack.callback(optimizer.state.__setitem__, p, optimizer.state[p])
                traced = {name: arrays.tensor(value) for name, value in entry.items()}
                optimizer.state[p] = counts.State({**optimizer.state[p], **traced})
            else:  # the first step makes the state
                stack.callback(optimizer.state.pop, p, None)
                optimizer.state[p] = counts.State()
        for number, group in enumerate(optimizer.param_groups):
            # Torch reads no number from a count that is a tensor.
            traced = {"capturable": True, "foreach": False, "fused": False}
            traced = {name: value for name, value in traced.items() if name in group}
            traced |= _with_numbers(group, number, numbers)
            stack.callback(group.update, {name: group[name] for name in traced})
            group.update(traced)
        stack.enter_context(arrays.entered())
        plain()
        return [p.jax() for p in parameters], [_tensors_of(optimizer.state.get(p, {})) for p in parameters]


def _tensors_of(entry):
    return {name: arrays.on_torchax(v).jax() for name, v in entry.items() if isinstance(v, torch.Tensor)}
