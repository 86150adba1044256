"""A function under torchax beside the same function in plain torch on the host."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: ICN001

from __future__ import annotations

import contextlib
import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable

Function = Callable[..., Any]


def assert_same_as_torch(
    function: Function,
    *args: Any,
    batches: Sequence[tuple[Any, ...]] = ((),) * 3,
    is_compiled: bool = True,
    decorate: Function = differentiable,
) -> Any:
    """Train by `function` on both, one step for each batch: losses, gradients and modules are equal.

    The function is called with copies of `args`, then those of a batch; its result, or the first item of
    that, is the loss.
    Decorated for the device it is compiled as a whole if `is_compiled`; the decorated one is returned.
    """
    decorated = decorate(function)
    with plain_torch():
        expected = trained(function, args, batches, "cpu")
    actual = trained(decorated, args, batches, "jax")
    for number, (due, found) in enumerate(zip(expected, actual, strict=True)):
        assert_equal(due, found, f"step {number}")
    assert is_compiled == decorated.compiled_function.is_compiled
    return decorated


@contextlib.contextmanager
def plain_torch() -> Iterator[None]:
    """Torch as it is without torchax, also on the way back."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        yield


def trained(function: Function, args: Any, batches: Sequence[tuple[Any, ...]], device: str) -> list[Any]:
    """The results and the gradients of each step, and what the modules and the arguments are at the end."""
    args, batches = moved(copy.deepcopy((args, list(batches))), device)
    leaves, found = pytree.tree_leaves((args, batches)), []
    modules = [leaf for leaf in leaves if isinstance(leaf, torch.nn.Module)]
    learned = [p for module in modules for p in module.parameters()]
    learned += [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]
    for number, batch in enumerate(batches):
        torch.manual_seed(number)
        result = function(*args, *batch)
        loss = result if isinstance(result, torch.Tensor) else pytree.tree_leaves(result)[0]
        loss.backward()
        found.append((copied(result), [copied(p.grad) for p in learned]))
        with torch.no_grad():
            for p in learned:
                if p.grad is not None:
                    p -= 0.1 * p.grad
                p.grad = None
    found.append((copied([module.state_dict() for module in modules]), copied((args, batches))))
    return found


def moved(values: Any, device: str) -> Any:
    """Arguments with modules and tensors on a device."""

    def move(leaf):
        if isinstance(leaf, torch.nn.Module):
            return leaf.to(device)
        if isinstance(leaf, torch.Tensor):
            return leaf.detach().to(device).requires_grad_(leaf.requires_grad)
        return leaf

    return pytree.tree_map(move, values)


def copied(values: Any) -> Any:
    """Tensors as copies on the host, and all else but modules as it is."""

    def copy_of(leaf):
        if isinstance(leaf, torch.nn.Module):
            return type(leaf).__name__
        return leaf.detach().cpu().clone() if isinstance(leaf, torch.Tensor) else leaf

    return pytree.tree_map(copy_of, values)


def assert_equal(expected: Any, actual: Any, where: str = "") -> None:
    """The same structure with the same values, of floats nearly."""
    due, tree = pytree.tree_flatten(expected)
    found, other = pytree.tree_flatten(actual)
    assert tree == other, where
    for one, another in zip(due, found, strict=True):
        if isinstance(one, torch.Tensor):
            assert isinstance(another, torch.Tensor), where
            # Without 64 bits whole numbers of the device have 32.
            assert one.is_floating_point() == another.is_floating_point(), where
            one, another = one.detach().cpu(), another.detach().cpu()
            torch.testing.assert_close(
                another,
                one,
                rtol=1e-4,
                atol=1e-5,
                equal_nan=True,
                check_dtype=one.is_floating_point(),
                msg=lambda text: f"{where}: {text}",
            )
        elif isinstance(one, float):
            assert pytest.approx(one, rel=1e-4, abs=1e-5) == another, where
        elif isinstance(one, numpy.ndarray):
            numpy.testing.assert_allclose(another, one, rtol=1e-4)
        else:
            assert one == another, where
