"""Accelerate, where each device is a rank: its state has a process for each device.

`Accelerator` asks for CUDA before it starts a process group.
With ranks, its processes are those of `torch.distributed`: `prepare()` wraps models in
`DistributedDataParallel`, and gives each rank its share of the batches.
"""

from __future__ import annotations

import functools
from types import ModuleType
from typing import Any

from .. import ranks
from ..patches.application import Undo
from ..patches.declarations import setup
from ..patches.import_hooks import AfterImport


def _replacements(module: ModuleType) -> list[tuple[Any, str, Any]]:
    state = module.PartialState
    prepare = vars(state)["_prepare_backend"]

    @functools.wraps(prepare)
    def prepare_backend(self: Any, cpu: bool = False, *args: Any, **kwargs: Any) -> Any:
        if ranks.are_on() and not cpu:
            return "nccl", module.DistributedType.MULTI_GPU
        return prepare(self, cpu, *args, **kwargs)

    return [(state, "_prepare_backend", prepare_backend)]


@setup("accelerate.state", why="`PartialState` looks for CUDA before it asks for the number of processes.")
def _add_hook() -> Undo:
    return AfterImport("accelerate.state", _replacements).add()
