"""Runs a user's module or function once: `python -m tpulint.proof.workers.module REQUEST`.

REQUEST is a JSON file with the keys of `Request`.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tpulint.proof.workers import loading, requests
from tpulint.proof.workers.call_result import CallResult
from tpulint.proof.workers.loading import Subject
from tpulint.proof.workers.runtime import enabled_runtime
from tpulint.proof.workers.seeds import repeat_random_numbers
from tpulint.verify.observe import observed
from tpulint.verify.steps import shift
from tpulint.verify.values import Group, Value


@dataclass(frozen=True, slots=True)
class Request:
    """The call, and the files for its results."""

    where: str
    """`reference`: call it in plain PyTorch on the CPU, with CUDA emulated; `torchax`: call it on torchax,
    with the runtime; `cases`: list the functions whose names match the expression."""
    path: str
    expression: str
    inputs: list[str]
    root: str
    """The copy of the project."""
    answer: str
    failure: str
    shift: float = 0.0


def run(request: Request) -> Any:
    """The result of the call, or the names of functions."""
    if request.where == "cases":
        return loading.names_of_cases(loading.imported(Path(request.path)), request.expression)
    repeat_random_numbers()
    if request.where == "reference":
        from tpulint.verify import reference, torchvision_standin

        torchvision_standin.install()
        with reference.emulation():
            reference.show_to(request.root)
            return _called(_subject(request), "cuda", lambda function: function)
    return _on_torchax(request)


def _on_torchax(request: Request) -> CallResult:
    from tpulint.verify.on_torchax import Watch

    watch, runtime = Watch(), enabled_runtime()
    watch.install(entries=False)
    result = _called(_subject(request), "jax", runtime.differentiable)
    return replace(result, operations=watch.operations)


def _subject(request: Request) -> Subject:
    module = loading.imported(Path(request.path))
    subject = loading.subject(module, Path(request.path).name, request.expression, request.inputs)
    if request.shift:
        tensors = list(subject.call.parameters()) if subject.is_module else []  # type: ignore[attr-defined]
        shift([*tensors, *_tensors((subject.arguments, subject.keywords))], request.shift)
    return subject


def _called(subject: Subject, device: str, compiled: Callable[[Any], Any]) -> CallResult:
    """Call the subject on a device, and compute the gradients of a weighted sum of its results."""
    import torch
    from torch.utils import _pytree as pytree

    call: Any = subject.call
    if subject.is_module:
        call = call.to(device)
    leaves, tree = pytree.tree_flatten((subject.arguments, subject.keywords))
    leaves = [one.to(device) if isinstance(one, torch.Tensor) else one for one in leaves]
    floats = [one for one in leaves if isinstance(one, torch.Tensor) and one.is_floating_point()]
    for one in floats:
        one.requires_grad_()
    arguments, keywords = pytree.tree_unflatten(leaves, tree)

    def compute(call: Any, arguments: Any, keywords: Any) -> Any:
        results = call(*arguments, **keywords)
        return _weighted_sum(results), results

    torch.manual_seed(2)  # tpulint: ignore[TPU617]
    loss, results = compiled(compute)(call, arguments, keywords)
    parameters = dict(call.named_parameters()) if subject.is_module else {}
    notes = []
    if isinstance(loss, torch.Tensor) and loss.requires_grad:
        loss.backward()
    else:
        notes.append("no gradients: no result is differentiable with respect to weights or inputs")
    gradients = {name: p.grad for name, p in parameters.items() if p.grad is not None}
    gradients |= {f"input {i}": one.grad for i, one in enumerate(floats) if one.grad is not None}
    buffers = dict(call.named_buffers()) if subject.is_module else {}
    return CallResult(
        subject.is_module, _plain(results), _group(gradients), _group(buffers), notes=tuple(notes)
    )


def _weighted_sum(results: Any) -> Any:
    """The sum of all floating-point results, with a different weight for each element."""
    import torch

    total: Any = 0.0
    for one in _tensors(results):
        if one.is_floating_point() and one.numel():
            flat = one.reshape(-1).float()
            weights = torch.cos(torch.arange(flat.numel(), device=one.device, dtype=torch.float32))
            total = total + (flat * weights).sum()
    return total


def _tensors(value: Any) -> list[Any]:
    import torch
    from torch.utils import _pytree as pytree

    return [leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor)]


def _plain(results: Any) -> Value:
    found = observed(results)
    return found if isinstance(found, Group) else Group("sequence", (("0", found),))


def _group(tensors: dict[str, Any]) -> Group:
    return Group("mapping", tuple((name, observed(tensor)) for name, tensor in tensors.items()))


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    requests.answer(Request, run, sys.argv[1], pickle.dumps)
