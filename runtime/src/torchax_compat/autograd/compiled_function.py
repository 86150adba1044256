"""A function whose gradients JAX computes, as one node of PyTorch's autograd graph.

PyTorch's autograd does not see all that torchax computes: after a plain `loss.backward()`, gradients are
missing.
JAX compiles the function once for each combination of shapes and modes, and computes its gradients with
respect to its arguments and the parameters of all modules that it uses.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Iterator

import torch
from torch.utils import _pytree as pytree

from ..jit import (
    active_programs,
    argument_copies,
    attribute_owners,
    captured_output,
    concrete_values,
    host_random,
    output_containers,
    random_states,
    reachable_modules,
    recompilations,
    scalar_casts,
    tensor_objects,
    trace,
    varying_arguments,
)
from ..tensor import arrays, lazy_modules
from . import frozen_parameters, higher_order, recording, specialization

_BEGUN_ANEW = (
    concrete_values.Others,
    concrete_values.Unknown,
    host_random.Others,
    higher_order.NotRecorded,
    lazy_modules.Awaited,
    frozen_parameters.Thawed,
)


class CompiledFunction:
    """The function under `@differentiable`, with its compiled versions."""

    def __init__(self, function, *, compiled=True):
        self.function, self.name = function, getattr(function, "__name__", repr(function))
        self.known, self.plain = trace.Known(takes_numbers=True), set()
        self.programs = active_programs.Programs()
        self.compilations = recompilations.Compilations(function)
        self.hits = 0  # calls with plain values that occurred before
        self.records = tensor_objects.Records(is_on=compiled)
        self.told = {}  # the answers that tensors gave, by the key of a call
        self.latest = {}  # those of the last run without compilation, by the plain values
        self.is_compiled, self.is_recorded = compiled, False
        self.thawed = set()  # the `id`s of parameters whose `requires_grad` it enables

    def __call__(self, *plain_args, **plain_kwargs):
        args, kwargs = self.records.taken(plain_args, plain_kwargs)
        leaves, tree = pytree.tree_flatten((args, kwargs))
        modules, others = reachable_modules.reached(self.function, leaves)
        hooks = [hook for module in modules for hook in attribute_owners.hooks_of(module)]
        if hooks:
            args, kwargs = attribute_owners.with_containers(hooks, args, kwargs)
            leaves, tree = pytree.tree_flatten((args, kwargs))
        parameters = trace.unique([*trace.parameters_on_device(modules), *others])
        tensors = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor)]
        if not arrays.computes_on_torchax(parameters + tensors):
            return self.function(*plain_args, **plain_kwargs)
        places = []
        if self.is_compiled:
            leaves, places = self.known.varying.taken(leaves, tree, has_texts=True)
        tensors, numbers = trace.numbered(leaves, parameters)
        held = parameters + tensors
        given = [arrays.on_torchax(tensor) for tensor in held]
        copies = argument_copies.copies(held, given)
        with_gradient = frozen_parameters.wants_gradients(given, self.thawed)
        plain = (
            tree,
            tuple(None if isinstance(leaf, torch.Tensor) else trace.identity(leaf) for leaf in leaves),
            tuple(numbers.values()),
            tuple(id(tensor) for tensor in parameters),
            tuple(with_gradient),
            tuple(module.training for module in modules),
            tuple(map(id, hooks)),
            trace.modes(),
        )
        if any(isinstance(leaf, (Iterator, torch.utils.data.DataLoader)) for leaf in leaves):
            self.is_compiled = False  # they yield other batches each time
        self.hits += plain in self.plain
        self.plain.add(plain)
        most = trace.MOST_VERSIONS if self.hits > len(self.plain) else trace.MOST_NEW_VERSIONS
        if self.is_compiled and len(self.plain) > most:
            self._stop_compiling(
                f"it was called with {most} combinations of non-tensor arguments, modules and modes; pass "
                "arrays and lists that change as tensors, and create modules once"
            )
        key = (plain, *((one.shape, one.dtype) for one in tensors))
        note = functools.partial(self.compilations.note, plain, args, kwargs)
        make = functools.partial(
            specialization.Specialization, self, leaves, tree, modules, parameters, with_gradient, places
        )
        try:
            result, changed = self._called(key, make, given, note)
        except _NeededAsTheyAre:
            if not self.known.refuse():
                self.known.varying.is_on = False
            return self(*plain_args, **plain_kwargs)
        except higher_order.NotRecorded as error:
            if self.is_recorded:
                why = (
                    "`torch.autograd.grad` does not find how its outputs depend on its inputs: compute the "
                    "outputs in the decorated function that calls it"
                )
                raise RuntimeError(why) from error
            self.function, self.is_recorded = recording.higher_order(self.function), True
            self.known.traces.clear()
            return self(*plain_args, **plain_kwargs)
        except tensor_objects.Written:
            self.records.is_on = False
            return self(*plain_args, **plain_kwargs)
        except lazy_modules.Awaited as error:
            error.infer()
            return self(*plain_args, **plain_kwargs)
        except frozen_parameters.Thawed as error:
            self.thawed.add(id(error.parameter))
            return self(*plain_args, **plain_kwargs)
        argument_copies.put_back(copies)
        output_containers.put(changed, (plain_args, plain_kwargs))
        return output_containers.given_back(result, (plain_args, plain_kwargs))

    def _called(self, key, make, given, note):
        """Call the version with the right answers; if there is none, run the function without compilation."""
        told = self._told_of(key) if self.is_compiled else None
        answers = () if told is None else told.fitting()
        while answers is not None:
            asks_counts = told is not None and told.asks_counts
            version = self._fitting((key, answers, asks_counts))
            if version is None:
                version = make(answers)
                self.known.add((key, answers, asks_counts), version)
            is_new = self.is_compiled and version.is_new
            version.is_told, version.asks_counts = told is not None, asks_counts
            version.pattern = [] if told is None else told.patterns.get(answers)
            if told is not None and version.draws is None:
                version.draws = told.draws.get(answers, [])
                version.may_draw_others = told.may_draw_others
            try:
                result = self._run(version, given)
            except host_random.Others as error:
                version.draws = error.draws
                if told is not None and error.are_more:
                    told.draws[answers], told.may_draw_others = error.draws, False
            except concrete_values.Others as error:
                answers = told.fitting(error.answers)
            except concrete_values.Counted:
                told = self.told[key] = concrete_values.Answers(asks_counts=True)
                answers = None
            except concrete_values.Unknown:
                version.is_void = True
                if told is not None and not told.may_be_others():
                    self._stop_compiling(
                        "it needs values of tensors in Python that differ at each call, or that a compiled "
                        "function cannot return"
                    )
                    return version(given, is_compiled=False)
                told = self.told.setdefault(key, concrete_values.Answers())
                answers = told.fitting_instead(answers)
            else:
                if told is not None:
                    told.were(answers)
                    told.is_borrowed = False
                return result
            finally:
                if is_new and self.is_compiled and not version.is_new:
                    note()
        version = make(())
        buffers = trace.buffers_of(version.modules).values()
        recording = concrete_values.Recording(buffers, version.generators, asks_counts=told.asks_counts)
        spoken = captured_output.Spoken(recording.reads)
        before = random_states.states_of_host(version.generators)
        try:
            with (
                concrete_values.by(recording),
                spoken.listening(),
                scalar_casts.handed_on(self.function, version.modules),
            ):
                result = version(given, is_compiled=False)
        except higher_order.NotRecorded:
            random_states.draw_again(before)  # the function runs once more
            raise
        except TypeError as error:
            if not version.in_place_of:
                raise
            random_states.draw_again(before)
            raise _NeededAsTheyAre from error
        version = None  # it keeps the results of the run alive
        if recording.reads.are_used or recording.reads.are_kept() or not spoken.is_complete():
            if recording.reads_counts:
                self.told[key] = concrete_values.Answers(asks_counts=True)
            else:
                self._stop_compiling(
                    "it uses numbers that it reads from tensors (`.item()`, `float(x)`) for more than to "
                    "return or log them, or draws random numbers that cannot be drawn again; keep such "
                    "numbers as tensors"
                )
            return result
        told.keep(tuple(recording.answers), spoken.pattern, recording.draws)
        self.latest[key[0]] = told
        if told.keep_changing():
            self._stop_compiling(
                "conditions on tensors, or sizes that are read from tensors, keep changing; use "
                "`torch.where` or fixed sizes"
            )
        return result

    def _told_of(self, key):
        """The answers for a key; new shapes use the latest ones of other shapes, if those were confirmed."""
        if key not in self.told:
            latest = self.latest.get(key[0])
            borrowed = None if latest is None or latest.is_borrowed else latest.borrowed()
            if borrowed is not None:
                self.told[key] = borrowed
        return self.told.get(key)

    def _run(self, version, given):
        may_fail = version.is_new or (version.draws and version.is_told)
        before = random_states.states_of_host(version.generators) if self.is_compiled and may_fail else None
        try:
            result = version(given, self.is_compiled)
        except Exception as error:
            if before is not None:
                random_states.draw_again(before)  # undo the draws of the failed trace
            if isinstance(error, _BEGUN_ANEW):
                raise
            if version.is_new and (version.in_place_of or version.stands_in()):
                raise _NeededAsTheyAre from error
            if varying_arguments.has_texts(version.leaves):
                raise _NeededAsTheyAre from error
            needs_value = isinstance(error, trace.NEEDS_VALUE) or version.reads_numbers()
            if self.is_compiled and needs_value and version.replay.reads_counts:
                raise concrete_values.Counted from error
            if not self.is_compiled or not needs_value:
                if version.is_new and self.records.are_taken:
                    raise tensor_objects.Written from error
                version.held.tell_without_numbers()
                raise
            self._stop_compiling(arrays.first_line(error))
            return version(given, self.is_compiled)
        if self.is_compiled and version.drew_on_host:
            self._stop_compiling(
                "it draws random numbers on the host, which a compiled function would draw only once; draw "
                "them before the call and pass them as arguments"
            )
        return result

    def _fitting(self, key):
        if self.is_compiled:
            try:
                return self.known.fitting(key)
            except trace.TooManyStates as error:
                self._stop_compiling(error)
        elif len(self.known.traces) > trace.MOST_VERSIONS:
            self.known.traces.clear()
        return next(iter(self.known.traces.get(key, ())), None)

    def _stop_compiling(self, why):
        self.is_compiled = False
        warnings.warn(
            f"`{self.name}` runs call by call: the modules and functions that it calls are compiled one "
            f"by one, not `{self.name}` as a whole (slower, same results). Reason: {why}",
            stacklevel=3,
        )


class _NeededAsTheyAre(Exception):
    """Plain arguments that keep changing are needed as Python values, not as tensors."""
