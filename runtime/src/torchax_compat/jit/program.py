"""Compiled versions of single calls: of a module, or of a torch function.

A compiled call has the same side effects: on parameters, buffers, attributes and arguments, and on memory
that its results share with these.
Calls that have other effects, such as output, are not compiled.
"""

from __future__ import annotations

import contextlib
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import jax.extend.core
import torch
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..autograd import gradient_hooks, requires_grad
from ..tensor import arrays
from . import (
    active_programs,
    aliasing,
    attribute_owners,
    attributes,
    captured_objects,
    captured_output,
    concrete_values,
    host_fallback,
    host_random,
    random_states,
    reachable_modules,
    recompilations,
    tensor_objects,
    trace,
)

#: Types of arguments and results beside tensors: calls cannot change them, or hide tensors in them.
_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.Size)

#: The number of combinations of shapes and plain values for which a torch function is compiled.
MOST_KINDS = 256

#: Seconds that the calls of a module take before it is compiled for evaluation.
PATIENCE = 1.0
#: After so many shapes that could not be compiled, a module is compiled only if its calls took that long.
MOST_REFUSED = 3
#: The number of traces of a module in evaluation for attributes that it reads.
MOST_STATES = 2
#: Within `jax.vjp`, JAX takes its slow path even for values that it does not differentiate.
evaluating = getattr(jax.core, "eval_context", contextlib.nullcontext)

_call = torch.nn.Module.__call__


@contextlib.contextmanager
def compiled(programs: Any, modules: Sequence[torch.nn.Module], objects: Any) -> Iterator[Any]:
    """Compile calls of modules within the context.

    Args:
        programs: the compiled versions, to which those of other modules are added.
        modules: the modules.
        objects: returns the objects whose attributes the modules may read and write.
    """
    for module in modules:
        if id(module) not in programs.by_module:
            function = functools.partial(_call, module)
            programs.by_module[id(module)] = Program(function, module, hesitates=programs.hesitates)
    programs.objects = objects
    with active_programs.using(programs):
        yield


class NotCompilableError(Exception):
    """A call has an effect that a compiled call would not have again, such as output."""


class Program:
    """A function of tensors, or a module, and its compiled versions."""

    def __init__(self, function: Callable[..., Any], module: Any = None, *, hesitates: bool = False) -> None:
        self.function, self.module, self.hesitates = function, module, hesitates
        # A module without parameters may be created for one call, as in `nn.MSELoss()(output, target)`.
        self.beyond = reachable_modules.modules_used_by(module) if module is not None else []
        self.is_lasting = module is None or any(True for _ in module.parameters())
        self.most = MOST_KINDS if module is None or hesitates else trace.MOST_VERSIONS
        self.known = trace.Traces(MOST_STATES) if hesitates else trace.Traces()
        self.seconds: dict[Any, float] = {}
        self.refused: set[Any] = set()
        #: Only for evaluation: a function that runs call by call has warned already.
        self.compilations = recompilations.Compilations(module.forward) if hesitates else None
        #: Seconds of calls with new shapes: all and the last one without compilation, and the last with it.
        self.new, self.last_new, self.last_compiled = 0.0, 0.0, 0.0

    def __call__(self, args: Any, kwargs: dict[str, Any], plain: Any = None) -> Any:
        """Call the compiled version for some arguments; `plain` calls the function as it is."""
        leaves, tree = pytree.tree_flatten((args, kwargs))
        plain = plain or (lambda args, kwargs: self.function(*args, **kwargs))
        if not self.is_lasting or not all(isinstance(leaf, (Tensor, View, *_PLAIN)) for leaf in leaves):
            self.is_lasting = True
            return plain(args, kwargs)
        leaves, in_place_of = self.known.varying.taken(leaves, tree)
        call = _Call(self.module, self.beyond, leaves, tree)
        if call.key is None or call.key in self.refused:
            return plain(args, kwargs)
        if (
            call.key not in self.known.traces
            and not self.hesitates
            and host_fallback.keeps_changing(call, self)
        ):
            found = (
                None if self.module is not None else host_fallback.result_on_host(self.function, args, kwargs)
            )
            return plain(args, kwargs) if found is None else found
        began = time.perf_counter()
        if call.key not in self.known.traces and self._waits(call):
            with active_programs.using(None):
                result = plain(args, kwargs)
            self._took(call, time.perf_counter() - began)
            return result
        try:
            compiled = self.known.fitting(call.key)
            is_new = compiled is None
            compiled = compiled or self._compiled(call, in_place_of)
            results = compiled.compute(call, is_new=is_new)
        except Exception:  # an error of the function itself is raised again
            if in_place_of:
                self.known.varying.is_on = False
            else:
                self.refused.add(call.key)
            return self(args, kwargs, plain)
        if is_new:
            self.last_compiled = time.perf_counter() - began
            if self.compilations is not None:
                self.compilations.took(self.last_compiled)
                self.compilations.note(call.kind(), args, kwargs)
        return compiled.finish(call, results)

    def _waits(self, call: Any) -> bool:
        """Whether a call with new arguments should not be compiled."""
        if call.key not in self.seconds and len(self.seconds) >= self.most:
            if not self.hesitates:
                return True  # its arguments grow, and so do those of calls within it
            self._forget()
        seconds = self.seconds.setdefault(call.key, 0.0)
        if not self.hesitates:
            return False
        if any(isinstance(value, jax.core.Tracer) for value in call.given):
            return True
        # Run eagerly, JAX compiles most operations for each new shape, which may take longer.
        is_quicker = self.new >= PATIENCE and self.last_compiled < self.last_new
        return seconds < PATIENCE and not (is_quicker and len(self.refused) < MOST_REFUSED)

    def _took(self, call: Any, seconds: Any) -> None:
        """Note the duration of a call that was not compiled."""
        if self.seconds.get(call.key) == 0.0:
            self.new += seconds
            self.last_new = seconds
        if call.key in self.seconds:
            self.seconds[call.key] += seconds

    def _forget(self) -> None:
        """Of many shapes, only the latest half stay compiled."""
        for key in list(self.seconds)[: self.most // 2]:
            del self.seconds[key]
            self.known.traces.pop(key, None)

    def _compiled(self, call: Any, in_place_of: Any) -> Any:
        compiled = _Compiled(self, call, in_place_of)
        states = random_states.states(compiled.generators)
        try:
            kept = compiled.trace(call)
            if kept:
                self.known.states.update(kept)
                compiled = _Compiled(self, call, in_place_of)
                compiled.trace(call)
        except Exception:
            random_states.restore(states)
            raise
        self.known.add(call.key, compiled)
        return compiled


class _Call:
    """The arguments of a call, and the state of its modules; `key` is None if it cannot be compiled."""

    def __init__(self, module: torch.nn.Module | None, beyond: Any, leaves: Any, tree: Any) -> None:
        self.leaves, self.tree = leaves, tree
        self.modules = [*module.modules(), *beyond] if module is not None else []
        self.parameters = trace.unique(p for one in self.modules for p in one._parameters.values())
        self.buffers = trace.buffers_of(self.modules)
        self.inputs, self.places = trace.numbered(leaves)
        held = [
            *self.parameters,
            *(b for one in self.modules for b in one._buffers.values() if b is not None),
        ]
        is_there = bool(self.inputs) and all(isinstance(tensor, Tensor) for tensor in held)
        # `torch.func.functional_call` puts other tensors there.
        is_there = is_there and all(isinstance(p, torch.nn.Parameter) for p in self.parameters)
        self.key = self._key({id(tensor) for tensor in held}) if is_there else None

    def _key(self, held: Any) -> Any:
        self.given = [tensor.jax() for tensor in (*self.parameters, *self.inputs)]
        #: Whether a write to one of the arguments may be a write to something else, too.
        self.shares = any(isinstance(tensor, View) or id(tensor) in held for tensor in self.inputs)
        with DisableTorchFunction():
            wanted = tuple(p.requires_grad for p in self.parameters)
        return (
            self.tree,
            tuple(self.places.get(i, leaf) for i, leaf in enumerate(self.leaves)),
            tuple(map(type, self.leaves)),
            tuple(map(id, (*self.parameters, *self.buffers.values()))),
            wanted,
            tuple(one.training for one in self.modules),
            tuple(id(hook) for one in self.modules for hook in attribute_owners.hooks_of(one)),
            tuple(map(jax.typeof, self.given)),
            self.shares,
            trace.modes(),
        )

    def kind(self) -> Any:
        """What else than the shapes of the inputs and parameters distinguishes calls."""
        types = tuple(map(jax.typeof, self.given))
        return tuple(one for one in self.key or () if one != types)


class _Compiled(trace.Trace):
    """A function for one combination of arguments."""

    def __init__(self, program: Any, call: Any, in_place_of: Any) -> None:
        super().__init__(
            program.function,
            call.leaves,
            call.tree,
            call.places,
            call.modules,
            call.parameters,
            _objects(call.modules) if call.modules else (),
            program.known.states.values(),
        )
        self.in_place_of, self.shares, self.buffers = in_place_of, call.shares, call.buffers
        self.notes_names = program.known.knows_names
        self.draws: list[Any] = []
        self.held = [*call.parameters, *call.buffers.values()]

    def trace(self, call: Any) -> Any:
        """Compile it. Attributes that JAX differentiates have to be inputs: these are returned instead."""
        given = *self._given(call), [draw.like() for draw in self.draws]
        try:
            program, shape = jax.make_jaxpr(self._run, return_shape=True)(*given)
        except host_random.OtherDrawsError as error:
            self.draws = error.draws
            return self.trace(call)
        kept = {guard.attribute.key: guard.attribute for guard in self.guards if guard.is_traced()}
        if not kept and any(isinstance(value, jax.core.Tracer) for value in program.consts):
            raise NotCompilableError
        self.structure = jax.tree.structure(shape)
        self.program = jax.jit(jax.extend.core.jaxpr_as_fun(program))
        return kept

    def _given(self, call: Any) -> Any:
        buffers = [buffer.jax() for buffer in call.buffers.values()]
        return call.given, buffers, torchax.default_env().prng_key, attributes.values(self.states)

    def _run(self, *inputs: Any) -> Any:
        *given, drawn = inputs
        tapped, collected = gradient_hooks.count, host_random.CollectedDraws(self.draws, drawn)
        unknown = requires_grad.unknown() if torch.is_grad_enabled() else contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            for one in (
                active_programs.using(None),
                concrete_values.using(None),
                host_random.collecting(collected),
                unknown,
            ):
                stack.enter_context(one)
            stack.enter_context(contextlib.redirect_stdout(captured_output.Refused(NotCompilableError)))
            tensors, *changes = self.run(*given)
        if self.drew_on_host or gradient_hooks.count > tapped:
            raise NotCompilableError
        collected.check()
        if not torch.is_grad_enabled():
            tensors = list(map(jax.lax.stop_gradient, tensors))
        return tensors, *changes

    def compute(self, call: Any, *, is_new: bool) -> Any:
        """The results of a call, and all that it changes."""
        states = random_states.states(self.generators) if is_new and self.draws else None
        given = jax.tree.leaves((self._given(call), host_random.new_numbers(self.draws)))
        is_traced = any(isinstance(value, jax.core.Tracer) for value in given)
        try:
            with contextlib.nullcontext() if is_traced else evaluating():
                return jax.tree.unflatten(self.structure, self.program(*given))
        except Exception:
            if states is not None:
                random_states.restore(states)
            raise

    def finish(self, call: Any, results: Any) -> Any:
        """Apply the changes of a call, and build its result."""
        tensors, *changes = results
        left = self.leave([*call.parameters, *call.inputs], call.buffers.values(), *changes)
        new = list(map(arrays.tensor, tensors))
        sources = {"new": new, "input": call.inputs, "held": self.held, "left": left}
        leaves = [
            plain if origin is None else origin.tensor(sources)
            for plain, origin in zip(self.outputs, self.origins, strict=False)
        ]
        return tensor_objects.with_objects(pytree.tree_unflatten(leaves, self.shape))

    def taken(self, result: Any, inputs: Any, arguments: Any) -> Any:
        """The new tensors of a result; the origin of each tensor is noted."""
        leaves, self.shape = pytree.tree_flatten(result)
        kept = attribute_owners.attribute_values(self.objects)
        if (
            not all(type(leaf) in (Tensor, View) or isinstance(leaf, _PLAIN) for leaf in leaves)
            or not aliasing.containers(result).isdisjoint(aliasing.containers((arguments, kept)))
            or self._are_changed(inputs, arguments)
        ):
            raise NotCompilableError
        known = {id(tensor): aliasing.Origin("held", i) for i, tensor in enumerate(self.held)}
        for i, (module, name) in enumerate(self.buffers, len(self.parameters)):
            known[id(module._buffers[name])] = aliasing.Origin("held", i)
        known.update({id(tensor): aliasing.Origin("input", i) for i, tensor in enumerate(inputs)})
        roots = [aliasing.root(leaf)[0] for leaf in leaves if isinstance(leaf, torch.Tensor)]
        shared = Counter(map(id, roots))
        shared.update(id(leaf) for leaf in pytree.tree_leaves(kept))
        self.new: list[Any] = []
        self.outputs: list[Any] = []
        self.origins: list[Any] = []
        for leaf in leaves:
            is_tensor = isinstance(leaf, torch.Tensor)
            self.outputs.append(None if is_tensor else leaf)
            self.origins.append(self._origin(leaf, known, shared) if is_tensor else None)
        return [arrays.on_torchax(tensor).jax() for tensor in self.new]

    def _are_changed(self, inputs: Any, arguments: Any) -> bool:
        """Whether lists and dictionaries among the arguments were changed."""
        leaves, tree = pytree.tree_flatten(arguments)
        before = [inputs[self.places[i]] if i in self.places else leaf for i, leaf in enumerate(self.leaves)]
        return tree != self.tree or any(now is not then for now, then in zip(leaves, before, strict=False))

    def _origin(self, leaf: Any, known: Any, shared: Any) -> Any:
        root, views = aliasing.root(leaf)
        if id(root) not in known and shared[id(root)] == 1:
            root, views = leaf, ()  # no other tensor shares its memory
        if id(root) not in known:
            known[id(root)] = aliasing.Origin("new", len(self.new))
            self.new.append(root)
        return known[id(root)]._replace(views=views)

    def settle(self, watch: Any) -> None:
        is_written = any(i >= len(self.parameters) for i in self.changed)
        if (self.shares and is_written) or not (self.modules or self.new or is_written):
            raise NotCompilableError
        left = {id(tensor): i for i, tensor in enumerate(watch.left())}
        self.origins = [
            origin._replace(source="left", place=left[id(self.new[origin.place])])
            if origin and origin.source == "new" and id(self.new[origin.place]) in left
            else origin
            for origin in self.origins
        ]
        self.new = []


def _objects(modules: Sequence[torch.nn.Module]) -> Any:
    """The objects that may be read and written while modules are called, and the names that they use."""
    others = [
        one for one in active_programs.state.programs.objects() if type(one) is not captured_objects.Held
    ]
    return [
        *others,
        *(one for one in captured_objects.captured(None, modules, ()) if type(one) is captured_objects.Held),
    ]
