"""A function compiled for one combination of shapes, modes and plain arguments."""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import torch
import torchax

from .. import environment
from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..jit import (
    active_programs,
    attribute_owners,
    attributes,
    call_by_call,
    captured_output,
    compiler_settings,
    concrete_values,
    deferred_scalars,
    host_random,
    output_containers,
    program,
    scalar_casts,
    tensor_objects,
    trace,
    varying_arguments,
)
from ..tensor import arrays, deferral
from . import deferred_step, frozen_parameters, gradient_hooks, graph_node, vjp_functions, weight_updates

_NOT_ENABLED = (
    "the function gets torchax tensors, but the runtime is not in use: call `torchax_compat.enable()` at the "
    "start of the program, instead of `torchax.enable_globally()`"
)


class Specialization(trace.Trace):
    """A function for one combination of arguments, whose gradients JAX computes.

    `in_place_of` are the positions of tensors that replace plain arguments, `answers` the Python values that
    the function gets from tensors (`jit/concrete_values.py`).
    """

    def __init__(
        self,
        owner: Any,
        leaves: Any,
        tree: Any,
        modules: Sequence[torch.nn.Module],
        parameters: Any,
        with_gradient: Any,
        in_place_of: Any,
        answers: Any,
    ) -> None:
        if not environment.is_enabled():
            raise RuntimeError(_NOT_ENABLED)
        _, places = trace.numbered(leaves, parameters)
        objects, states = (
            attribute_owners.owners(modules, leaves, owner.function),
            owner.known.states.values(),
        )
        super().__init__(owner.function, leaves, tree, places, modules, parameters, objects, states)
        self.with_gradient, self.programs = with_gradient, owner.programs
        self.in_place_of, self.answers = in_place_of, answers
        self.notes_names = owner.known.knows_names
        self.is_new, self.has_recording, self.asks_counts = True, False, False
        self.pattern: list[Any] | None = []
        self.learns = torch.is_grad_enabled()
        self.reached: Any = None  # which of the inputs with gradients the outputs depend on
        self.draws, self.may_draw_others = None, False
        self.replay: Any = None
        self.plan = deferred_step.Plan(self)
        compilations = owner.compilations
        few = (
            compiler_settings.FEW_CALLS_OF_MANY_SHAPES
            if compilations.have_many_shapes()
            else compiler_settings.FEW_CALLS
        )
        jitted = functools.partial(compiler_settings.Jitted, took=compilations.took, few_calls=few)
        self.forward = jitted(self._forward)
        self.reached_from: dict[Any, Any] = {}  # the same, by which outputs have gradients
        self.backward = jitted(vjp_functions.pull_back, static_argnums=(2, 3))

    def __call__(self, given: Any, is_compiled: bool) -> Any:
        """Call the function for some tensors, compiled or call by call."""
        if is_compiled:
            if not weight_updates.may_follow(self):
                deferral.settle()
            if torch.is_grad_enabled() and self.plan.records():
                self.plan.find_buffers()
                return self._result(graph_node.recorded(self, given, self.plan.values(given)), given)
            with active_programs.using(None), frozen_parameters.linked(given, self.with_gradient):
                made = graph_node.Node.apply(self, (self.forward, self.backward), *self._linked(given))
        else:
            with (
                program.compiled(self.programs, self.modules, lambda: self.objects),
                frozen_parameters.linked(given, self.with_gradient),
            ):
                made = graph_node.Node.apply(
                    self, (self._forward_of_values, vjp_functions.pull_back), *self._linked(given)
                )
        return self._result(made, given)

    def repeated(self, given: Any, values: list[Any]) -> Any:
        """Record a call like the one before, which was recorded."""
        deferral.settle()
        return self._result(graph_node.recorded(self, given, values), given)

    def _linked(self, given: Any) -> Any:
        """The inputs, without the graphs behind those that get no gradient, such as earlier steps."""
        if self.reached is None:
            return given
        reached = iter(self.reached)
        cut = [wanted and not next(reached) for wanted in self.with_gradient]
        first = len(self.parameters)
        return [
            tensor.detach() if lost and i >= first else tensor
            for i, (tensor, lost) in enumerate(zip(given, cut, strict=False))
        ]

    def compute(self, forward: Any, given: Any) -> Any:
        """Outputs and pullback; buffers, changed parameters and the random state are written back."""
        buffers = trace.buffers_of(self.modules).values()
        states, drawn = attributes.values(self.states), []
        made = weight_updates.computed(self, given, buffers, states) if forward is self.forward else None
        inputs = [] if made else [tensor.jax() for tensor in given]
        if forward is self.forward:
            drawn = host_random.new_numbers(self.draws or ())
            if self.replay is not None:
                self.replay.check_early(deferred_scalars.Numbers([], states, drawn))
        outputs, pullback, (rest, values, numbers, *changes) = made or forward(
            [value for value, wanted in zip(inputs, self.with_gradient, strict=False) if wanted],
            [value for value, wanted in zip(inputs, self.with_gradient, strict=False) if not wanted],
            [buffer.jax() for buffer in buffers],
            torchax.default_env().prng_key,
            states,
            drawn,
        )
        self.is_new = False
        self.numbers = deferred_scalars.Numbers(
            [number.item() for number in jax.device_get(numbers)], states, drawn
        )
        self.replay.check(values, self.numbers)
        written, random, left = changes
        self.leave(given, buffers, written, random, left, self.numbers)
        self.frozen.leave()
        self.held.emit(self.numbers)
        # A function that runs call by call may take another branch each time.
        reached = (
            self.reached
            if self.reached is not None and forward is self.forward
            else vjp_functions.reached_inputs(pullback)
        )
        self.reached = reached if self.reached is None else self.reached
        self._make_anew(reached)
        bearing = self.plan.bearing if made else vjp_functions.differentiable_outputs(pullback, len(outputs))
        self.plan.note(outputs, rest, bearing)
        return outputs, rest, pullback, reached, bearing

    def is_plain(self) -> bool:
        """Whether calls only compute results, gradients, buffers and the random key."""
        kept = (
            *(self.replay.values, self.replay.reads.values, self.replay.drawn, self.numbers.read),
            *(self.states, *self.left, self.changed, self.replaced, self.filled, self.frozen.left),
            *(any(self.on_host), any(self.retained), self.pattern, self.drew_on_host),
        )
        later = frozen_parameters.LATER in self.with_gradient
        return not any(kept) and not later and isinstance(self.backward, compiler_settings.Jitted)

    def _make_anew(self, reached: Any) -> None:
        """Create new parameters for replaced ones that get gradients: no optimizer has the new ones.

        Other replaced parameters, such as a codebook that follows averages, stay the same objects with new
        values.
        """
        reaches = iter(reached)
        comes = [wanted and next(reaches) for wanted in self.with_gradient]
        for i, (module, name) in self.replaced.items():
            if comes[i]:
                with torch.no_grad():
                    module._parameters[name] = torch.nn.Parameter(self.parameters[i].detach().clone())

    def _forward(
        self,
        learned: Any,
        fixed: Any,
        buffers: Any,
        random: Any,
        states: Any,
        drawn: Any,
        *,
        is_traced: bool = True,
    ) -> Any:
        def run(learned: Any) -> Any:
            return self._traced(learned, fixed, buffers, random, states, drawn, is_traced=is_traced)

        return jax.vjp(run, learned, has_aux=True)

    def trace_forward(
        self, learned: Any, fixed: Any, buffers: Any, random: Any, drawn: Any, states: Any = ()
    ) -> Any:
        """Trace a call as part of another program."""
        return self._forward(learned, fixed, buffers, random, states, drawn)

    def _forward_of_values(self, *given: Any) -> Any:
        return self._forward(*given, is_traced=False)

    def _traced(
        self, learned: Any, fixed: Any, buffers: Any, random: Any, states: Any, drawn: Any, *, is_traced: bool
    ) -> Any:
        learned, fixed = iter(learned), iter(fixed)
        values = [next(learned) if wanted else next(fixed) for wanted in self.with_gradient]
        buffers_held = trace.buffers_of(self.modules).values()
        self.replay = concrete_values.Replaying(
            self.answers,
            buffers_held,
            host_random.CollectedDraws(self.draws or (), drawn, may_be_other=self.may_draw_others),
            asks_counts=self.asks_counts,
            has_recording=self.has_recording,
        )
        self.held = captured_output.DeferredOutput(self.replay.reads)
        with self._asking() if is_traced else contextlib.nullcontext():
            tensors, *changes = self.run(values, buffers, random, states, is_traced=is_traced)
        self.is_float = [jax.numpy.issubdtype(value.dtype, jax.numpy.inexact) for value in tensors]
        floats = [value for value, is_float in zip(tensors, self.is_float, strict=True) if is_float]
        rest = [value for value, is_float in zip(tensors, self.is_float, strict=True) if not is_float]
        left = (leaf for _, kept, *_ in self.left[0] for leaf in kept)
        kept = [*self.held.numbers_kept(), *self.replay.compared.values()]
        deferred_scalars.check(self.replay.reads, [*self.outputs, *left, *kept])
        if is_traced:
            self.replay.collected.check()
        if is_traced and self.held.pattern != self.pattern:
            raise concrete_values.UnknownAnswerError
        return floats, (rest, self.replay.values, self.replay.reads.values, *changes)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[Any]:
        """The contexts in which numbers that are read, drawn or printed are placeholders."""
        with contextlib.ExitStack() as stack:
            stack.enter_context(concrete_values.using(self.replay))
            stack.enter_context(host_random.collecting(self.replay.collected))
            stack.enter_context(self.held.listening())
            stack.enter_context(scalar_casts.replaced(self.function, self.modules))
            yield

    def reads_numbers(self) -> bool:
        """Whether it was traced with placeholders for numbers or random draws."""
        return bool(self.replay.reads.values or self.replay.drawn)

    def around(self) -> Any:
        """The contexts in which the function runs."""
        self.frozen = frozen_parameters.Frozen(self.parameters, self.with_gradient, learns=self.learns)
        enabled = torch.set_grad_enabled(self.learns)
        return arrays.entered(), enabled, self.frozen.running(), call_by_call.Calls(self.frozen)

    def with_markers(self, result: Any, arguments: Any) -> Any:
        """A result with placeholders for arguments that it contains."""
        return output_containers.with_placeholders(result, arguments)

    def taken(self, result: Any, inputs: Any, arguments: Any) -> Any:
        """The tensors of a result, and of items that are added to dictionaries and lists among the arguments.

        Arguments that require gradients are returned themselves.
        """
        leaves = self.with_tensors(inputs)
        changed = list(output_containers.changes(pytree.tree_unflatten(leaves, self.tree), arguments))
        self.filled = [(place, gone) for place, _, gone in changed]
        result = result, [new for _, new, _ in changed]
        varying_arguments.check([leaves[i] for i in self.in_place_of], pytree.tree_leaves(result[1]), ())
        places = {id(tensor): i for i, tensor in enumerate([*self.parameters, *inputs])}
        made = pytree.tree_leaves(result)
        self.retained = [isinstance(one, torch.Tensor) and getattr(one, "tap", None) for one in made]
        self.on_host = [isinstance(leaf, call_by_call.OnHost) for leaf in pytree.tree_leaves(result)]
        self.returned_inputs = [places.get(id(leaf)) for leaf in pytree.tree_leaves(result)]
        return super().taken(result, inputs, arguments)

    def _result(self, tensors: Any, given: Any) -> Any:
        tensors = iter(tensors)
        leaves = [
            next(tensors) if wanted else deferred_scalars.resolved(leaf, self.numbers)
            for leaf, wanted in zip(self.outputs, self.is_tensor, strict=False)
        ]
        with DisableTorchFunction():
            for i, place in enumerate(self.returned_inputs):
                if place is not None and given[place].requires_grad and given[place].is_leaf:
                    leaves[i] = given[place]
                elif self.retained[i]:
                    gradient_hooks.retain_gradient(leaves[i], self.retained[i])
                elif self.on_host[i] and not leaves[i].requires_grad:
                    leaves[i] = leaves[i].cpu()
        result, contents = pytree.tree_unflatten(leaves, self.shape)
        return tensor_objects.with_objects(result), [
            (place, new, gone) for (place, gone), new in zip(self.filled, contents, strict=False)
        ]
