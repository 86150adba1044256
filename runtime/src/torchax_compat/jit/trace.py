"""A function of tensors and modules, as JAX traces it.

Its inputs are the parameters and buffers of the modules, tensor arguments, the random state, and attributes
that keep changing.
Its outputs are its results, and the new values of parameters, buffers and attributes.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import jax
import torch
import torchax
from torchax.tensor import Tensor

from ..adapters.torch_internals import pytree
from ..ops import autocast
from ..tensor import arrays
from . import (
    attribute_owners,
    attributes,
    captured_objects,
    contents,
    deferred_scalars,
    random_states,
    tensor_objects,
    varying_arguments,
)

#: With more versions than this, compiling costs more than it gains: some plain value differs at each call.
MOST_VERSIONS = 16
#: The same if most calls had to be compiled, as for a decoder with a list of the inputs of its steps.
MOST_NEW_VERSIONS = 8
#: The same for attributes that it reads.
MOST_STATES = 8
#: Errors of a computation that needs the value of a tensor.
NEEDS_VALUE = (
    jax.errors.JAXTypeError,
    jax.errors.NonConcreteBooleanIndexError,
    deferred_scalars.ValueNeededError,
)
_PLAIN = (bool, int, float, str, type(None), torch.dtype)


class TooManyStatesError(Exception):
    """An attribute that a function reads keeps changing."""


class Traces:
    """The traces of a function, for each combination of arguments."""

    def __init__(self, most_states: Any = MOST_STATES, *, takes_numbers: bool = False) -> None:
        self.traces: dict[Any, list[Any]] = {}
        self.states: dict[Any, Any] = {}
        self.most_states = most_states
        self.takes_numbers = takes_numbers
        self.knows_names = False  # whether names that it was traced with have changed
        self.varying = varying_arguments.VaryingArguments()
        self.changed: dict[Any, set[Any]] = {}  # by attribute, the values that differed

    def fitting(self, key: Any) -> Any:
        """The trace for the present attributes, or None; tensors of attributes that differ become inputs."""
        known = self.traces.get(key, ())
        found = next((one for one in known if not one.is_void and not any(one.differing())), None)
        if found is None and known:
            differing = list(known[-1].differing())
            if not self.knows_names and any(g.attribute.is_name for g in differing):
                self.knows_names = True  # only functions that do not run may read it
                return None
            standing = [g for g in differing if self.takes_numbers and g.may_stand()]
            others = [g for g in differing if g not in standing and g.has_tensors()]
            self.states.update({g.attribute.key: g.attribute for g in others})
            self.states.update({g.attribute.key: g.attribute for g in standing if self._keeps_changing(g)})
            if differing and len(known) > self.most_states:
                raise TooManyStatesError(f"it reads {differing[0].attribute}, which keeps changing")
        return found

    def _keeps_changing(self, guard: Any) -> bool:
        """Whether an attribute differs from a trace for the second time, with another value."""
        value = guard.attribute.get()
        values = self.changed.setdefault(guard.attribute.key, set())
        values.add(value if isinstance(value, (int, float)) else len(value))
        return len(values) > 1

    def refuse(self) -> bool:
        """Use no placeholders for attributes from now on; returns whether there were any."""
        standing = [key for key, attribute in self.states.items() if attribute.stands]
        for key in standing:
            self.states.pop(key).stands = False
        self.takes_numbers = self.takes_numbers and not standing
        return bool(standing)

    def add(self, key: Any, trace: Any) -> None:
        """Keep a trace."""
        self.traces.setdefault(key, []).append(trace)


class Trace:
    """A function with its plain arguments, modules and their modes; tensors remain as inputs.

    `places` has the index of the tensor for each tensor among the leaves of the arguments; those of
    parameters are negative, and count from the end.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        leaves: Any,
        tree: Any,
        places: Any,
        modules: Sequence[torch.nn.Module],
        parameters: Any,
        objects: Any,
        states: Any,
    ) -> None:
        # Without tensors: a trace must not keep the batch alive that it was traced with.
        self.leaves = [None if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.function, self.tree, self.places = function, tree, places
        self.modules, self.parameters, self.objects = modules, parameters, objects
        self.states, self.shapes = list(states), attributes.shapes(states)
        self.guards: list[Any] = []
        self.in_place_of: list[int] = []  # leaves that stand for plain numbers
        self.notes_names = False  # whether it matters which functions run
        self.is_void = False  # tracing failed, and only its reads are known
        held = attribute_owners.attribute_values(
            one for one in (*modules, *objects) if hasattr(one, "__dict__")
        )
        self.generators = random_states.generators([*leaves, *held, *_of_files(function, modules)])

    def differing(self) -> Iterator[Any]:
        """The attributes that have changed since this was traced."""
        if self.states and attributes.shapes(self.states) != self.shapes:
            yield from (attributes.Guard(attribute, None) for attribute in self.states)
        yield from (guard for guard in self.guards if not guard.holds())

    def stands_in(self) -> bool:
        """Whether there are placeholders for attributes without tensors."""
        return any(attribute.stands for attribute in self.states)

    def around(self) -> Any:
        """The contexts in which the function runs."""
        return ()

    def run(self, values: Any, buffers: Any, random: Any, states: Any, *, is_traced: bool = True) -> Any:
        """Call the function with other tensors; all that it changes is restored, and returned."""
        count = len(self.parameters)
        plain = {self.places[i] for i in self.in_place_of}
        kinds = (
            varying_arguments.placeholder if k in plain else arrays.tensor for k in range(len(values) - count)
        )
        inputs = [kind(value) for kind, value in zip(kinds, values[count:], strict=True)]
        if not is_traced:
            self.leaves = varying_arguments.with_texts(self.leaves)
        leaves = self.with_tensors(inputs)
        taken = pytree.tree_unflatten(leaves, self.tree)
        arguments = attribute_owners.without_containers(*taken)
        environment = torchax.default_env()
        named, host = buffers_of(self.modules), random_states.states(self.generators)
        held = {id(tensor) for tensor in (*self.parameters, *named.values())}
        with contextlib.ExitStack() as stack:
            for tensor, value in zip(
                [*self.parameters, *named.values()], [*values[:count], *buffers], strict=False
            ):
                stack.callback(arrays.put, tensor, tensor.jax())
                arrays.put(tensor, value)
            for (module, name), buffer in named.items():
                stack.callback(module._buffers.__setitem__, name, buffer)
            places = parameters_of(self.modules, self.parameters)
            for (module, name), i in places.items():
                stack.callback(module._parameters.__setitem__, name, self.parameters[i])
            for context in self.around():
                stack.enter_context(context)
            stack.enter_context(environment.override_property(prng=random))
            given = list(attributes.with_values(self.states, states))
            watch = attributes.Watch(self.objects, given, held, is_traced=is_traced)
            stack.enter_context(watch)
            executed = (
                stack.enter_context(captured_objects.Executed()) if self.notes_names and is_traced else None
            )
            known = {id(one) for one in (*self.objects, *pytree.tree_leaves(arguments))}
            result = self.with_markers(self.function(*arguments[0], **arguments[1]), arguments)
            result = tensor_objects.with_records(result, known)
            tensors = self.taken(result, inputs, arguments)
            written = [module._buffers[name].jax() for module, name in named]
            self.replaced = {
                i: place
                for place, i in places.items()
                if isinstance(place[0]._parameters.get(place[1]), Tensor)
                and place[0]._parameters[place[1]] is not self.parameters[i]
            }
            latest = [*self.parameters, *inputs]
            for i, (module, name) in self.replaced.items():
                latest[i] = module._parameters[name]
            now = [tensor.jax() for tensor in latest]
            self.changed = [i for i, value in enumerate(values) if now[i] is not value]
            written += [now[i] for i in self.changed]
            self.rotates_key = environment.prng_key is not random
            random = environment.prng_key
        self.drew_on_host = random_states.states(self.generators) != host
        used = executed.used() if executed is not None else None
        self.guards = [
            guard
            for guard in watch.guards.values()
            if used is None or not guard.attribute.is_name or guard.attribute.name in used
        ]
        self.left = watch.plan()
        tensor_objects.check(taken, arguments, pytree.tree_leaves(result), watch.written)
        varying_arguments.check(
            [leaves[i] for i in self.in_place_of], pytree.tree_leaves(result), watch.written
        )
        self.settle(watch)
        return tensors, written, random, watch.results()

    def with_tensors(self, inputs: Any) -> Any:
        """The leaves of the arguments, with the tensors among them."""
        tensors = [*inputs, *self.parameters]
        return [tensors[self.places[i]] if i in self.places else leaf for i, leaf in enumerate(self.leaves)]

    def settle(self, watch: Any) -> None:
        """Called with the noted attributes, once the function has run."""

    def with_markers(self, result: Any, _arguments: Any) -> Any:
        """A result, in which arguments may be replaced by placeholders."""
        return result

    def taken(self, result: Any, _inputs: Any, _arguments: Any) -> Any:
        """The arrays of the tensors in a result."""
        self.outputs, self.shape = pytree.tree_flatten(result)
        self.is_tensor = [isinstance(leaf, torch.Tensor) for leaf in self.outputs]
        tensors = [leaf for leaf, is_tensor in zip(self.outputs, self.is_tensor, strict=True) if is_tensor]
        self.outputs = [
            None if is_tensor else deferred_scalars.plain(leaf)
            for leaf, is_tensor in zip(self.outputs, self.is_tensor, strict=True)
        ]
        return [arrays.on_torchax(tensor).jax() for tensor in tensors]

    def leave(
        self, tensors: Any, buffers: Any, written: Any, random: Any, left: Any, numbers: Any = ()
    ) -> Any:
        """Apply the changes of a call; `numbers` are those that it read."""
        made = attributes.assign(self.left, left, self.guards, numbers)
        for tensor, value in zip([*buffers, *(tensors[i] for i in self.changed)], written, strict=False):
            arrays.write(tensor, value)
        torchax.default_env().prng_key = random
        return made


def identity(leaf: Any) -> Any:
    """A value that distinguishes a plain argument from others."""
    if type(leaf) is varying_arguments.Text:
        return varying_arguments.Text
    if isinstance(leaf, torch.nn.Module):
        return _settings(leaf) or id(leaf)
    return leaf if isinstance(leaf, _PLAIN) else id(leaf)


def methods(module: torch.nn.Module) -> Any:
    """The method of the class of a module that computes it, and the one that the program put in its place."""
    return contents.forward_of(module), vars(module).get("forward")


def _settings(module: torch.nn.Module) -> Any:
    """All settings of one of torch's own modules, such as a loss that is created for each epoch."""
    if not contents.is_of_torch(module):
        return None
    found: list[Any] = [type(module)]
    for name, value in vars(module).items():
        if isinstance(value, dict) and all(held is None for held in value.values()):
            found.append((name, *value))
        elif isinstance(value, _PLAIN):
            found.append((name, type(value), value))
        elif value:  # an empty set has no settings
            return None
    return tuple(found)


def numbered(leaves: Any, parameters: Any = ()) -> Any:
    """The tensors among leaves, each once, and the index of the tensor for each tensor leaf.

    Parameters are not included, and have negative indices: a list of a module's parameters belongs to the
    module.
    """
    numbers = {id(p): i - len(parameters) for i, p in enumerate(parameters)}
    tensors: list[torch.Tensor] = []
    for leaf in leaves:
        if isinstance(leaf, torch.Tensor) and id(leaf) not in numbers:
            numbers[id(leaf)] = len(tensors)
            tensors.append(leaf)
    return tensors, {i: numbers[id(leaf)] for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)}


def unique(tensors: Any) -> Any:
    """Tensors, each once."""
    return list({id(tensor): tensor for tensor in tensors if tensor is not None}.values())


def parameters_on_device(modules: Sequence[torch.nn.Module]) -> Any:
    """The parameters of modules, without those of modules that were not moved, such as unused ones."""
    found = (tensor for module in modules for tensor in module._parameters.values())
    return (tensor for tensor in found if isinstance(tensor, Tensor))


def buffers_of(modules: Sequence[torch.nn.Module]) -> Any:
    """The buffers by module and name; a buffer with several names occurs once."""
    named, seen = {}, set()
    for module in modules:
        for name, buffer in module._buffers.items():
            if isinstance(buffer, Tensor) and id(buffer) not in seen:
                seen.add(id(buffer))
                named[module, name] = buffer
    return named


def parameters_of(modules: Sequence[torch.nn.Module], parameters: Any) -> Any:
    """The indices of parameters, by module and name."""
    numbers = {id(parameter): i for i, parameter in enumerate(parameters)}
    return {
        (module, name): numbers[id(parameter)]
        for module in modules
        for name, parameter in module._parameters.items()
        if id(parameter) in numbers
    }


def modes() -> Any:
    """Other settings that a function is traced for."""
    return torch.is_grad_enabled(), torchax.default_env().param.autocast_dtype, autocast.state()


def _of_files(function: Callable[..., Any], modules: Sequence[torch.nn.Module]) -> Any:
    """The global values of the program's files that define a function, and the classes of modules."""
    names = dict.fromkeys(
        (getattr(function, "__module__", None), *(type(module).__module__ for module in modules))
    )
    files = [sys.modules.get(name) for name in names if name and not name.startswith("torch.")]
    return [value for file in files if file is not None for value in list(vars(file).values())]
