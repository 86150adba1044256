"""Parameters on several processes.

Those of `DistributedDataParallel` and of sharded modules are those of process 0 from the start.
After each backward pass, the gradients of the parameters that it reaches are averaged over the processes, as
they are over the ranks of one process.
The buffers of `DistributedDataParallel` become those of rank 0, which the original sends to the others before
the next forward pass.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torchax.tensor import Tensor

from .. import ranks
from ..patches import application
from ..ranks import agreements, between_processes
from ..tensor import arrays

_modules: weakref.WeakKeyDictionary[torch.nn.Module, _Kept] = weakref.WeakKeyDictionary()


class _Kept:
    """How a module is kept the same on all processes."""

    def __init__(self, *, sends_buffers: bool, may_be_unused: bool) -> None:
        self.sends_buffers, self.may_be_unused = sends_buffers, may_be_unused


def synchronize(module: torch.nn.Module, *, sends_buffers: bool, may_be_unused: bool = False) -> None:
    """Give a module the parameters and buffers of process 0.

    Args:
        module: the module; its attribute `require_backward_grad_sync` says when not to average gradients.
        sends_buffers: whether it has the buffers of process 0 after each backward pass.
        may_be_unused: whether some processes may have gradients of parameters that others have not.
    """
    if ranks.processes() == 1:
        return
    tensors = [*module.parameters(), *module.buffers()]
    with torch.no_grad():
        _take_from_first([one for one in tensors if not between_processes.is_shared(_array(one))])
    _modules[module] = _Kept(sends_buffers=sends_buffers, may_be_unused=may_be_unused)


def _take_from_first(tensors: list[torch.Tensor]) -> None:
    """Give tensors the values of process 0."""
    on_device = [one for one in tensors if isinstance(one, Tensor)]
    on_host = [one for one in tensors if not isinstance(one, Tensor)]
    values = between_processes.of_process(0, list(map(arrays.array_of, on_device)))
    for tensor, value in zip(on_device, values, strict=True):
        arrays.put(tensor, value)
    if on_host:
        sent = [one.detach() for one in on_host] if ranks.process() == 0 else None
        for tensor, value in zip(on_host, between_processes.exchanged(sent)[0], strict=True):
            tensor.copy_(value)


def _reached(outputs: Any) -> list[torch.nn.Parameter]:
    """The parameters that a backward pass from some tensors reaches."""
    waiting = [one.grad_fn for one in outputs if one.grad_fn is not None]
    found: dict[int, torch.nn.Parameter] = {}
    known = set(waiting)
    while waiting:
        node = waiting.pop()
        if isinstance(getattr(node, "variable", None), torch.nn.Parameter):
            found[id(node.variable)] = node.variable
        new = dict.fromkeys(after for after, _ in node.next_functions if after not in known)
        waiting += [after for after in new if after is not None]
        known |= new.keys()
    return list(found.values())


def _array(tensor: torch.Tensor | None) -> Any:
    return arrays.array_of(tensor) if isinstance(tensor, Tensor) else None


def _modules_of(learned: Sequence[torch.Tensor]) -> list[torch.nn.Module]:
    """The modules that are kept the same, and that have some of the parameters."""
    ids = set(map(id, learned))
    return [module for module in _modules if any(id(one) in ids for one in module.parameters())]


def _are_averaged(module: torch.nn.Module) -> bool:
    """Whether gradients are averaged now, not in a later backward pass."""
    return bool(getattr(module, "require_backward_grad_sync", True))


def _sent(modules: Sequence[torch.nn.Module]) -> list[torch.Tensor]:
    """The buffers that become those of process 0 after a backward pass."""
    senders = [module for module in modules if _modules[module].sends_buffers and _are_averaged(module)]
    return [one for module in senders for one in module.buffers() if isinstance(one, Tensor)]


def _in_order(modules: Sequence[torch.nn.Module], chosen: set[int]) -> list[torch.Tensor]:
    """The parameters with some `id`s in the order of their modules, which is the same on all processes."""
    found = {id(one): one for module in modules for one in module.parameters()}
    return [one for number, one in found.items() if number in chosen]


def combined(learned: Sequence[torch.Tensor]) -> tuple[list[torch.Tensor], list[torch.Tensor]] | None:
    """The parameters whose gradients are averaged after a backward pass, and the buffers that are sent.

    None if other parameters learn than those of modules that are kept the same, or if what is averaged
    depends on what other processes have computed.
    """
    modules = _modules_of(learned)
    if any(_modules[module].may_be_unused for module in modules):
        return None
    ids = set(map(id, learned))
    if len(_in_order(modules, ids)) != len(ids):
        return None
    later = {id(one) for module in modules if not _are_averaged(module) for one in module.parameters()}
    return _in_order(modules, ids - later), _sent(modules)


def _average(learned: list[torch.nn.Parameter]) -> None:
    """Average the gradients of parameters over the processes, unless a module does so later."""
    reached = {id(one): one for one in learned}
    modules = _modules_of(learned)
    for module in modules:
        own = list(module.parameters())
        if not _are_averaged(module):
            for one in own:
                reached.pop(id(one), None)
        elif _modules[module].may_be_unused:
            reached |= {id(one): one for one in _used(own)}
    first = {id(one): one for one in _in_order(modules, set(reached))}
    gradients = [one.grad for one in {**first, **reached}.values() if isinstance(one.grad, Tensor)]
    gradients = [one for one in gradients if not between_processes.is_shared(_array(one))]
    sent = _sent(modules)
    if gradients or sent:
        agreements.outcome(None)
    values = between_processes.averaged(list(map(_array, gradients)))
    for gradient, value in zip(gradients, values, strict=True):
        arrays.put(gradient, value)
    _take_from_first(sent)


def _used(parameters: list[torch.nn.Parameter]) -> list[torch.nn.Parameter]:
    """The parameters that have a gradient on any process, and zeros as theirs on the others."""
    known = between_processes.exchanged([one.grad is not None for one in parameters])
    used = [one for one, are_used in zip(parameters, zip(*known, strict=True), strict=True) if any(are_used)]
    for one in used:
        if one.grad is None:
            one.grad = torch.zeros_like(one)
    return used


def _averaging(run_backward: Callable[..., Any]) -> Callable[..., Any]:
    """PyTorch's backward pass, with averages of the gradients at its end."""

    @functools.wraps(run_backward)
    def run(outputs: Any, *args: Any, **kwargs: Any) -> Any:
        learned = _reached(outputs)
        before = [_array(one.grad) for one in learned]
        result = run_backward(outputs, *args, **kwargs)
        changed = [one for one, value in zip(learned, before, strict=True) if _array(one.grad) is not value]
        with torch.no_grad():
            _average(changed)
        return result

    return run


def _start() -> Callable[[], None]:
    if ranks.processes() == 1:
        return lambda: None
    owner, name = application.owner_of("torch.autograd:_engine_run_backward")
    undone = application.replace([(owner, name, _averaging(getattr(owner, name)))])

    def end() -> None:
        application.restore(undone)
        _modules.clear()

    return end


ranks.STARTS.append(_start)
