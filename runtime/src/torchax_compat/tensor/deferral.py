"""A training step that is recorded and not computed yet.

The forward pass of a compiled function, the backward pass and the step of the optimizer are one XLA program
if nothing needs the results of one before the next is called.
So the results of such a call have no array at first: their `_elem` is missing until something reads it, which
computes what was recorded.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence, Set
from typing import Any, Protocol

import torch
import torchax
from torchax.tensor import RuntimeProperty, Tensor

from ..adapters.torch_internals import DisableTorchFunction, tensor_gradient
from ..patches.declarations import TORCHAX, patch
from . import array_groups


class Recorded(Protocol):
    """A step whose parts are recorded."""

    def settle(self) -> None:
        """Compute what is recorded so far."""

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

    def norm(self, gradients: Any, norm_type: float) -> Tensor | None:
        """The norm of gradients, which is computed later; None if it has to be computed at once."""

    def clip(self, gradients: Any, most: float, norm: torch.Tensor) -> bool:
        """Record that gradients are clipped by a norm that is computed later; whether that can be."""


#: The step that is recorded at present.
current: Recorded | None = None
#: By the `id` of a tensor: the tensor, and its gradient from a backward pass that was recorded. PyTorch does
#: not have these gradients: to give it each one and to take it away again would take longer than a step.
gradients: dict[int, tuple[torch.Tensor, Tensor]] = {}

#: How often PyTorch may have got gradients or hooks, which recorded passes do not know.
changes = 0
#: The `id`s of tensors of which PyTorch had no gradient, and `changes` at that time.
_without: tuple[frozenset[int], int] = frozenset(), 0


def note_change() -> None:
    """Note that PyTorch may have got a gradient, or a hook on one."""
    global changes
    changes += 1


def settle() -> None:
    """Compute what is recorded."""
    if current is not None:
        current.settle()


class _Kind:
    """The shape and dtype of an array that is computed later."""

    def __init__(self, shape: Any, dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def waiting(shape: Any, dtype: Any) -> Tensor:
    """A tensor whose array is computed later."""
    made = Tensor(_Kind(shape, dtype), torchax.default_env())
    del vars(made)["_elem"]
    return made


def is_waiting(values: Any) -> bool:
    """Whether the array of a tensor among arguments of a function is computed later."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if is_waiting(value):
                return True
        elif type(value) is Tensor and "_elem" not in vars(value) and not array_groups.is_kept(value):
            return True
    return False


def computed(tensor: torch.Tensor) -> Any:
    """The array of a tensor that has none yet."""
    array_groups.release(tensor)
    if "_elem" not in vars(tensor):
        settle()
        array_groups.release(tensor)
    return vars(tensor)["_elem"]


def hand_over() -> None:
    """Give PyTorch the gradients that it does not have, for its own backward pass."""
    settle()
    kept = list(gradients.values())
    hide(gradients.keys())
    note_change()
    with DisableTorchFunction():
        for tensor, gradient in kept:
            vars(gradient)["is_given"] = True  # PyTorch holds it, too
            tensor_gradient.__set__(tensor, gradient)


def without_gradient(tensors: Sequence[torch.Tensor]) -> bool:
    """Whether PyTorch has no gradient of any of the tensors."""
    global _without
    get = tensor_gradient.__get__
    with DisableTorchFunction():
        if not all(get(tensor) is None for tensor in tensors):
            return False
    _without = frozenset(map(id, tensors)), changes
    return True


def with_gradients(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """Those of the tensors that have a gradient."""
    if gradients and all(map(gradients.__contains__, map(id, tensors))):
        return tensors
    get = tensor_gradient.__get__
    with DisableTorchFunction():
        return [one for one in tensors if id(one) in gradients or get(one) is not None]


def recorded_gradients(tensors: list[torch.Tensor]) -> list[torch.Tensor] | None:
    """The gradients of tensors from a recorded backward pass; None if one of them has another or none."""
    found = list(map(gradients.get, map(id, tensors)))
    return None if None in found else [pair[1] for pair in found if pair is not None]


def gradients_of(tensors: list[torch.Tensor]) -> list[torch.Tensor]:
    """The gradients of those of the tensors that have one."""
    found = recorded_gradients(tensors)
    return [one.grad for one in tensors if one.grad is not None] if found is None else found


def show(shown: dict[int, tuple[torch.Tensor, Tensor]]) -> None:
    """Let tensors have gradients that are computed later."""
    global gradients
    gradients = {**gradients, **shown} if gradients else shown


def hide(ids: Set[int]) -> None:
    """Let tensors with these `id`s have the gradients that PyTorch has."""
    global gradients
    if gradients and gradients.keys() <= ids:
        gradients = {}
    elif gradients:
        gradients = {one: pair for one, pair in gradients.items() if one not in ids}


@contextlib.contextmanager
def having(others: dict[int, tuple[torch.Tensor, Tensor]]) -> Iterator[None]:
    """Let tensors have other gradients from recorded backward passes for a while."""
    global gradients
    before, gradients = gradients, others
    try:
        yield
    finally:
        gradients = before


def drop(tensors: list[torch.Tensor]) -> None:
    """Set the gradients of tensors to None."""
    ids = set(map(id, tensors))
    hide(ids)
    known, since = _without
    if since == changes and ids <= known:
        return
    get, set_ = tensor_gradient.__get__, tensor_gradient.__set__
    with DisableTorchFunction():  # torch would call it for each gradient
        for one in tensors:
            if get(one) is not None:
                set_(one, None)


@contextlib.contextmanager
def holding(tensor: torch.Tensor, array: Any) -> Iterator[None]:
    """Let a tensor have another array for a while; what is recorded is not computed for that."""
    source = getattr(tensor, "_of", tensor)
    array_groups.release(source)
    held = vars(source)
    before = held.get("_elem", held)
    source._elem = array
    try:
        yield
    finally:
        if before is held:
            del held["_elem"]
        else:
            source._elem = before


def _gradient(tensor: torch.Tensor) -> Any:
    """`tensor.grad`."""
    known = gradients.get(id(tensor))
    if known is not None:
        return known[1]
    with DisableTorchFunction():
        return tensor_gradient.__get__(tensor)


def _set_gradient(tensor: torch.Tensor, value: Any) -> None:
    """`tensor.grad = value`."""
    if id(tensor) in gradients:
        hide({id(tensor)})
    if value is not None:
        vars(value)["is_given"] = True
        note_change()
    with DisableTorchFunction():
        tensor_gradient.__set__(tensor, value)


def _remove_gradient(tensor: torch.Tensor) -> None:
    """`del tensor.grad`."""
    _set_gradient(tensor, None)


patch(
    "torchax.tensor:Tensor.grad",
    why="The gradients of a recorded backward pass are not among those that PyTorch has.",
    upstream=TORCHAX + "tensor.py",
)(property(_gradient, _set_gradient, _remove_gradient))


def _key(state: RuntimeProperty) -> Any:
    """The random key of the environment."""
    if "prng" not in vars(state):
        settle()
    return vars(state)["prng"]


def _set_key(state: RuntimeProperty, key: Any) -> None:
    vars(state)["prng"] = key


def wait_for_key() -> RuntimeProperty:
    """Let whatever reads the random key wait for what is recorded; returns what holds the key."""
    state: RuntimeProperty = torchax.default_env().param
    del vars(state)["prng"]
    return state


patch(
    "torchax.tensor:RuntimeProperty.prng",
    why="The random key after a recorded forward pass is computed later.",
    upstream=TORCHAX + "tensor.py",
    is_new=True,
)(property(_key, _set_key))
