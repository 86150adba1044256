"""CUDA code on plain CPU torch: the reference that every other run is compared with.

`python -m tpulint.verify.reference [--record FILE] script.py [argument ...]` runs a whole script so, and
leaves its record in FILE.

Every accelerator (`cuda`, `jax`) is the CPU here.
`torch.cuda.is_available()` stays False, since torch itself asks; a script's own files are told True.
A tensor that moves to the accelerator, or from there, is a copy, as on a GPU, so that writing to one does not
change the other; a tensor that is already there stays itself.
Where a computed tensor is, nobody notes: `.cpu()` copies one of the host, too, but no leaf with a gradient.
torchax is not imported: importing it changes torch.
"""

from __future__ import annotations

import contextlib
import functools
import os
import runpy
import sys
import threading
import time
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._device import DeviceContext

from tpulint.verify import plain_compiler, torch_xla_standin, torchvision_standin
from tpulint.verify.fingerprint import fingerprint
from tpulint.verify.record import Recorder
from tpulint.verify.steps import Extent

_ACCELERATORS = ("cuda", "jax", "privateuseone", "xla")
_FROM_DATA = {torch.tensor, torch.as_tensor}
_SET_DATA = torch.Tensor.data.__set__
_MOVES = {torch.Tensor.to, torch.Tensor.cuda, torch.Tensor.cpu}


@functools.cache
def _name_the_jax_device() -> None:
    """Let `torch.device("jax")` be written, which torch without torchax refuses."""
    torch.utils.rename_privateuse1_backend("jax")


def is_accelerator(device: object) -> bool:
    """Whether a `device` argument names an accelerator; a bare number is a CUDA index."""
    if isinstance(device, bool):
        return False
    if isinstance(device, int):
        return True
    name = device.type if isinstance(device, torch.device) else device
    return isinstance(name, str) and name.partition(":")[0] in _ACCELERATORS


def is_on_accelerator(tensor: torch.Tensor) -> bool:
    """Whether a tensor is on the emulated accelerator, as all that are distributed over a mesh are."""
    return getattr(tensor, "_tpulint_on_accelerator", False) or hasattr(tensor, "device_mesh")


def on_accelerator(tensor: torch.Tensor) -> torch.Tensor:
    """Mark a tensor as one that is already on the emulated accelerator."""
    tensor._tpulint_on_accelerator = True  # noqa: SLF001
    return tensor


class OnCpu(TorchFunctionMode):  # type: ignore[misc]
    """Sends what is meant for an accelerator to the CPU, in each call of torch's API."""

    def __init__(self) -> None:
        super().__init__()
        self.moved: set[str] = set()
        """Fingerprints of the data that the code moves between devices, or gives to one."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """See `torch.overrides.TorchFunctionMode`."""
        kwargs = dict(kwargs or {})
        if func in _MOVES:
            return self._move(func, args, kwargs)
        if func is torch._C._nn._parse_to:  # noqa: SLF001 # how a module reads where to move its tensors
            return func(*args, **kwargs)
        if func is torch.Tensor.pin_memory:
            return args[0]
        if func is torch.Tensor.is_pinned:
            return False
        if func is torch.Tensor.type and len(args) > 1 and isinstance(args[1], str):
            args = (args[0], args[1].replace("torch.cuda.", "torch."), *args[2:])
        made = is_accelerator(kwargs.get("device"))
        if made and func in _FROM_DATA and (args or "data" in kwargs):
            self.moved.add(fingerprint(args[0] if args else kwargs["data"]))
        if made:
            kwargs["device"] = "cpu"
        if kwargs.get("pin_memory"):
            kwargs["pin_memory"] = False
        args = tuple(_cpu(arg) if isinstance(arg, torch.device) else arg for arg in args)
        result = func(*args, **kwargs)
        if func == _SET_DATA and is_on_accelerator(args[1]):
            on_accelerator(args[0])  # how a module's parameters move
        return on_accelerator(result) if made and isinstance(result, torch.Tensor) else result

    def _move(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        tensor, rest = args[0], list(args[1:])
        here, has_elements = is_on_accelerator(tensor), not torch.nn.parameter.is_lazy(tensor)
        if func is torch.Tensor.to:
            # A tensor as the argument stands for its own device, which this emulation knows.
            if rest and isinstance(rest[0], torch.Tensor):
                there: bool | None = is_on_accelerator(rest[0])
            elif rest and (is_accelerator(rest[0]) or isinstance(rest[0], (str, torch.device))):
                there, rest[0] = is_accelerator(rest[0]), "cpu"
            elif "device" in kwargs and kwargs["device"] is not None:
                there, kwargs["device"] = is_accelerator(kwargs["device"]), "cpu"
            else:
                there = None
            result = tensor.to(*rest, **kwargs)
        else:
            there, result = func is torch.Tensor.cuda, tensor
        if there is not None and has_elements:
            # Both, since `.to(device, dtype)` may convert before or after the move.
            self.moved |= {fingerprint(tensor), fingerprint(result)}
            # What was computed there is not marked; a leaf that asks for a gradient is the host's own.
            may_be_there = here or not (tensor.is_leaf and tensor.requires_grad)
            if result is tensor and (not here if there else may_be_there):
                result = tensor.clone()
        if there or (there is None and here):
            on_accelerator(result)
        return result


def _cpu(device: Any) -> Any:
    return torch.device("cpu") if is_accelerator(device) else device


class _Event:
    """torch.cuda.Event on the host's clock."""

    def __init__(self, *_: object, **__: object) -> None:
        self._time = 0.0

    def record(self, *_: object) -> None:
        self._time = time.perf_counter()

    def elapsed_time(self, end: _Event) -> float:
        return (end._time - self._time) * 1e3

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Nothing runs behind the host's back here."""

    def wait(self, *_: object) -> None:
        """Nothing runs behind the host's back here."""


class _Stream(_Event):
    """torch.cuda.Stream where all work is done in order."""

    def record_event(self, event: _Event | None = None) -> _Event:
        event = event or _Event()
        event.record()
        return event

    def wait_event(self, _: object) -> None:
        """Work is in order already."""

    def wait_stream(self, _: object) -> None:
        """Work is in order already."""

    def __enter__(self) -> _Stream:
        return self

    def __exit__(self, *_: object) -> None:
        """Leave the stream, which is the only one."""


class _Graph:
    """torch.cuda.CUDAGraph whose work was done while it was captured."""

    def replay(self) -> None:
        """The inputs of the cases never change between capture and replay."""


def _silent() -> Callable[..., None]:
    """A new function each time: torch's compiler, on import, refuses one function under two names."""
    return lambda *_, **__: None


def _cuda_replacements() -> dict[str, Any]:
    @contextlib.contextmanager
    def here(*_: object, **__: object) -> Iterator[None]:
        yield

    stream = _Stream()
    generator = torch.default_generator
    silent = (
        "synchronize", "set_device", "ipc_collect", "init", "set_stream", "reset_peak_memory_stats",
        "reset_max_memory_allocated", "reset_accumulated_memory_stats", "set_per_process_memory_fraction",
        "set_sync_debug_mode",
    )  # fmt: skip
    return {
        # Not `torch.manual_seed`, which calls the one of `torch.cuda`.
        **dict.fromkeys(("manual_seed", "manual_seed_all"), generator.manual_seed),
        "get_rng_state": lambda *_, **__: generator.get_state(),
        "get_rng_state_all": lambda: [generator.get_state()],
        "set_rng_state": lambda state, *_: generator.set_state(state),
        "set_rng_state_all": lambda states: generator.set_state(states[0]),
        "is_bf16_supported": lambda *_, **__: True,
        "device_count": lambda: 1,
        **{name: _silent() for name in silent},
        "Event": _Event,
        "Stream": _Stream,
        "current_stream": lambda *_, **__: stream,
        "default_stream": lambda *_, **__: stream,
        "stream": here,
        "device": here,
        "CUDAGraph": _Graph,
        "graph": here,
        "is_current_stream_capturing": lambda: False,
        "current_device": lambda: 0,
        "get_device_name": lambda *_, **__: "CPU",
        "get_device_capability": lambda *_, **__: (0, 0),
        "get_device_properties": lambda *_, **__: types.SimpleNamespace(
            name="CPU", total_memory=0, major=0, minor=0, multi_processor_count=1
        ),
        "mem_get_info": lambda *_, **__: (0, 0),
        "memory_summary": lambda *_, **__: "{}",
        **{
            name: getattr(torch, name) for name in vars(torch) if name.endswith("Tensor") and name != "Tensor"
        },
    }


class _Generator(torch.Generator):  # type: ignore[misc]
    """torch.Generator, of the CPU whatever it is asked to be of."""

    def __new__(cls, device: Any = "cpu") -> _Generator:
        made: _Generator = super().__new__(cls, "cpu" if is_accelerator(device) else device)
        return made


def _with_cpu_argument(function: Callable[..., Any], name: str, position: int) -> Callable[..., Any]:
    @functools.wraps(function)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        if is_accelerator(kwargs.get(name)):
            kwargs[name] = "cpu"
        if len(args) > position and is_accelerator(args[position]):
            args = (*args[:position], "cpu", *args[position + 1 :])
        return function(*args, **kwargs)

    return wrapped


@contextlib.contextmanager
def emulation() -> Iterator[OnCpu]:
    """Make accelerators mean the CPU. What is patched stays so: a process does this once and ends."""
    _name_the_jax_device()
    plain_compiler.install()
    torch_xla_standin.install()
    for name, replacement in _cuda_replacements().items():
        setattr(torch.cuda, name, replacement)
    for name in ("synchronize", "empty_cache", "set_device_index", "memory_allocated"):
        setattr(torch.accelerator, name, _silent())
    # Torch's optimizers ask; without torchax the device that is named for it has no module to tell.
    torch.accelerator.is_available = lambda: False
    torch.accelerator.current_accelerator = lambda *_, **__: None
    for name in ("range_push", "range_pop", "mark"):
        setattr(torch.cuda.nvtx, name, _silent())
    torch.backends.cuda.preferred_linalg_library = _silent()
    torch.Tensor.record_stream = _silent()
    torch.nn.Parameter.__new__ = staticmethod(_marked(torch.nn.Parameter.__new__))
    torch.UntypedStorage.cuda = lambda storage, *_, **__: storage
    # These take a device without passing through the mode.
    torch.Generator = _Generator
    torch.load = _with_cpu_argument(torch.load, "map_location", 1)
    torch.set_default_device = _with_cpu_argument(torch.set_default_device, "device", 0)
    DeviceContext.__init__ = _with_cpu_argument(DeviceContext.__init__, "device", 1)
    with OnCpu() as mode:
        threading.Thread.start = _started_within(mode)  # type: ignore[assignment]
        yield mode


def _marked(make: Callable[..., torch.nn.Parameter]) -> Callable[..., torch.nn.Parameter]:
    """`Parameter.__new__`, which makes one of a tensor where that is."""

    @functools.wraps(make)
    def made(cls: type, data: torch.Tensor | None = None, *args: Any, **kwargs: Any) -> torch.nn.Parameter:
        parameter = make(cls, data, *args, **kwargs)
        if data is not None and is_on_accelerator(data):
            on_accelerator(parameter)
        return parameter

    return made


def _started_within(mode: OnCpu) -> Callable[[threading.Thread], None]:
    """`Thread.start` of threads that use the emulated accelerator, too: modes hold for one thread."""
    start = threading.Thread.start

    def started(thread: threading.Thread) -> None:
        run = thread.run

        def within() -> None:
            with mode:
                run()

        thread.run = within  # type: ignore[method-assign]
        start(thread)

    return started


def show_to(folder: str) -> None:
    """Let the files in a folder find a GPU, which torch's own must not."""

    def show(owner: Any, name: str, to_own: Any, to_others: Any) -> None:
        @functools.wraps(getattr(owner, name))
        def asked(*_: Any, **__: Any) -> Any:
            file = sys._getframe(1).f_code.co_filename  # noqa: SLF001
            return to_own if file.startswith(folder + os.sep) else to_others

        setattr(owner, name, asked)

    show(torch.cuda, "is_available", to_own=True, to_others=False)
    show(torch.accelerator, "is_available", to_own=True, to_others=False)
    cuda = torch.device("cuda")  # tpulint: ignore[TPU102]
    show(torch.accelerator, "current_accelerator", to_own=cuda, to_others=None)
    show(torch.distributed, "is_nccl_available", to_own=True, to_others=False)


def _spread_over_the_cpu() -> None:
    """Let process groups and wrappers for several GPUs do with the host's CPU."""
    import torch.distributed as dist

    start, wrap = dist.init_process_group, torch.nn.parallel.DistributedDataParallel.__init__

    @functools.wraps(start)
    def started(backend: str | None = None, *args: Any, **kwargs: Any) -> Any:
        kwargs.pop("device_id", None)
        return start((backend or "gloo").replace("nccl", "gloo"), *args, **kwargs)  # tpulint: ignore[TPU801]

    @functools.wraps(wrap)
    def wrapped(self: Any, module: Any, *_: Any, **kwargs: Any) -> None:
        wrap(self, module, **{key: kwargs[key] for key in kwargs.keys() - {"device_ids", "output_device"}})

    @functools.wraps(dist.barrier)
    def waited(*_: Any, **__: Any) -> None:
        # Torch's own asks for the accelerator that the device is named for, which has no module.
        dist.all_reduce(torch.zeros(1))  # tpulint: ignore[TPU801]

    def spawned(function: Callable[..., Any], args: tuple[Any, ...] = (), *_: Any, **__: Any) -> None:
        function(0, *args)  # a process of its own would be without the emulation

    torch.multiprocessing.spawn = spawned
    dist.init_process_group = dist.distributed_c10d.init_process_group = started
    dist.barrier = dist.distributed_c10d.barrier = waited
    meshes = torch.distributed.device_mesh
    meshes.DeviceMesh.__init__ = _with_cpu_argument(meshes.DeviceMesh.__init__, "device_type", 1)
    dist.init_device_mesh = _with_cpu_argument(meshes.init_device_mesh, "device_type", 0)
    meshes.init_device_mesh, meshes.init_process_group = dist.init_device_mesh, started
    # `fully_shard` asks it for the device of its mesh.
    torch._C._get_accelerator = lambda *_: torch.device("cpu")  # noqa: SLF001
    # One process has no others to share its statistics with, and torch has the layer for GPUs alone.
    torch.nn.SyncBatchNorm.convert_sync_batchnorm = staticmethod(lambda module, *_: module)
    torch.nn.parallel.DistributedDataParallel.__init__ = wrapped


def run_script(target: Path | None, path: str, arguments: list[str], *, extent: Extent | None = None) -> None:
    """Run a script as `python path arguments` would, on the emulated accelerator."""
    path = os.path.abspath(path)
    sys.argv = [path, *arguments]
    sys.path[0] = os.path.dirname(path)  # what python does
    torchvision_standin.install()
    recorder = Recorder(is_on_accelerator, extent)
    with emulation(), recorder.kept(target) if target else contextlib.nullcontext():
        show_to(sys.path[0])
        _spread_over_the_cpu()
        runpy.run_path(path, run_name="__main__")


if __name__ == "__main__":  # tpulint: ignore[TPU001]
    if sys.argv[1] == "--record":
        run_script(Path(sys.argv[2]).resolve(), sys.argv[3], sys.argv[4:])
    else:
        run_script(None, sys.argv[1], sys.argv[2:])
