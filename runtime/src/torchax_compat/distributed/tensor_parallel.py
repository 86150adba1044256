"""The styles of `parallelize_module`, where each device is a rank: named parameters are sharded over devices.

The devices are a mesh of two dimensions: `data`, over which batches are sharded, and `model`, over which the
parameters are that a plan names.
The modules compute with whole tensors, and JAX inserts the communication that their sharding requires.
So the layouts of a plan, such as that of a sequence between two layers, have no effect on the results.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import distributed

from .. import ranks
from ..patches import application
from . import meshes

#: By style and type of module: the dimension along which each parameter is sharded.
_DIMENSIONS: Mapping[str, Mapping[type, Mapping[str, int | None]]] = {
    "ColwiseParallel": {torch.nn.Linear: {"weight": 0, "bias": 0}, torch.nn.Embedding: {"weight": 1}},
    "RowwiseParallel": {torch.nn.Linear: {"weight": 1, "bias": None}, torch.nn.Embedding: {"weight": 0}},
}
#: Styles that say only how the inputs and results of a module are laid out.
_OF_LAYOUTS = ("SequenceParallel", "PrepareModuleInput", "PrepareModuleOutput", "PrepareModuleInputOutput")


def _apply(self: Any, style: str, module: torch.nn.Module, device_mesh: Any) -> torch.nn.Module:
    """`_apply` of a style: shards the parameters of a module."""
    from torch.distributed.tensor import Replicate, Shard

    dimensions = next((named for kind, named in _DIMENSIONS[style].items() if isinstance(module, kind)), None)
    if dimensions is None:
        raise NotImplementedError(
            f"`{style}` of a `{type(module).__name__}`: use a `Linear` or an `Embedding`"
        )
    meshes.use_for_model(device_mesh)
    _report_split_batches(self)
    module.to("jax")
    for name, parameter in module.named_parameters(recurse=False):
        dimension = dimensions[name]
        meshes.keep(parameter, device_mesh, [Replicate() if dimension is None else Shard(dimension)])
    return module


def _report_split_batches(style: Any) -> None:
    """Report a module whose ranks get different samples, which are those of the first rank here."""
    layouts = getattr(style, "input_layouts", ())
    if any(one is not None and one.is_shard(0) for one in layouts):
        ranks.report_once(
            f"`{type(style).__name__}(input_layouts=Shard(0))` gets the input of the first rank as the whole "
            "input"
        )


def _use_layouts(_self: Any, module: torch.nn.Module, device_mesh: Any) -> torch.nn.Module:
    """`_apply` of a style that has no effect on the results."""
    meshes.use_for_model(device_mesh)
    return module


def _start() -> Callable[[], None]:
    """Replace the methods of torch, until the function that is returned is called."""
    if not distributed.is_available():
        return lambda: None
    from torch.distributed.tensor import parallel  # it imports much, which only programs with ranks wait for

    applied: dict[str, Any] = {name: functools.partialmethod(_apply, name) for name in _DIMENSIONS}
    applied |= dict.fromkeys(_OF_LAYOUTS, _use_layouts)
    undone = application.replace(
        [(getattr(parallel, name), "_apply", apply) for name, apply in applied.items()]
    )
    return functools.partial(application.restore, undone)


ranks.STARTS.append(_start)
