"""Declarations of the changes to torch, torchax and JAX.

A module of the runtime declares its patches when it is imported; nothing changes until `enable()`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

#: Where the sources of torch and torchax are, for `upstream`.
TORCH = "https://github.com/pytorch/pytorch/blob/main/torch/"
TORCHAX = "https://github.com/google/torchax/blob/main/torchax/"

_Value = TypeVar("_Value")
_Run = TypeVar("_Run", bound=Callable[[], Callable[[], None]])


@dataclass(frozen=True, slots=True)
class Patch:
    """An attribute of another package that `enable()` replaces.

    Attributes:
        target: the module, a colon, and the attribute in it: `"torch.nn:Module.to"`.
        value: the new value of the attribute.
        why: what is wrong or slow without the patch.
        upstream: address of the issue or of the code upstream that makes the patch necessary, or "".
        is_new: whether the attribute does not exist without the patch.
    """

    target: str
    value: Any
    why: str
    upstream: str = ""
    is_new: bool = False


@dataclass(frozen=True, slots=True)
class Operator:
    """An implementation of a torch operator that `enable()` registers with torchax.

    Attributes:
        operation: the operator, such as `torch.ops.aten.ldexp`.
        function: computes it, on JAX arrays or on torch tensors.
        options: how torchax calls the function: fields of its `Operator`.
        why: what is wrong or missing without it.
    """

    operation: Any
    function: Callable[..., Any]
    options: dict[str, bool]
    why: str


@dataclass(frozen=True, slots=True)
class Setup:
    """A setting that `enable()` makes; `run` makes it, and returns a function that takes it back."""

    name: str
    run: Callable[[], Callable[[], None]]
    why: str


class DuplicatePatchError(Exception):
    """Two patches were declared for the same target."""


PATCHES: dict[str, Patch] = {}
OPERATORS: dict[Any, Operator] = {}
SETUPS: dict[str, Setup] = {}


def patch(target: str, *, why: str, upstream: str = "", is_new: bool = False) -> Callable[[_Value], _Value]:
    """Decorator that declares a function, class or descriptor as the new value of an attribute.

    Args:
        target: the module, a colon, and the attribute in it: `"torch.nn:Module.to"`.
        why: what is wrong or slow without the patch.
        upstream: address of the issue or of the code upstream that makes the patch necessary.
        is_new: whether the attribute does not exist without the patch.

    Raises:
        DuplicatePatchError: the target has a patch already.
    """

    def declare(value: _Value) -> _Value:
        if target in PATCHES:
            raise DuplicatePatchError(target)
        PATCHES[target] = Patch(target, value, why, upstream, is_new)
        return value

    return declare


def operator(function: Callable[..., Any], *operations: Any, why: str = "", **options: bool) -> None:
    """Declare that a function computes operators of torch.

    Args:
        function: computes them, on JAX arrays or, with `is_jax_function=False`, on torch tensors.
        operations: the operators.
        why: what is wrong or missing without it.
        options: fields of torchax's `Operator`.

    Raises:
        DuplicatePatchError: one of the operators has an implementation already.
    """
    for operation in operations:
        if operation in OPERATORS:
            raise DuplicatePatchError(str(operation))
        OPERATORS[operation] = Operator(operation, function, options, why)


def setup(name: str, *, why: str) -> Callable[[_Run], _Run]:
    """Decorator that declares a setting; the function makes it, and returns one that takes it back.

    Args:
        name: what is set, such as `"jax_compilation_cache_dir"`.
        why: what is wrong or slow without it.

    Raises:
        DuplicatePatchError: there is a setting of this name already.
    """

    def declare(run: _Run) -> _Run:
        if name in SETUPS:
            raise DuplicatePatchError(name)
        SETUPS[name] = Setup(name, run, why)
        return run

    return declare
