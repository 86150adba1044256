"""Traces a user's module abstractly, and lists all lines that fail: `python -m ...workers.tracing REQUEST`.

Two traces are made, in which branches on traced values are taken and not taken.
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
    noted,
    scalars_replaced,
    user_frame,
)
from tpulint.proof.workers.loading import Subject
from tpulint.proof.workers.seeds import repeat_random_numbers


@dataclass(frozen=True, slots=True)
class Request:
    """What to trace, and where to leave what comes of it."""

    path: str
    expression: str
    inputs: list[str]
    root: str
    """The copy of the project."""
    answer: str
    failure: str


def run(request: Request) -> dict[str, Any]:
    """What `traced` finds out about the subject of a request."""
    from tpulint.verify import torchvision_standin

    torchvision_standin.install()
    repeat_random_numbers()
    with redirected("cpu", request.root):
        module = loading.imported(Path(request.path))
        name = Path(request.path).name
        subject = loading.subject(module, name, request.expression, request.inputs)
    return traced([subject], request.root)


def traced(subjects: list[Subject], root: str) -> dict[str, Any]:
    """Hazards, lines that were executed under trace, and what stopped a trace, as plain values."""
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
    """One trace, in which branches on traced values are taken, or not."""
    hazards, stopped = Hazards(root, branch=branch), ""
    enter, lines = executed_lines(root)

    @contextmanager
    def mode() -> Iterator[None]:
        with redirected("jax", root), scalars_replaced(hazards):
            yield

    with noted(hazards), _recovering(subject, hazards, results, root):
        sys.settrace(enter)
        try:
            abstractly(subject, environment, mode)
        except BaseException as error:  # the user's code may raise anything
            hazards.note_error(error, frames_of(error, root))
            stopped = f"{type(error).__name__}: {error}".splitlines()[0][:300]
        finally:
            sys.settrace(None)
    hazards.note_leaks()
    return hazards.found, lines, stopped


@contextmanager
def redirected(device: str, root: str) -> Iterator[None]:
    """Let what is meant for CUDA go to a device; host tensors get the line in `root` that made them."""
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
    """Call a subject with abstract arrays in place of its weights and inputs; the shapes of its results.

    It is called in a mode, which is entered after torchax's.
    """
    import jax

    call, tensors = jax_function(subject, environment, mode)
    abstract = jax.tree.map(shape_of, (state_of(subject), tensors))
    return jax.eval_shape(call, jax.eval_shape(lambda: jax.random.key(0)), *abstract)


def jax_function(
    subject: Subject, environment: Any, mode: Callable[[], Any]
) -> tuple[Callable[..., Any], list[Any]]:
    """A subject as a function of a random key, its state by name, and the tensors among its inputs.

    The function gives the arrays among the results.
    """
    import jax
    import torch
    from torch.utils import _pytree as pytree
    from torchax import interop

    leaves, tree = pytree.tree_flatten((subject.arguments, subject.keywords))
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, torch.Tensor)]

    def torch_call(state: Any, tensors: Any) -> Any:
        values = list(leaves)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        arguments, keywords = pytree.tree_unflatten(values, tree)
        with ExitStack() as stack:
            stack.enter_context(mode())
            if state:
                replaced = torch.nn.utils.stateless._reparametrize_module  # noqa: SLF001
                stack.enter_context(replaced(subject.call, state, tie_weights=True))
            return subject.call(*arguments, **keywords)

    def call(key: Any, state: Any, tensors: Any) -> Any:
        # torchax cannot wrap a random key, so it travels beside the arguments.
        with environment.override_property(prng=key):
            results = interop.jax_view(torch_call)(state, tensors)
        return [leaf for leaf in jax.tree.leaves(results) if isinstance(leaf, jax.Array)]

    return call, [leaves[place] for place in places]


def state_of(subject: Subject) -> dict[str, Any]:
    """The weights and buffers of a subject by name."""
    if not subject.is_module:
        return {}
    module: Any = subject.call
    return {**dict(module.named_parameters()), **dict(module.named_buffers())}


def shape_of(tensor: Any) -> Any:
    """Shape and dtype of a tensor as JAX sees it."""
    import jax
    from torchax.ops import mappings

    dtype = jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(tensor.dtype))
    return jax.ShapeDtypeStruct(tuple(tensor.shape), dtype)


Results = dict[str, list[Any]]
"""What each module of a subject gave in its calls: tensors of the device `meta` in place of others."""


def _shapes_of_results(subject: Subject) -> Results:
    """Call a subject on the host, and note what its modules give; nothing if that fails."""
    import torch
    from torch.utils import _pytree as pytree

    results: Results = {}
    if not subject.is_module:
        return results
    module: Any = subject.call

    def note(name: str) -> Callable[..., None]:
        def hook(_: Any, __: Any, result: Any) -> None:
            shapes = pytree.tree_map_only(torch.Tensor, lambda one: one.detach().to("meta"), result)
            results.setdefault(name, []).append(shapes)

        return hook

    handles = [part.register_forward_hook(note(name)) for name, part in module.named_modules()]
    try:
        with torch.no_grad():
            module(*subject.arguments, **subject.keywords)
    except Exception:  # the original's own run reports it
        pass
    for handle in handles:
        handle.remove()
    return results


@contextmanager
def _recovering(subject: Subject, hazards: Hazards, results: Results, root: str) -> Iterator[None]:
    """Let the trace go on after a module that fails, with zeros in the shapes that it gave on the host."""
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
            hazards.note_error(error, frames_of(error, root))
            return pytree.tree_map_only(torch.Tensor, zeros, known[number])

    torch.nn.Module.__call__ = called
    try:
        yield
    finally:
        torch.nn.Module.__call__ = original


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    requests.answer(Request, run, sys.argv[1])
