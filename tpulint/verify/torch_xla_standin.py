"""torch_xla on plain CPU torch: the reference of programs that are written for torch_xla.

No release of torch_xla imports next to the pinned torch. Its functions are here by what they do with a
single process, as measured with torch_xla 2.9.0 on torch 2.9.0: tensors are on the emulated accelerator,
each operation is computed at once, and a collective of one process returns what it gets.
What is not here raises AttributeError or ImportError.
"""

from __future__ import annotations

import contextlib
import sys
import types
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any

import torch
from torch.utils._pytree import tree_map_only

_NAME = "torch_xla"


def _device(*_: object, **__: object) -> torch.device:
    return torch.device("xla", 0)  # tpulint: ignore[XLA101]


def _nothing(*_: object, **__: object) -> None:
    """What a step marker comes to where each operation is computed at once."""


@contextlib.contextmanager
def _context(*_: object, **__: object) -> Iterator[None]:
    yield


def _compiled(function: Callable[..., Any] | None = None, **_: object) -> Any:
    return function if callable(function) else _context()


def _optimizer_step(optimizer: Any, barrier: object = None, optimizer_args: Any = None, **_: object) -> Any:  # noqa: ARG001 # torch_xla's
    return optimizer.step(**(optimizer_args or {}))


def _on_host(data: Any) -> Any:
    return tree_map_only(torch.Tensor, torch.Tensor.cpu, data)


def _save(data: Any, path: Any, *_: object, **__: object) -> None:
    torch.save(_on_host(data), path)


def _launch(function: Callable[..., None], args: tuple[Any, ...] = (), *_: object, **__: object) -> None:
    function(0, *args)


def _all_reduce(_: object, inputs: Any, *__: object, **___: object) -> Any:
    return inputs


def _on_device(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.to("xla")  # tpulint: ignore[XLA101]


class _Loader:
    def __init__(self, loader: Any, *_: object, **__: object) -> None:
        self._loader = loader

    def __iter__(self) -> Iterator[Any]:
        return (tree_map_only(torch.Tensor, _on_device, batch) for batch in self._loader)

    def __len__(self) -> int:
        return len(self._loader)

    def per_device_loader(self, _: object) -> _Loader:
        return self


class _Mesh:
    def __init__(self, device_ids: Any, mesh_shape: tuple[int, ...], axis_names: tuple[str, ...]) -> None:
        self.device_ids, self.mesh_shape, self.axis_names = device_ids, mesh_shape, axis_names

    def shape(self) -> dict[str, int]:
        return dict(zip(self.axis_names, self.mesh_shape, strict=True))


def _modules() -> dict[str, dict[str, Any]]:
    top = {
        **dict.fromkeys(("sync", "manual_seed"), _nothing),
        "device": _device, "devices": lambda: [_device()], "device_count": lambda: 1,
        "step": _context, "compile": _compiled, "launch": _launch, "__version__": "2.9.0",
    }  # fmt: skip
    model = {
        **dict.fromkeys(
            ("mark_step", "wait_device_ops", "reduce_gradients", "broadcast_master_param", "set_rng_state"),
            _nothing,
        ),
        **dict.fromkeys(("get_ordinal", "get_local_ordinal"), lambda: 0),
        "xla_device": _device, "xrt_world_size": lambda: 1, "is_master_ordinal": lambda *_: True,
        "master_print": lambda *args, **_: print(*args), "optimizer_step": _optimizer_step, "save": _save,
        "add_step_closure": lambda closure, args=(), **_: closure(*args), "all_reduce": _all_reduce,
        "mesh_reduce": lambda _, data, reduce_fn: reduce_fn([_on_host(data)]),
        "xla_device_hw": lambda _: "CPU", "get_memory_info": lambda _: {},
        "rendezvous": lambda _, payload=b"", *__: [payload], "REDUCE_SUM": "sum", "REDUCE_MAX": "max",
        "REDUCE_MIN": "min", "REDUCE_MUL": "mul",
    }  # fmt: skip
    runtime = {
        **dict.fromkeys(("global_ordinal", "local_ordinal", "process_index", "host_index"), lambda: 0),
        **dict.fromkeys(
            ("world_size", "process_count", "global_device_count", "global_runtime_device_count"), lambda: 1
        ),
        **dict.fromkeys(("addressable_device_count", "local_device_count"), lambda: 1),
        **dict.fromkeys(("use_spmd", "initialize_cache", "set_device_type"), _nothing),
        "device_type": lambda: "CPU",
    }  # fmt: skip
    sharding = {
        "Mesh": _Mesh, "mark_sharding": lambda tensor, *_: tensor, "ShardingSpec": lambda *_, **__: None,
        "get_1d_mesh": lambda name: _Mesh([0], (1,), (name,)), "set_global_mesh": _nothing,
    }  # fmt: skip
    names = ("clear_all", "clear_counters", "clear_metrics")
    metrics = {
        **dict.fromkeys(names, _nothing),
        **dict.fromkeys(("metrics_report", "short_metrics_report"), lambda *_: ""),
        "counter_names": list, "counter_value": _nothing,
    }  # fmt: skip
    profiler = {
        **dict.fromkeys(("start_server", "start_trace", "stop_trace"), _nothing),
        "Trace": _context, "StepTrace": _context,
    }  # fmt: skip
    return {
        "": top,
        "core.xla_model": model,
        "runtime": runtime,
        "distributed.parallel_loader": {"ParallelLoader": _Loader, "MpDeviceLoader": _Loader},
        "distributed.xla_multiprocessing": {"spawn": _launch, "MpModelWrapper": lambda model: model},
        "distributed.xla_backend": {},
        "distributed.spmd": sharding,
        "distributed.spmd.xla_sharding": sharding,
        "utils.serialization": {"save": _save, "load": torch.load},
        "debug.metrics": metrics,
        "debug.profiler": profiler,
        "amp": {"autocast": lambda _, **options: torch.autocast("cpu", **options)},
        "amp.syncfree": {name: getattr(torch.optim, name) for name in ("SGD", "Adam", "AdamW")},
        "experimental": {"eager_mode": _nothing},
    }


def install() -> None:
    """Let `import torch_xla` find this, in a process that does nothing else."""
    for path, contents in _modules().items():
        name = _NAME
        _module(name)
        for part in path.split(".") if path else ():
            owner, name = sys.modules[name], f"{name}.{part}"
            setattr(owner, part, _module(name))
        vars(sys.modules[name]).update(contents)
    # `GradScaler` is enabled where torch finds torch_xla, which is not there for torch itself.
    torch.cuda.amp.common.amp_definitely_not_available = lambda: not torch.cuda.is_available()


def _module(name: str) -> types.ModuleType:
    if name not in sys.modules:
        made = types.ModuleType(name)
        made.__spec__, made.__path__ = ModuleSpec(name, None, is_package=True), []
        sys.modules[name] = made
    return sys.modules[name]
