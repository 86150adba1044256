"""What `DistributedDataParallel` and sharded modules have in common on several processes.

Their parameters are those of process 0 from the start.
After each backward pass that reaches one of them, the gradients are averaged over the processes, and the
buffers become those of rank 0, which `DistributedDataParallel` sends to the others before the next forward
pass.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable
from typing import Any

import torch
from torchax.tensor import Tensor

from .. import ranks
from ..autograd.deferred_step import Plan
from ..patches import application
from ..ranks import between_processes
from ..tensor import arrays

_modules: weakref.WeakKeyDictionary[torch.nn.Module, _Kept] = weakref.WeakKeyDictionary()


class _Kept:
    """How a module is kept the same on all processes."""

    def __init__(self, *, sends_buffers: bool, may_be_unused: bool) -> None:
        self.sends_buffers, self.may_be_unused = sends_buffers, may_be_unused


def synchronize(module: torch.nn.Module, *, sends_buffers: bool, may_be_unused: bool = False) -> None:
    """Give a module the parameters and buffers of process 0, and average its gradients from now on.

    Args:
        module: the module; an attribute `require_backward_grad_sync` of it says when not to average.
        sends_buffers: whether it has the buffers of process 0 after each backward pass.
        may_be_unused: whether some processes may have gradients of parameters that others have not.
    """
    if ranks.processes() == 1:
        return
    with torch.no_grad():
        _take_from_first([*module.parameters(), *module.buffers()])
    _modules[module] = _Kept(sends_buffers=sends_buffers, may_be_unused=may_be_unused)


def _take_from_first(tensors: list[torch.Tensor]) -> None:
    """Give tensors the values of process 0."""
    on_device = [one for one in tensors if isinstance(one, Tensor)]
    on_host = [one for one in tensors if not isinstance(one, Tensor)]
    values = between_processes.of_process(0, list(map(arrays.array_of, on_device)))
    for tensor, value in zip(on_device, values, strict=True):
        arrays.put(tensor, value)
    if on_host:
        sent = [one.detach().numpy() for one in on_host] if ranks.process() == 0 else None
        for tensor, number in zip(on_host, between_processes.exchanged(sent)[0], strict=True):
            tensor.copy_(torch.from_numpy(number))


def _gradient_arrays(module: torch.nn.Module) -> dict[int, Any]:
    """By the `id` of a parameter, the array of its gradient."""
    gradients = ((id(one), one.grad) for one in module.parameters())
    return {key: arrays.array_of(one) for key, one in gradients if isinstance(one, Tensor)}


def _have_changed(module: torch.nn.Module, before: dict[int, Any]) -> bool:
    return any(value is not before.get(key) for key, value in _gradient_arrays(module).items())


def _average(modules: list[torch.nn.Module]) -> None:
    """Average the gradients of modules over the processes."""
    learned = {id(one): one for module in modules for one in module.parameters() if one.requires_grad}
    for module in modules:
        if _modules[module].may_be_unused:
            _have_gradients_of_all(list(module.parameters()))
    gradients = [one.grad for one in learned.values() if isinstance(one.grad, Tensor)]
    values = between_processes.averaged([arrays.array_of(one) for one in gradients])
    for gradient, value in zip(gradients, values, strict=True):
        arrays.put(gradient, value)
    sent = [one for module in modules if _modules[module].sends_buffers for one in module.buffers()]
    _take_from_first([one for one in sent if isinstance(one, Tensor)])


def _have_gradients_of_all(parameters: list[torch.nn.Parameter]) -> None:
    """Let parameters that have a gradient on another process only have zeros as theirs."""
    used = between_processes.exchanged([one.grad is not None for one in parameters])
    for one, are_used in zip(parameters, zip(*used, strict=True), strict=True):
        if any(are_used) and one.grad is None:
            one.grad = torch.zeros_like(one)


def _averaging(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's backward pass, with averages of the gradients at its end."""

    @functools.wraps(run_backward)
    def run(*args: Any, **kwargs: Any) -> Any:
        modules = [one for one in _modules if getattr(one, "require_backward_grad_sync", True)]
        before = list(map(_gradient_arrays, modules))
        result = run_backward(*args, **kwargs)
        reached = [one for one, known in zip(modules, before, strict=True) if _have_changed(one, known)]
        with torch.no_grad():
            _average(reached)
        return result

    return run


def _start() -> Callable[[], None]:
    if ranks.processes() == 1:
        return lambda: None
    owner, name = application.owner_of("torch.autograd:_engine_run_backward")
    undone = application.replace([(owner, name, _averaging(getattr(owner, name)))])
    # A recorded step has no gradients between its backward pass and its optimizer.
    undone += application.replace([(Plan, "is_possible", False)])

    def end() -> None:
        application.restore(undone)
        _modules.clear()

    return end


ranks.STARTS.append(_start)
