"""Traces a user's module abstractly, and lists all lines that fail: `python -m ...workers.tracing REQUEST`.

There are two traces: one takes branches on traced values, the other does not.
Nothing is computed: JAX knows only shapes and dtypes.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tpulint.proof.workers import loading, requests
from tpulint.proof.workers.failures import frames_of
from tpulint.proof.workers.hazards import (
    ORIGIN,
    Hazard,
    Hazards,
    executed_lines,
    recording,
    scalars_replaced,
    user_frame,
)
from tpulint.proof.workers.loading import Subject
from tpulint.proof.workers.seeds import repeat_random_numbers


@dataclass(frozen=True, slots=True)
class Request:
    """The module to trace, and the files for the results."""

    path: str
    expression: str
    inputs: list[str]
    root: str
    """The copy of the project."""
    answer: str
    failure: str


def run(request: Request) -> dict[str, Any]:
    """The results of `traced` for the module of a request."""
    from tpulint.verify import torchvision_standin

    torchvision_standin.install()
    repeat_random_numbers()
    with redirected("cpu", request.root):
        module = loading.imported(Path(request.path))
        name = Path(request.path).name
        subject = loading.subject(module, name, request.expression, request.inputs)
    return traced([subject], request.root)


def traced(subjects: list[Subject], root: str) -> dict[str, Any]:
    """The hazards, the executed lines, and the error that stopped a trace, as JSON values."""
    import torchax

    environment = torchax.default_env()
    hazards: dict[tuple[str, int, str], dict[str, Any]] = {}
    lines: dict[str, set[int]] = {}
    stopped = ""
    for subject in subjects:
        with redirected("cpu", root):
            results = _shapes_of_results(subject)
        for branch in (True, False):
            with environment:
                found, executed, error = _traced(subject, results, root, environment, branch=branch)
            stopped = stopped or error
            for one in found:
                hazards.setdefault((one.path, one.line, one.hazard), asdict(one))
            for file, numbers in executed.items():
                lines.setdefault(str(Path(file).relative_to(root)), set()).update(numbers)
    return {
        "hazards": sorted(hazards.values(), key=lambda one: (one["path"], one["line"])),
        "lines": {file: sorted(numbers) for file, numbers in lines.items()},
        "stopped": stopped,
    }


def _traced(
    subject: Subject, results: Results, root: str, environment: Any, *, branch: bool
) -> tuple[list[Hazard], dict[str, set[int]], str]:
    """The hazards, the executed lines and the error of one trace; `branch` is whether branches are taken."""
    hazards, stopped = Hazards(root, branch=branch), ""
    enter, lines = executed_lines(root)

    @contextmanager
    def mode() -> Iterator[None]:
        with redirected("jax", root), scalars_replaced(hazards):
            yield

    with recording(hazards), _recovering(subject, hazards, results, root):
        sys.settrace(enter)
        try:
            abstractly(subject, environment, mode)
        except BaseException as error:  # the user's code may raise anything
            hazards.record_error(error, frames_of(error, root))
            stopped = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        finally:
            sys.settrace(None)
    hazards.record_leaks()
    return hazards.found, lines, stopped


@contextmanager
def redirected(device: str, root: str) -> Iterator[None]:
    """Redirect CUDA devices to a device, and record the line in `root` that creates each host tensor."""
    import torch
    from torch.overrides import TorchFunctionMode

    from tpulint.verify.reference import is_accelerator

    class Redirection(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = dict(kwargs or {})
            if func is torch.Tensor.cuda:
                func, args, kwargs = torch.Tensor.to, (args[0], device), {}
            if is_accelerator(kwargs.get("device")):
                kwargs["device"] = device
            if func is torch.Tensor.to:
                args = (args[0], *[device if _is_cuda(one, is_accelerator) else one for one in args[1:]])
            result = func(*args, **kwargs)
            if type(result) is torch.Tensor and not hasattr(result, ORIGIN):
                frame = user_frame(root)
                if frame is not None:
                    file = str(Path(frame.f_code.co_filename).relative_to(root))
                    setattr(result, ORIGIN, (file, frame.f_lineno))
            return result

    with Redirection():
        yield


def _is_cuda(value: Any, is_accelerator: Callable[[object], bool]) -> bool:
    import torch

    return isinstance(value, (str, torch.device)) and is_accelerator(value)


def abstractly(subject: Subject, environment: Any, mode: Callable[[], Any]) -> Any:
    """The shapes of the results of a subject for the shapes of its weights and inputs.

    Args:
        subject: the module or function.
        environment: the environment of torchax.
        mode: a context manager for the call, which is entered after the mode of torchax.
    """
    import jax

    call, tensors = jax_function(subject, environment, mode)
    abstract = jax.tree.map(shape_of, (state_of(subject), tensors))
    return jax.eval_shape(call, jax.eval_shape(lambda: jax.random.key(0)), *abstract)


def jax_function(
    subject: Subject, environment: Any, mode: Callable[[], Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """A subject as a JAX function of a random key, its state by name, and the tensors among its inputs.

    Returns:
        The function, which returns the arrays among the results, and the tensors among the inputs.
    """
    import jax
    import torch
    from torch.utils import _pytree as pytree
    from torchax import interop

    leaves, tree = pytree.tree_flatten((subject.arguments, subject.keywords))
    indices = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def torch_call(state: Any, tensors: Any) -> Any:
        values = list(leaves)
        for index, tensor in zip(indices, tensors, strict=True):
            values[index] = tensor
        arguments, keywords = pytree.tree_unflatten(values, tree)
        with ExitStack() as stack:
            stack.enter_context(mode())
            if state:
                replaced = torch.nn.utils.stateless._reparametrize_module  # noqa: SLF001
                stack.enter_context(replaced(subject.call, state, tie_weights=True))
            return subject.call(*arguments, **keywords)

    def call(key: Any, state: Any, tensors: Any) -> Any:
        # torchax cannot wrap a random key, so it is not an argument of `torch_call`.
        with environment.override_property(prng=key):
            results = interop.jax_view(torch_call)(state, tensors)
        return [leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)]

    return call, [leaves[index] for index in indices]


def state_of(subject: Subject) -> dict[str, Any]:
    """The weights and buffers of a subject by name."""
    if not subject.is_module:
        return {}
    module: Any = subject.call
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def shape_of(tensor: Any) -> Any:
    """The shape and dtype of a tensor in JAX."""
    import jax
    from torchax.ops import mappings

    dtype = jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(tensor.dtype))
    return jax.ShapeDtypeStruct(tuple(tensor.shape), dtype)


Results = dict[str, list[Any]]
"""The results of the calls of each submodule, with tensors on the device `meta`."""


def _shapes_of_results(subject: Subject) -> Results:
    """Call a subject on the CPU, and return the results of its submodules; empty if the call fails."""
    import torch
    from torch.utils import _pytree as pytree

    results: Results = {}
    if not subject.is_module:
        return results
    module: Any = subject.call

    def recorder(name: str) -> Callable[..., None]:
        def hook(_: Any, __: Any, result: Any) -> None:
            shapes = pytree.tree_map_only(torch.Tensor, lambda one: one.detach().to("meta"), result)
            results.setdefault(name, []).append(shapes)

        return hook

    handles = [part.register_forward_hook(recorder(name)) for name, part in module.named_modules()]
    try:
        with torch.no_grad():
            module(*subject.arguments, **subject.keywords)
    except Exception:  # the run of the original reports it
        pass
    for handle in handles:
        handle.remove()
    return results


@contextmanager
def _recovering(subject: Subject, hazards: Hazards, results: Results, root: str) -> Iterator[None]:
    """Continue the trace after a submodule that fails, with zeros of the shapes from the CPU."""
    import jax.numpy as jnp
    import torch
    import torchax
    from torch.utils import _pytree as pytree

    if not subject.is_module:
        yield
        return
    module: Any = subject.call
    names = {id(part): name for name, part in module.named_modules() if name}
    calls: dict[str, int] = {}
    original = torch.nn.Module.__call__

    def zeros(shape: Any) -> Any:
        spec = shape_of(shape)
        return torchax.tensor.Tensor(jnp.zeros(spec.shape, spec.dtype), torchax.default_env())

    def called(self: Any, *args: Any, **kwargs: Any) -> Any:
        name = names.get(id(self))
        known = results.get(name, []) if name else []
        number = calls.get(name or "", 0)
        calls[name or ""] = number + 1
        try:
            return original(self, *args, **kwargs)
        except Exception as error:
            if number >= len(known):
                raise
            hazards.record_error(error, frames_of(error, root))
            return pytree.tree_map_only(torch.Tensor, zeros, known[number])

    torch.nn.Module.__call__ = called
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    requests.answer(Request, run, sys.argv[1])
