"""What operators give on the device, compared with torch on the host."""

from __future__ import annotations

import contextlib
import functools
import warnings
from typing import Any, NamedTuple

import jax
import torch
import torchax
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable

from .samples import SPECIAL, SPREAD, Operator


class Results(NamedTuple):
    """The results of each call of an operator, the gradients of its inputs, and whether it is compiled."""

    values: list[Any]
    gradients: list[Any]
    is_compiled: bool = False


Batch = tuple[Operator, ...]
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
def expected(operator: Operator, seed: int, how: str) -> Results:
    """The results of torch for each call, and the gradients of its inputs."""
    results: list[Any] = []
    gradients: list[Any] = []
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
    return Results(results, gradients)


def is_differentiable(operator: Operator) -> bool:
    """Whether a result of an operator has a gradient in torch, or the operator raises, as its tests show."""
    try:
        return any(gradients for gradients in expected(operator, 0, SPREAD).gradients)
    except Exception:
        return True


def eager(operator: Operator, seed: int, how: str) -> list[Any]:
    """The results of the device for the first call."""
    arguments = operator.draw(seed, how)[0]
    return [_on_host(operator.function(*map(_on_device, arguments)))]


def compiled_results(operator: Operator, batch: Batch, seed: int, how: str) -> Results:
    """The results of the compiled calls on the device, and the gradients of their inputs.

    Args:
        operator: the operator.
        batch: operators that JAX compiles as one function, which takes less time than to compile each.
            If that fails, the operator is compiled alone.
        seed: the seed of the arguments.
        how: how they are drawn.
    """
    if operator in batch:
        with contextlib.suppress(Exception):
            return batch_results(batch, seed, how)[operator]
    return batch_results((operator,), seed, how)[operator]


def trace(operator: Operator) -> None:
    """Let JAX trace the calls of an operator."""
    for arguments in operator.draw(0, SPREAD):
        tensors, tree = pytree.tree_flatten(list(map(_on_device, arguments)))
        arrays = [one.jax() for one in tensors if isinstance(one, torch.Tensor)]
        jax.eval_shape(functools.partial(_call, operator, tensors, tree), arrays)


def _call(operator: Operator, leaves: list[Any], tree: Any, arrays: list[Any]) -> None:
    traced = iter(torchax.interop.torch_view(arrays))
    given = [next(traced) if isinstance(one, torch.Tensor) else one for one in leaves]
    operator.function(*pytree.tree_unflatten(given, tree))


@functools.cache
def compiled(batch: Batch) -> differentiable:
    """All calls of some operators, compiled as one function."""

    def calls(given: list[list[list[Any]]]) -> list[list[Any]]:
        return [
            [operator.function(*arguments) for arguments in calls]
            for operator, calls in zip(batch, given, strict=True)
        ]

    return differentiable(calls)


@functools.cache
def batch_results(batch: Batch, seed: int, how: str) -> dict[Operator, Results]:
    """The results of compiled operators, and the gradients of their inputs.

    Raises:
        AssertionError: the function with all of them runs call by call, as one of them does.
    """
    given = [
        [[_with_gradient(_on_device(one)) for one in arguments] for arguments in operator.draw(seed, how)]
        for operator in batch
    ]
    function = compiled(batch)
    with warnings.catch_warnings(action="ignore"):
        results = function(given)
    is_compiled = function.compiled_function.is_compiled
    assert is_compiled or len(batch) == 1
    outputs = _differentiated(results)
    if outputs and how != SPECIAL:
        by_call = [_weights(_differentiated(result)) for calls in results for result in calls]
        torch.autograd.backward(outputs, [one.to("jax") for one in pytree.tree_leaves(by_call)])
    made = {}
    for operator, calls, called in zip(batch, results, given, strict=True):
        gradients = [[_or_zeros(one.grad, one) for one in _learned(arguments)] for arguments in called]
        made[operator] = Results([_on_host(result) for result in calls], gradients, is_compiled)
    return made


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
    """Results are the same; tensors have the same shape and dtype, and nearly the same values.

    The least precise dtype of a result decides for all of it.
    """
    due_leaves, due_tree = pytree.tree_flatten(due)
    found_leaves, found_tree = pytree.tree_flatten(found)
    assert len(due_leaves) == len(found_leaves), (where, due_tree, found_tree)
    tolerance = max(
        (TOLERANCES.get(one.dtype, _EXACT) for one in due_leaves if _is_float(one)), default=_EXACT
    )
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
            msg=functools.partial(
                "{where}: {}\ndue: {due}\nfound: {found}".format, where=where, due=one, found=other
            ),
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
    """A gradient on the host; torch's zeros may have no memory until they are added to other numbers."""
    zeros = torch.zeros(like.shape, dtype=like.dtype)
    return zeros if gradient is None else zeros + gradient.detach().cpu()


def _on_device(value: Any) -> Any:
    return value.to("jax") if isinstance(value, torch.Tensor) else value


def _on_host(values: Any) -> Any:
    return pytree.tree_map_only(torch.Tensor, lambda one: one.detach().cpu(), values)
