"""The calls in a function that cannot be compiled as a whole, compiled one by one.

If a function needs the value of a tensor, or draws random numbers on the host, its own statements run one by
one.
Modules that it calls are compiled nevertheless.
If a module cannot be compiled, the modules within it are, and otherwise the torch functions: JAX
differentiates a compiled one in a fraction of the time.

Modules that are called without gradients, or in evaluation mode, are compiled if it pays off: once their
calls with the same shapes have taken as long as compiling may take, or calls with new shapes take longer than
that.

A compiled call has the same side effects: on parameters, buffers, attributes and arguments, and on memory
that its results share with these.
"""

from __future__ import annotations

import contextlib
import functools
import io
import sys
import time
from collections import Counter

import jax
import jax.extend.core
import torch
import torchax
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _pytree as pytree
from torchax.tensor import Tensor
from torchax.view import View

from ..autograd import frozen_parameters, gradient_hooks, higher_order, no_grad, requires_grad
from ..patches.declarations import patch
from ..tensor import arrays, memory_format, module_to
from . import (
    aliasing,
    attribute_owners,
    attributes,
    captured_objects,
    concrete_values,
    deferred_scalars,
    host_fallback,
    host_random,
    host_tensor_writes,
    padded_sequences,
    random_states,
    reachable_modules,
    recompilations,
    tensor_objects,
    trace,
)

#: Types of arguments and results beside tensors: calls cannot change them, or hide tensors in them.
_PLAIN = (bool, int, float, complex, str, type(None), torch.dtype, torch.device, torch.Size)

#: Functions that compute nothing, or only a value on the host.
_NOT_COMPUTING = frozenset(
    "__get__ __set__ __delete__ __repr__ __str__ __format__ __len__ __hash__ __bool__ __int__ __float__"
    " __index__ item tolist numpy cpu to type size dim numel is_floating_point is_complex data_ptr backward"
    " requires_grad_ retain_grad detach".split()
)

_HOST = ("cpu", torch.device("cpu"))

#: The number of combinations of shapes and plain values for which a torch function is compiled.
MOST_KINDS = 256

#: Seconds that the calls of a module take before it is compiled for evaluation.
PATIENCE = 1.0
#: After so many shapes that could not be compiled, a module is compiled only if its calls took that long.
MOST_REFUSED = 3
#: The number of traces of a module in evaluation for attributes that it reads.
MOST_STATES = 2
#: Within `jax.vjp`, JAX takes its slow path even for values that it does not differentiate.
_evaluating = getattr(jax.core, "eval_context", contextlib.nullcontext)

_call = torch.nn.Module.__call__
_functions = {}


class Apart:
    """The compiled versions of some modules; with `hesitates`, only calls that took long are compiled."""

    def __init__(self, *, hesitates=False):
        self.programs, self.objects, self.hesitates = {}, list, hesitates

    def __reduce__(self):
        return bool, ()  # copies and pickles of a module do not include it

    @contextlib.contextmanager
    def compiled(self, modules, objects):
        """Use them for calls of modules; `objects` returns those whose attributes may be read and written."""
        for module in modules:
            if id(module) not in self.programs:
                function = functools.partial(_call, module)
                self.programs[id(module)] = _Program(function, module, hesitates=self.hesitates)
        self.objects = objects
        with running(self):
            yield


#: The compiled versions for calls of modules; None while JAX traces.
_running = _OUTSIDE = Apart()


@contextlib.contextmanager
def running(apart):
    """Use these compiled versions for calls of modules within the context; None while JAX traces."""
    global _running
    before, _running = _running, apart
    try:
        yield
    finally:
        _running = before


@patch(
    "torch.nn:Module.__call__",
    why="Each operation of a module would run on its own: JAX compiles a call of a module as a whole.",
    upstream="https://github.com/pytorch/pytorch/blob/main/torch/nn/modules/module.py",
)
def call_module(module, *args, **kwargs):
    """`Module.__call__`."""
    if _running is None or any(hasattr(mode, "record") for mode in _get_current_function_mode_stack()):
        return _call(module, *args, **kwargs)
    program = _running.programs.get(id(module))
    if program is not None:
        return program(args, kwargs)
    if _running is not _OUTSIDE or (torch.is_grad_enabled() and _may_learn(module, args, kwargs)):
        return _call(module, *args, **kwargs)
    modules = list(module.modules())
    if any(map(attribute_owners.hooks_of, modules)):  # they may fill containers outside of these modules
        return _call(module, *args, **kwargs)
    apart = vars(module).get(reachable_modules.EVALUATED) or Apart(hesitates=True)
    vars(module)[reachable_modules.EVALUATED] = apart
    with apart.compiled(modules, lambda: attribute_owners.of(modules, ())):
        return call_module(module, *args, **kwargs)


def _may_learn(module, args, kwargs):
    """Whether gradients may be needed of a call outside of decorated functions."""
    leaves = pytree.tree_leaves((args, kwargs))
    return module.training or any(leaf.requires_grad for leaf in leaves if isinstance(leaf, torch.Tensor))


class Calls(no_grad.NoGradStops):
    """Gives `torch.no_grad()` its effect on JAX's gradients, and compiles torch functions."""

    hands_gradients = True  # to hooks of torch's backward pass

    def __init__(self, freezing):
        super().__init__()
        self._written, self._freezing = host_tensor_writes.Written(), freezing
        host_fallback.begin()

    def __torch_function__(self, func, types, args=(), kwargs=None):
        if concrete_values.is_replayed():
            padded_sequences.check(args, sys._getframe(1))
        func, args, kwargs = self._written.latest(func, module_to.latest(args), kwargs or {})
        if args and type(args[0]) is torch.Tensor and _is_traced((args[1:], kwargs)):
            # In a function that runs call by call, copies to the host stay on the device.
            func, args = self._written.writing(func, args, OnHost if _is_whole() else Tensor)
        result = self._called(func, types, args, kwargs)
        self._written.note(result, (args, kwargs))
        return result

    def _called(self, func, types, args, kwargs):
        if func is torch.autograd.grad or (higher_order.is_backward(func) and _is_traced(args)):
            raise higher_order.NotRecorded
        if concrete_values.is_asked():
            if _is_copy_to_host(func, args, kwargs) and isinstance(args[0], (Tensor, View)):
                concrete_values.session().has_copies = True
            drawn = host_random.of_torch(func, args, kwargs)
            if drawn is not None:
                return drawn
            args, kwargs = deferred_scalars.of_computation(host_random.in_tensors((args, kwargs)))
        if func.__name__ not in _NOT_COMPUTING:
            gradient_hooks.note_use(args)
        if frozen_parameters.sets(func):
            self._freezing.set(*args, **kwargs)
        plain = functools.partial(super().__torch_function__, func, types)
        if func == requires_grad.ASKS and _is_traced(args):
            return plain(args, kwargs) or requires_grad.is_wanted(aliasing.root(args[0])[0].jax())
        if _is_whole():
            if _is_copy_to_host(func, args, kwargs) and _is_traced(args):
                return OnHost(arrays.on_torchax(args[0]).jax(), torchax.default_env())
            return plain(args, kwargs)
        if not _is_traced((args, kwargs)):
            with _evaluating():
                return plain(args, kwargs)
        if _is_copy_to_host(func, args, kwargs):
            return args[0]  # tensors that JAX differentiates have no copy there
        if func.__name__ in _NOT_COMPUTING:
            return plain(args, kwargs)
        if any(type(one) is torch.Tensor for one in args) and not func.__name__.endswith("_"):
            args = [one.to("jax") if type(one) is torch.Tensor else one for one in args]
        program = _functions.get(func)
        if program is None:
            program = _functions[func] = _Program(func)
        with no_grad.unseen_writes(args, kwargs):
            made = program(args, kwargs, plain)
        return made if func.__name__.endswith("_") else memory_format.lying_alike(made, func, args, kwargs)


def _is_whole():
    """Whether the running function is compiled as a whole, not call by call."""
    return _running is None or _running is _OUTSIDE


class OnHost(Tensor):
    """A copy to the host in a function that is compiled as a whole: its result is copied to the host."""


def _is_copy_to_host(func, args, kwargs):
    if func is torch.Tensor.cpu:
        return True
    places = (*args[1:], *kwargs.values()) if func is torch.Tensor.to else ()
    return len(places) == 1 and places[0] in _HOST


def _is_traced(value):
    """Whether one of the arguments is a tensor that JAX differentiates."""
    if isinstance(value, (list, tuple)):
        return any(map(_is_traced, value))
    if isinstance(value, dict):
        return any(map(_is_traced, dict.values(value)))
    value = aliasing.root(value)[0]
    return isinstance(value, Tensor) and isinstance(getattr(value, "_of", value)._elem, jax.core.Tracer)


class _CannotBeApart(Exception):
    """A call does something that a compiled call would not do again."""


class _Silent(io.TextIOBase):
    """Refuses output, which a compiled call would print only once."""

    def write(self, _text):
        raise _CannotBeApart


class _Program:
    """A function of tensors, or a module, and its compiled versions."""

    def __init__(self, function, module=None, *, hesitates=False):
        self.function, self.module, self.hesitates = function, module, hesitates
        # A module without parameters may be created for one call, as in `nn.MSELoss()(output, target)`.
        self.beyond = reachable_modules.beyond(module) if module is not None else []
        self.is_lasting = module is None or any(True for _ in module.parameters())
        self.most = MOST_KINDS if module is None or hesitates else trace.MOST_VERSIONS
        self.known = trace.Known(MOST_STATES) if hesitates else trace.Known()
        self.seconds, self.refused = {}, set()
        #: Only for evaluation: a function that runs call by call has warned already.
        self.compilations = recompilations.Compilations(module.forward) if hesitates else None
        #: Seconds of calls with new shapes: all and the last one without compilation, and the last with it.
        self.new, self.last_new, self.last_compiled = 0.0, 0.0, 0.0

    def __call__(self, args, kwargs, plain=None):
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
            found = None if self.module is not None else host_fallback.computed(self.function, args, kwargs)
            return plain(args, kwargs) if found is None else found
        began = time.perf_counter()
        if call.key not in self.known.traces and self._waits(call):
            with running(None):
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

    def _waits(self, call):
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

    def _took(self, call, seconds):
        """Note the duration of a call that was not compiled."""
        if self.seconds.get(call.key) == 0.0:
            self.new += seconds
            self.last_new = seconds
        if call.key in self.seconds:
            self.seconds[call.key] += seconds

    def _forget(self):
        """Of many shapes, only the latest half stay compiled."""
        for key in list(self.seconds)[: self.most // 2]:
            del self.seconds[key]
            self.known.traces.pop(key, None)

    def _compiled(self, call, in_place_of):
        compiled = _Compiled(self, call, in_place_of)
        states = random_states.states_of_host(compiled.generators)
        try:
            kept = compiled.trace(call)
            if kept:
                self.known.states.update(kept)
                compiled = _Compiled(self, call, in_place_of)
                compiled.trace(call)
        except Exception:
            random_states.draw_again(states)
            raise
        self.known.add(call.key, compiled)
        return compiled


class _Call:
    """The arguments of a call, and the state of its modules; `key` is None if it cannot be compiled."""

    def __init__(self, module, beyond, leaves, tree):
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

    def _key(self, held):
        self.given = [tensor.jax() for tensor in (*self.parameters, *self.inputs)]
        #: Whether a write to one of the arguments may be a write to something else, too.
        self.shares = any(isinstance(tensor, View) or id(tensor) in held for tensor in self.inputs)
        with torch._C.DisableTorchFunction():
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

    def kind(self):
        """What else than the shapes of the inputs and parameters distinguishes calls."""
        types = tuple(map(jax.typeof, self.given))
        return tuple(one for one in self.key if one != types)


class _Compiled(trace.Trace):
    """A function for one combination of arguments."""

    def __init__(self, program, call, in_place_of):
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
        self.draws = []
        self.held = [*call.parameters, *call.buffers.values()]

    def trace(self, call):
        """Compile it. Attributes that JAX differentiates have to be inputs: these are returned instead."""
        given = *self._given(call), [draw.like() for draw in self.draws]
        try:
            program, shape = jax.make_jaxpr(self._run, return_shape=True)(*given)
        except host_random.Others as error:
            self.draws = error.draws
            return self.trace(call)
        kept = {guard.attribute.key: guard.attribute for guard in self.guards if guard.is_traced()}
        if not kept and any(isinstance(value, jax.core.Tracer) for value in program.consts):
            raise _CannotBeApart
        self.structure = jax.tree.structure(shape)
        self.program = jax.jit(jax.extend.core.jaxpr_as_fun(program))
        return kept

    def _given(self, call):
        buffers = [buffer.jax() for buffer in call.buffers.values()]
        return call.given, buffers, torchax.default_env().prng_key, attributes.values(self.states)

    def _run(self, *given):
        *given, drawn = given
        tapped, collected = gradient_hooks.count, host_random.Collected(self.draws, drawn)
        unknown = requires_grad.unknown() if torch.is_grad_enabled() else contextlib.nullcontext()
        with contextlib.ExitStack() as stack:
            for one in (running(None), concrete_values.by(None), host_random.collecting(collected), unknown):
                stack.enter_context(one)
            stack.enter_context(contextlib.redirect_stdout(_Silent()))
            tensors, *changes = self.run(*given)
        if self.drew_on_host or gradient_hooks.count > tapped:
            raise _CannotBeApart
        collected.check()
        if not torch.is_grad_enabled():
            tensors = list(map(jax.lax.stop_gradient, tensors))
        return tensors, *changes

    def compute(self, call, *, is_new):
        """The results of a call, and all that it changes."""
        states = random_states.states_of_host(self.generators) if is_new and self.draws else None
        given = jax.tree.leaves((self._given(call), host_random.taken(self.draws)))
        is_traced = any(isinstance(value, jax.core.Tracer) for value in given)
        try:
            with contextlib.nullcontext() if is_traced else _evaluating():
                return jax.tree.unflatten(self.structure, self.program(*given))
        except Exception:
            if states is not None:
                random_states.draw_again(states)
            raise

    def finish(self, call, results):
        """Apply the changes of a call, and build its result."""
        tensors, *changes = results
        left = self.leave([*call.parameters, *call.inputs], call.buffers.values(), *changes)
        new = list(map(arrays.tensor, tensors))
        sources = {"new": new, "input": call.inputs, "held": self.held, "left": left}
        leaves = [
            plain if origin is None else origin.tensor(sources)
            for plain, origin in zip(self.outputs, self.origins)
        ]
        return tensor_objects.together(pytree.tree_unflatten(leaves, self.shape))

    def taken(self, result, inputs, arguments):
        """The new tensors of a result; the origin of each tensor is noted."""
        leaves, self.shape = pytree.tree_flatten(result)
        kept = attribute_owners.kept(self.objects)
        if (
            not all(type(leaf) in (Tensor, View) or isinstance(leaf, _PLAIN) for leaf in leaves)
            or not aliasing.containers(result).isdisjoint(aliasing.containers((arguments, kept)))
            or self._are_changed(inputs, arguments)
        ):
            raise _CannotBeApart
        known = {id(tensor): aliasing.Origin("held", i) for i, tensor in enumerate(self.held)}
        for i, (module, name) in enumerate(self.buffers, len(self.parameters)):
            known[id(module._buffers[name])] = aliasing.Origin("held", i)
        known.update({id(tensor): aliasing.Origin("input", i) for i, tensor in enumerate(inputs)})
        roots = [aliasing.root(leaf)[0] for leaf in leaves if isinstance(leaf, torch.Tensor)]
        shared = Counter(map(id, roots))
        shared.update(id(leaf) for leaf in pytree.tree_leaves(kept))
        self.new, self.outputs, self.origins = [], [], []
        for leaf in leaves:
            is_tensor = isinstance(leaf, torch.Tensor)
            self.outputs.append(None if is_tensor else leaf)
            self.origins.append(self._origin(leaf, known, shared) if is_tensor else None)
        return [arrays.on_torchax(tensor).jax() for tensor in self.new]

    def _are_changed(self, inputs, arguments):
        """Whether lists and dictionaries among the arguments were changed."""
        leaves, tree = pytree.tree_flatten(arguments)
        before = [inputs[self.places[i]] if i in self.places else leaf for i, leaf in enumerate(self.leaves)]
        return tree != self.tree or any(now is not then for now, then in zip(leaves, before))

    def _origin(self, leaf, known, shared):
        root, views = aliasing.root(leaf)
        if id(root) not in known and shared[id(root)] == 1:
            root, views = leaf, ()  # no other tensor shares its memory
        if id(root) not in known:
            known[id(root)] = aliasing.Origin("new", len(self.new))
            self.new.append(root)
        return known[id(root)]._replace(views=views)

    def settle(self, watch):
        is_written = any(i >= len(self.parameters) for i in self.changed)
        if (self.shares and is_written) or not (self.modules or self.new or is_written):
            raise _CannotBeApart
        left = {id(tensor): i for i, tensor in enumerate(watch.left())}
        self.origins = [
            origin._replace(source="left", index=left[id(self.new[origin.index])])
            if origin and origin.source == "new" and id(self.new[origin.index]) in left
            else origin
            for origin in self.origins
        ]
        self.new = []


def _objects(modules):
    """The objects that may be read and written while modules are called, and the names that they use."""
    others = [one for one in _running.objects() if type(one) is not captured_objects.Held]
    return [
        *others,
        *(one for one in captured_objects.of(None, modules, ()) if type(one) is captured_objects.Held),
    ]
