"""Compiles a user's module for TPUs, from shapes alone: `python -m ...workers.compiling REQUEST`."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulint.proof.workers import loading, requests, tpu_compiler
from tpulint.proof.workers.loading import BadTargetError, Subject
from tpulint.proof.workers.runtime import enabled_runtime
from tpulint.proof.workers.tpu_compiler import Topology
from tpulint.proof.workers.tracing import jax_function, shape_of, state_of

_TRIES = 12
"""The most batch sizes that the search for the largest one tries."""
_STEP = 64
"""The largest ratio of the next batch size to one that fits."""
_NEARLY = 0.97
"""The fraction of the memory at which the search ends."""


@dataclass(frozen=True, slots=True)
class Request:
    """The module to compile, the topologies and the mesh."""

    path: str
    expression: str
    inputs: list[str]
    root: str
    """The copy of the project."""
    answer: str
    failure: str
    topologies: list[str]
    axes: list[tuple[str, int]]
    rules: list[tuple[str, list[str]]]
    gradients: bool
    largest_batch: bool


def run(request: Request) -> list[dict[str, Any]]:
    """A row of costs for each topology."""
    topologies = [tpu_compiler.topology_named(name) for name in request.topologies]
    import torchax

    runtime = enabled_runtime()
    tpu_compiler.user_lines_only(runtime)
    subject = _abstract_subject(request)
    return [_Compilation(request, subject, torchax.default_env(), one).row() for one in topologies]


def _abstract_subject(request: Request) -> Subject:
    """The subject with weights on the device `meta`, or on the CPU if its constructor reads their values."""
    import torch

    module = loading.imported(Path(request.path))
    name = Path(request.path).name
    with torch.device("meta"):
        arguments, keywords = loading.evaluated(request.inputs)
    for device in (torch.device("meta"), nullcontext()):
        try:
            with device:
                made = loading.subject(module, name, request.expression, ())
        except BadTargetError:
            raise
        except Exception:
            if isinstance(device, nullcontext):
                raise
            continue
        return made if made.arguments or made.keywords else Subject(made.call, arguments, keywords)
    raise AssertionError("the last attempt returns or raises")


class _Compilation:
    """One subject for one topology."""

    def __init__(self, request: Request, subject: Subject, environment: Any, topology: Topology) -> None:
        self._request, self._subject, self._topology = request, subject, topology
        self._mesh = _mesh(request.axes, topology)
        self._call, tensors = jax_function(subject, environment, lambda: nullcontext())
        self._inputs = [shape_of(one) for one in tensors]
        self._state = {name: shape_of(one) for name, one in state_of(subject).items()}
        firsts = [one.shape[0] for one in self._inputs if one.shape]
        self._batch = firsts[0] if firsts else 0

    def row(self) -> dict[str, Any]:
        """The costs for the batch size of the inputs, and, if requested, the largest batch size."""
        row = self._compiled(self._batch)
        if self._request.largest_batch and row["state"] == "compiles" and self._batch and row["hbm"]:
            row["largest_batch"] = self._largest(row)
        return row

    def _largest(self, row: dict[str, Any]) -> int:
        """The largest batch size that compiles and fits into memory, with an error of at most 5 %.

        The next size is extrapolated linearly from the two largest sizes that fit, because the memory of
        small batches may grow differently.
        """
        if not row["fits"]:
            return 0
        fitting, memory, before = self._batch, tpu_compiler.total(row["memory"]), (0, 0)
        excessive = 0
        for _ in range(_TRIES):
            if memory > _NEARLY * row["hbm"] or (excessive and excessive - fitting <= max(fitting // 20, 1)):
                break
            growth = max((memory - before[1]) / (fitting - before[0]), 1)
            guess = int(fitting + (row["hbm"] - memory) / growth) if before[0] else 2 * fitting
            guess = min(max(guess, fitting + 1), _STEP * fitting)
            if excessive and guess >= excessive:
                guess = (fitting + excessive) // 2
            tried = self._compiled(guess)
            if tried["fits"]:
                before, fitting, memory = (fitting, memory), guess, tpu_compiler.total(tried["memory"])
            else:
                excessive = guess
        return fitting

    def _compiled(self, batch: int) -> dict[str, Any]:
        import jax

        what = "forward and backward" if self._request.gradients else "forward"
        row: dict[str, Any]
        try:
            function = self._with_gradients() if self._request.gradients else self._call
            key = self._placed(jax.eval_shape(lambda: jax.random.key(0)), ())
            state = {name: self._placed(one, self._axes_of(name, one)) for name, one in self._state.items()}
            inputs = [self._placed(one, self._axes_of_input(one)) for one in self._batched(batch)]
            lowered = jax.jit(function).lower(key, state, inputs)
        except Exception as error:
            row = tpu_compiler.failed(error, self._topology, self._request.root)
        else:
            row = tpu_compiler.compiled(lowered, self._topology, self._request.root)
        return {**row, "what": what, "batch": batch, "chips": self._mesh.size}

    def _with_gradients(self) -> Callable[..., Any]:
        """The gradients of a sum of the results with respect to the floating-point weights."""
        import jax
        import jax.numpy as jnp

        def gradients(key: Any, state: Any, inputs: Any) -> Any:
            trained = {name: one for name, one in state.items() if jnp.issubdtype(one.dtype, jnp.floating)}
            fixed = {name: one for name, one in state.items() if name not in trained}

            def loss(trained: Any) -> Any:
                results = self._call(key, {**trained, **fixed}, inputs)
                floats = [one for one in results if jnp.issubdtype(one.dtype, jnp.floating)]
                return sum(one.astype(jnp.float32).sum() for one in floats), results

            return jax.grad(loss, has_aux=True)(trained)

        return gradients

    def _batched(self, batch: int) -> list[Any]:
        """The inputs with another batch size, in each first dimension that has the original batch size."""
        import jax

        return [
            jax.ShapeDtypeStruct((batch, *one.shape[1:]), one.dtype)
            if one.shape and one.shape[0] == self._batch
            else one
            for one in self._inputs
        ]

    def _placed(self, shape: Any, axes: tuple[str, ...]) -> Any:
        import jax
        from jax.sharding import NamedSharding, PartitionSpec

        spec = PartitionSpec(*[axis or None for axis in axes])
        return jax.ShapeDtypeStruct(shape.shape, shape.dtype, sharding=NamedSharding(self._mesh, spec))

    def _axes_of(self, name: str, shape: Any) -> tuple[str, ...]:
        """The axes that split the dimensions of a weight, by the first rule that matches its name."""
        for pattern, axes in self._request.rules:
            if re.search(pattern, name):
                return tuple(axes)[: len(shape.shape)]
        return ()

    def _axes_of_input(self, shape: Any) -> tuple[str, ...]:
        """The axes that split an input: the first axis of the mesh for the batch, if its size allows that."""
        axes = self._request.axes
        return (axes[0][0],) if axes and shape.shape and shape.shape[0] % axes[0][1] == 0 else ()


def _mesh(axes: list[tuple[str, int]], topology: Topology) -> Any:
    import numpy as np
    from jax.sharding import Mesh

    names, sizes = zip(*(axes or [("x", 1)]), strict=True)
    return Mesh(np.array(topology.devices[: math.prod(sizes)]).reshape(sizes), names)


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    requests.answer(Request, run, sys.argv[1])
