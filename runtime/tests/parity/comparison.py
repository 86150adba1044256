"""What operators give on the device, compared with torch on the host."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable

from .samples import SPECIAL, SPREAD, Operator

#: The relative and the absolute tolerance by dtype; all others are exact.
TOLERANCES = {
    torch.float32: (3e-5, 1e-5),
    torch.float64: (3e-5, 1e-5),
    torch.complex64: (3e-5, 1e-5),
    torch.float16: (2e-3, 1e-3),
    torch.bfloat16: (2e-2, 2e-2),
}
_EXACT = (0.0, 0.0)
#: Without 64 bits, JAX has 32.
_NARROWED = {torch.int64: torch.int32, torch.float64: torch.float32, torch.complex128: torch.complex64}


@functools.cache
def expected(operator: Operator, seed: int, how: str) -> tuple[list[Any], list[Any]]:
    """The results of torch for each call, and the gradients of its inputs."""
    results, gradients = [], []
    for arguments in operator.draw(seed, how):
        given = [_with_gradient(one) for one in arguments]
        with _disable_current_modes():
            result = operator.function(*given)
            outputs = _differentiated(result)
            inputs = _learned(given)
            made = (
                torch.autograd.grad(outputs, inputs, _weights(outputs), allow_unused=True)
                if outputs and inputs
                else []
            )
        results.append(_on_host(result))
        gradients.append([_or_zeros(one, x) for one, x in zip(made, inputs, strict=False)])
    return results, gradients


def is_differentiable(operator: Operator) -> bool:
    """Whether any result of an operator has a gradient in torch; also if the operator raises, as its tests show."""
    try:
        return any(gradients for gradients in expected(operator, 0, SPREAD)[1])
    except Exception:
        return True


def eager(operator: Operator, seed: int, how: str) -> list[Any]:
    """The results of the device for the first call."""
    arguments = operator.draw(seed, how)[0]
    return [_on_host(operator.function(*map(_on_device, arguments)))]


@functools.cache
def compiled(operator: Operator) -> differentiable:
    """All calls of an operator, compiled as one function."""

    def calls(given: list[list[Any]]) -> list[Any]:
        return [operator.function(*arguments) for arguments in given]

    return differentiable(calls)


@functools.cache
def compiled_results(operator: Operator, seed: int, how: str) -> tuple[list[Any], list[Any]]:
    """The results of the compiled calls on the device, and the gradients of their inputs."""
    given = [
        [_with_gradient(_on_device(one)) for one in arguments] for arguments in operator.draw(seed, how)
    ]
    results = compiled(operator)(given)
    outputs = _differentiated(results)
    by_call = [_weights(_differentiated(result)) for result in results]
    weights = [one.to("jax") for one in pytree.tree_leaves(by_call)]
    if outputs and how != SPECIAL:
        torch.autograd.backward(outputs, weights)
    gradients = [[_or_zeros(one.grad, one) for one in _learned(arguments)] for arguments in given]
    return [_on_host(result) for result in results], gradients


def assert_same_calls(due: list[Any], found: list[Any], where: str) -> None:
    """The results of each call are the same."""
    for number, (one, other) in enumerate(zip(due, found, strict=True)):
        assert_same(one, other, f"{where}, call {number}")


def assert_same_gradients(due: list[Any], found: list[Any], where: str) -> None:
    """The gradients of each call are the same where torch's are finite."""
    finite = [[one.isfinite() for one in gradients] for gradients in due]
    masked = [
        [
            [one.where(at, 0) for one, at in zip(gradients, mask, strict=True)]
            for gradients, mask in zip(calls, finite, strict=True)
        ]
        for calls in (due, found)
    ]
    assert_same_calls(*masked, where)


def assert_same(due: Any, found: Any, where: str) -> None:
    """The same structure of the same types; tensors have the same shape and dtype, and nearly the same values.

    The least precise dtype of a result decides for all of it.
    """
    due_leaves, due_tree = pytree.tree_flatten(due)
    found_leaves, found_tree = pytree.tree_flatten(found)
    assert len(due_leaves) == len(found_leaves), (where, due_tree, found_tree)
    tolerance = max((TOLERANCES.get(one.dtype, _EXACT) for one in due_leaves if _is_float(one)), default=_EXACT)
    for one, other in zip(due_leaves, found_leaves, strict=True):
        if not isinstance(one, torch.Tensor):
            assert (type(one), one) == (type(other), other), where
            continue
        assert isinstance(other, torch.Tensor), where
        dtype = _NARROWED.get(one.dtype, one.dtype)
        assert (tuple(one.shape), dtype) == (tuple(other.shape), other.dtype), where
        rtol, atol = tolerance if _is_float(one) else (0, 0)
        torch.testing.assert_close(
            other,
            one.to(dtype),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            msg=lambda text: f"{where}: {text}\ndue: {one}\nfound: {other}",
        )


def _is_float(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex())


def _with_gradient(value: Any) -> Any:
    return value.requires_grad_() if _is_float(value) else value


def _learned(arguments: list[Any]) -> list[torch.Tensor]:
    return [one for one in arguments if _is_float(one)]


def _differentiated(result: Any) -> list[torch.Tensor]:
    return [one for one in pytree.tree_leaves(result) if _is_float(one) and one.requires_grad]


def _weights(outputs: list[torch.Tensor]) -> list[torch.Tensor]:
    """Numbers from 0.5 to 1.5, one for each element."""
    return [
        torch.linspace(0.5, 1.5, one.numel(), dtype=torch.float32).reshape(one.shape).to(one.dtype)
        for one in outputs
    ]


def _or_zeros(gradient: torch.Tensor | None, like: torch.Tensor) -> torch.Tensor:
    """A gradient on the host; some of torch's are tensors of zeros without memory, until they are added to others."""
    zeros = torch.zeros(like.shape, dtype=like.dtype)
    return zeros if gradient is None else zeros + gradient.detach().cpu()


def _on_device(value: Any) -> Any:
    return value.to("jax") if isinstance(value, torch.Tensor) else value


def _on_host(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda one: one.detach().cpu(), values)
