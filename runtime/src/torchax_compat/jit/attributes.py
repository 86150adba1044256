"""Attributes that a traced function reads and writes.

Tracing runs the Python code of a function once, and later calls do not.
So a trace is valid for the attributes that it read, and the function is traced again if one of them differs.
Values that it assigns to attributes are computed with its results, and assigned after each call.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Iterator
from typing import Any

import jax
import numpy as np
import torch
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, pytree
from ..tensor import arrays
from . import (
    attribute_owners,
    attribute_placeholders,
    captured_objects,
    containers,
    contents,
    deferred_scalars,
    host_tensor_writes,
    reachable_modules,
    tensor_objects,
)

#: Types of values that are compared.
_PLAIN = containers.PLAIN
#: The types of items in most tuples of modules.
_NUMBERS = {bool, int, float}
_KINDS = (Tensor, View)
_CONTAINERS = containers.KINDS
#: Types of values for which a function is traced.
_FUNCTIONS = (types.FunctionType, types.MethodType, types.BuiltinFunctionType, functools.partial)
_READ = (*_PLAIN, *_CONTAINERS, tuple, torch.Tensor, np.ndarray, *_FUNCTIONS)
#: Larger arrays of NumPy are data, and are not compared.
_MOST_BYTES = 1 << 20
_MISSING = object()


class Attribute:
    """An attribute in the `__dict__` of an object.

    `apart` are the `id`s of parameters and buffers, which are inputs of a function already.
    """

    def __init__(self, owner: Any, name: Any, apart: Any = frozenset()) -> None:
        self.held, self.name, self.kind = vars(owner), name, _kind(owner)
        self.key, self.apart = (key_of(owner), name), apart
        self.is_container = isinstance(owner, attribute_owners.Container)
        self.is_name = type(owner) is captured_objects.Held and owner.names.kind != "dict"
        self.stands = False  # its value has a placeholder, and no tensors (`attribute_placeholders.py`)

    def get(self) -> Any:
        """The present value, or `_MISSING`."""
        return self.held.get(self.name, _MISSING)

    def set(self, value: Any) -> None:
        """Assign a value, or delete the attribute; a container is refilled."""
        if value is _MISSING:
            self.held.pop(self.name, None)
        elif self.is_container:
            containers.refill(self.held[self.name], containers.content(value))
        else:
            self.held[self.name] = value

    def tensors(self, value: Any, watched: Any = frozenset()) -> Any:
        """The tensors in a value of the attribute, without those in containers whose `id`s are `watched`."""
        if watched and isinstance(value, dict):
            value = {name: one for name, one in dict.items(value) if id(one) not in watched}
        return [tensor for tensor in _tensors(value) if id(tensor) not in self.apart]

    def leaves(self) -> Any:
        """The leaves of its value, which of them are inputs, and their structure."""
        value = self.get()
        if self.stands and isinstance(value, _CONTAINERS):
            return [type(value)], [False], None
        leaves, shape = pytree.tree_flatten(value)
        if self.stands:
            return leaves, list(map(attribute_placeholders.is_number, leaves)), shape
        return leaves, [isinstance(x, _KINDS) and id(x) not in self.apart for x in leaves], shape

    def __str__(self) -> str:
        return f"`{self.name}` of `{self.kind}`"


def key_of(owner: Any) -> Any:
    """A key that identifies an object with attributes."""
    return owner.names.key if type(owner) is captured_objects.Held else id(owner)


def _kind(owner: Any) -> Any:
    """The name of an object with attributes."""
    return str(owner.names.kind) if type(owner) is captured_objects.Held else type(owner).__name__


class Guard:
    """An attribute as it was read: a trace is valid as long as it is the same.

    `watched` are the `id`s of containers that have guards of their own.
    """

    def __init__(self, attribute: Any, value: Any, watched: Any = frozenset()) -> None:
        self.attribute, self.value = attribute, deferred_scalars.plain(value)
        self.content, self.nested = containers.content(value), containers.Nested(value, watched)
        self.watched, self.elements = watched, list(map(_element, attribute.tensors(value, watched)))
        self.version = _version(value)

    def holds(self) -> bool:
        """Whether the attribute is as it was read."""
        value = deferred_scalars.plain(self.attribute.get())
        if value is not self.value:
            return isinstance(value, _PLAIN) and type(value) is type(self.value) and value == self.value
        if self.content is not None and not containers.same(containers.content(value), self.content):
            return False
        if _version(value) != self.version or not self.nested.are_same(value):
            return False
        if not self.elements:
            return True
        return containers.same(
            list(map(_element, self.attribute.tensors(value, self.watched))), self.elements
        )

    def holds_with(self, read: contents.Contents) -> bool:
        """Whether the attribute is as it was read as long as some contents are the same."""
        is_one = self.content is None and self.nested.are_none() and not self.elements
        is_one = is_one and self.version is None
        return is_one and read.include(self.attribute.held)

    def is_traced(self) -> bool:
        """Whether its value has tensors that JAX differentiates."""
        return any(isinstance(element, jax.core.Tracer) for element in self.elements)

    def put_back(self, originals: Any) -> None:
        """Compare with the items of a container, not with their placeholders."""
        if self.content is None:
            return
        places = self.content if isinstance(self.content, dict) else range(len(self.content))
        for place in places:
            if type(self.content[place]) is attribute_placeholders.AppendedItems:
                self.content[place] = originals[id(self.content[place])]

    def has_grown(self) -> bool:
        """Whether the value is the same list, with items appended."""
        return attribute_placeholders.has_grown(self.value, self.attribute.get(), self.content)

    def may_stand(self) -> Any:
        """Whether a placeholder can replace the present value."""
        attribute, now = self.attribute, self.attribute.get()
        attribute.stands = not attribute.is_container and (
            (attribute_placeholders.is_number(now) and type(now) is type(self.value)) or self.has_grown()
        )
        return attribute.stands

    def has_tensors(self) -> bool:
        """Whether the value, now or as it was read, contains tensors."""
        values = (self.value, self.attribute.get())
        return any(self.attribute.tensors(value, self.watched) for value in values)


class Watch:
    """Context that notes which attributes of some objects are read and written, and restores their values.

    `given` are attributes whose tensors are inputs, with the initial values, and `apart` the `id`s of
    parameters and buffers.
    Reads are noted if the function `is_traced`: one that runs without tracing reads the attributes at each
    call.
    """

    def __init__(
        self, objects: Any, given: Any = (), apart: Any = frozenset(), *, is_traced: bool = True
    ) -> None:
        self.objects = {key_of(one): one for one in objects}
        self.given, self.apart, self.is_traced = given, apart, is_traced
        self.guards: dict[Any, Guard] = {}
        self.written: list[Any] = []

    def __enter__(self) -> Any:
        self.originals = {
            attribute.key: containers.content(attribute.get()) if attribute.is_container else attribute.get()
            for attribute, _ in self.given
        }
        for attribute, value in self.given:
            attribute.set(value)
        self.before = {key: dict(vars(one)) for key, one in self.objects.items()}
        self.contents = {
            (key, name): containers.content(value)
            for key, held in self.before.items()
            for name, value in held.items()
            if isinstance(value, _CONTAINERS)
            and type(value) is not attribute_placeholders.AppendedItems
            and name not in reachable_modules.INTERNAL
        }
        self.watched = {
            id(value)
            for one in self.objects.values()
            if type(one) is captured_objects.Held
            for value in vars(one).values()
            if isinstance(value, _CONTAINERS)
        }
        self.nested = {at: containers.Nested(self.before[at[0]][at[1]], self.watched) for at in self.contents}
        self.elements: dict[Any, Any] = {}  # of tensors that may be written in place
        self.inputs = {
            id(tensor): tensor.jax() for attribute, value in self.given for tensor in attribute.tensors(value)
        }
        self.classes = []
        if not self.is_traced:
            for held in self.before.values():
                for name, value in held.items():
                    if name not in reachable_modules.INTERNAL:
                        self._note_elements(_tensors(value))
            return self
        for one in self.objects.values():
            if isinstance(one, attribute_owners.Container) and _tensors(one.content):
                self.guards[id(one), "content"] = Guard(Attribute(one, "content"), one.content)
        for one in self.objects.values():
            if type(one) is captured_objects.Held:
                for name, value in vars(one).items():
                    self._guard(one, name, value)
        others = {type(one) for one in self.objects.values() if not isinstance(one, torch.nn.Module)}
        others.discard(captured_objects.Held)
        for cls in [torch.nn.Module, *others]:
            if "__getattribute__" not in vars(cls):
                with contextlib.suppress(TypeError):  # classes written in C
                    cls.__getattribute__ = self._reading(cls.__getattribute__)
                    self.classes.append(cls)
        for one in self.objects.values():
            if not isinstance(one, (torch.nn.Module, captured_objects.Held, *self.classes)):
                for name, value in vars(one).items():  # whether it is read is not known
                    self._guard(one, name, value)
        return self

    def _reading(self, plain: Any) -> Any:
        def read(one: Any, name: Any) -> Any:
            try:
                value = plain(one, name)
            except AttributeError:
                self._read(one, name, _MISSING)
                raise
            self._read(one, name, value)
            return value

        return read

    def _read(self, one: Any, name: Any, value: Any) -> None:
        key = (id(one), name)
        if id(one) not in self.objects or name in reachable_modules.INTERNAL or key in self.guards:
            return
        held = object.__getattribute__(one, "__dict__")  # some dictionaries are their own
        if dict.get(held, name, _MISSING) is not self.before[id(one)].get(name, _MISSING):
            return  # it was written in this run
        if name not in held and not isinstance(value, _PLAIN) and value is not _MISSING:
            return  # a method, or an attribute of the class
        if name not in held and any(
            name in dict.get(held, part, ()) for part in ("_parameters", "_buffers", "_modules")
        ):
            return
        value = dict.get(held, name, _MISSING)
        # Not `isinstance`, which would read `__class__` of an object that passes for another one.
        is_module = issubclass(type(one), torch.nn.Module)
        if is_module and contents.is_of_torch(one) and not isinstance(value, _PLAIN):
            return  # not a setting
        self._guard(one, name, value)

    def _guard(self, one: Any, name: Any, value: Any) -> None:
        if type(value) is attribute_placeholders.AppendedItems:
            return
        if value is _MISSING or isinstance(value, _READ) or _tensors(value):
            self.guards[key_of(one), name] = guard = Guard(
                Attribute(one, name, self.apart), value, self.watched
            )
            self._note_elements(guard.attribute.tensors(value))

    def _note_elements(self, tensors: Any) -> None:
        for tensor in tensors:
            while isinstance(tensor, View):  # a write changes the tensor that it is a view of
                tensor = tensor.parent
            if isinstance(tensor, Tensor) and id(tensor) not in self.apart:
                self.elements.setdefault(id(tensor), (tensor, tensor.jax()))

    def __exit__(self, *_: Any) -> None:
        for cls in self.classes:
            del cls.__getattribute__
        for key, one in self.objects.items():
            held = vars(one)
            for name in {*held, *self.before[key]} - reachable_modules.INTERNAL:
                self._settle(Attribute(one, name), self.before[key].get(name, _MISSING))
        for attribute, value in self.given:
            if attribute.get() is value or attribute.is_container:
                attribute.set(self.originals[attribute.key])
            self.guards.pop(attribute.key, None)
        stood = {id(value): self.originals[attribute.key] for attribute, value in self.given}
        for guard in self.guards.values():
            guard.put_back(stood)
        self.put = []
        for tensor, element in self.elements.values():
            if tensor.jax() is not element and id(tensor) not in self.inputs:
                self.put.append((tensor, tensor.jax()))
                arrays.put(tensor, element)

    def _settle(self, attribute: Any, before: Any) -> None:
        """Note the new value of an attribute, and restore the old one."""
        value = attribute.get()
        if type(before) is attribute_placeholders.AppendedItems:
            items, before = before.items(), self.originals[attribute.key]
            if type(value) is attribute_placeholders.AppendedItems:
                if items:
                    leaves, shape = pytree.tree_flatten(tensor_objects.with_records(items, self.objects))
                    self.written.append(
                        (attribute, list(map(host_tensor_writes.replacement_of, leaves)), _End(shape))
                    )
                attribute.set(before)
                return
            if items:
                raise deferred_scalars.ValueNeededError(
                    f"it replaces {attribute}, a list that grows at each call"
                )
        content = self.contents.get(attribute.key)
        inputs = [tensor for tensor in _tensors(value) if id(tensor) in self.inputs]
        if (
            value is before
            and (content is None or containers.same(containers.content(value), content))
            and (content is None or self.nested[attribute.key].are_same(value))
            and all(_element(tensor) is self.inputs[id(tensor)] for tensor in inputs)
        ):
            return
        kept = containers.content(value) if value is before and content is not None else value
        kept = tensor_objects.with_records(kept, self.objects)
        leaves, shape = pytree.tree_flatten(kept) if value is not _MISSING else ([], None)
        self.written.append((attribute, list(map(host_tensor_writes.replacement_of, leaves)), shape))
        if content is not None:
            containers.refill(before, content)
        attribute.set(self.originals.get(attribute.key, before))

    def left(self) -> Any:
        """The tensors that were assigned to attributes."""
        return [leaf for _, leaves, _ in self.written for leaf in leaves if self._is_traced(leaf)]

    def results(self) -> Any:
        """The arrays that were assigned, or written in place."""
        return [*map(_element, self.left()), *(value for _, value in self.put)]

    def plan(self) -> Any:
        """Where `leave` has to assign the results."""
        written = [
            (
                attribute,
                [None if self._is_traced(leaf) else deferred_scalars.plain(leaf) for leaf in leaves],
                list(map(self._is_traced, leaves)),
                shape,
            )
            for attribute, leaves, shape in self.written
        ]
        return written, [tensor for tensor, _ in self.put]

    def _is_traced(self, leaf: Any) -> bool:
        is_tensor = isinstance(leaf, _KINDS) and id(leaf) not in self.apart
        return is_tensor and isinstance(_element(leaf), jax.core.Tracer)


class _End:
    """The structure of items that were appended to a list."""

    def __init__(self, items: Any) -> None:
        self.items = items


def assign(plan: Any, values: Any, guards: Any, numbers: Any) -> Any:
    """Assign the results of a function to the attributes that it wrote to, and return the tensors.

    Placeholders are replaced by `numbers`.
    Guards of containers are valid from then on.
    """
    written, tensors = plan
    values, made = iter(values), []
    for attribute, leaves, traced, shape in written:
        made += [arrays.tensor(next(values)) for new in traced if new]
        news = iter(made[len(made) - sum(traced) :])
        leaves = [
            next(news) if new else deferred_scalars.resolved(leaf, numbers)
            for leaf, new in zip(leaves, traced, strict=False)
        ]
        held = attribute.get()
        if isinstance(shape, _End):
            held.extend(tensor_objects.with_objects(pytree.tree_unflatten(leaves, shape.items)))
            continue
        value = (
            tensor_objects.with_objects(pytree.tree_unflatten(leaves, shape))
            if shape is not None
            else _MISSING
        )
        if isinstance(held, _CONTAINERS) and type(value) in (
            type(held),
            type(containers.content(held)),
        ):
            containers.refill(held, value)
        else:
            attribute.set(value)
    for one in tensors:
        arrays.put(one, next(values))
    for guard in guards:
        if guard.attribute.is_container:
            guard.__init__(guard.attribute, guard.value)
    return made


def values(attributes: Any) -> Any:
    """The inputs that attributes have: arrays of their tensors, and numbers."""
    found = []
    for attribute in attributes:
        leaves, given, _ = attribute.leaves()
        found += [
            x if attribute.stands else _element(x)
            for x, is_given in zip(leaves, given, strict=False)
            if is_given
        ]
    return found


def shapes(attributes: Any) -> Any:
    """The structures and shapes of attributes that a function is traced for."""
    found = []
    for attribute in attributes:
        leaves, given, shape = attribute.leaves()
        found.append((shape, [_kind_of(x) if new else id(x) for x, new in zip(leaves, given, strict=False)]))
    return found


def _kind_of(x: Any) -> Any:
    return (x.shape, x.dtype) if isinstance(x, _KINDS) else type(x)


def with_values(attributes: Any, values: Any) -> Iterator[Any]:
    """Attributes with values that have other tensors, or with placeholders for their values."""
    values, place = iter(values), 0
    for attribute in attributes:
        leaves, given, shape = attribute.leaves()
        count, place = place, place + sum(given)
        if attribute.stands and (shape is None or all(given)):
            yield (
                attribute,
                attribute_placeholders.placeholder(attribute.get(), next(values) if shape else None, count),
            )
            continue
        leaves = [arrays.tensor(next(values)) if new else x for x, new in zip(leaves, given, strict=False)]
        yield attribute, pytree.tree_unflatten(leaves, shape)


def _tensors(value: Any) -> Any:
    if isinstance(value, _KINDS):
        return [value]
    if not isinstance(value, (list, tuple, dict)) or (
        isinstance(value, tuple) and all(type(item) in _NUMBERS for item in value)
    ):
        return []
    try:
        return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, _KINDS)]
    except RecursionError:  # it contains itself, as a list of namespaces of files may
        return []


def _element(tensor: torch.Tensor) -> Any:
    return arrays.on_torchax(tensor).jax()


def _version(value: Any) -> Any:
    """What a write to a CPU tensor or to an array of NumPy changes; None for anything else.

    That is None for a tensor whose writes torch does not count, too.
    """
    if isinstance(value, np.ndarray):
        return value.tobytes() if value.nbytes <= _MOST_BYTES else None
    if not isinstance(value, torch.Tensor) or isinstance(value, _KINDS):
        return None
    with DisableTorchFunction():
        return None if value.is_inference() else value._version
