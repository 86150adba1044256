"""What a program leaves behind beside its print: losses, parameters and buffers, and what torchax executed.

Both launchers keep a record without the program's help.
"""

from __future__ import annotations

import functools
import inspect
import pickle
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tpulint.verify import torchvision_standin
from tpulint.verify.observe import observed
from tpulint.verify.steps import Extent, StepCounter, shift
from tpulint.verify.values import Array, Group

_WRAPPERS = {"DataParallel", "DistributedDataParallel", "OptimizedModule"}
"""Modules that hold the program's own and nothing beside it; a fix may take them away."""


_RESOLUTION = {"bfloat16": 2.0**-8, "float16": 2.0**-11}
"""How far apart two numbers next to each other are, as a part of them."""


@dataclass(frozen=True, slots=True)
class Loss:
    """A tensor that `backward` was called on."""

    value: float
    """The sum of its elements."""
    at: float
    """The processor time of the process at the call, in seconds."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a module that is part of no other: at the end, and before the first `backward`."""

    module: str
    values: Group
    start: Group | None = None
    on_accelerator: frozenset[str] = frozenset()
    """Names of what lies on the accelerator: the emulated one in the reference, torchax else."""
    parameters: frozenset[str] = frozenset()
    """Names of what is a parameter; the others are buffers."""


@dataclass(frozen=True, slots=True)
class Record:
    """What one run of a program left behind."""

    operations: int = 0
    stood_in: tuple[str, ...] = ()
    losses: tuple[Loss, ...] = ()
    began: float = 0.0
    """The processor time of the process when it called the first module, in seconds."""
    states: tuple[State, ...] = ()
    steps: int = 0
    """The number of steps that the optimizer with the most steps took."""
    resolution: float = 0.0
    """What the 16-bit dtype resolves that modules computed in; 0 if none did."""

    def __str__(self) -> str:
        return (
            f"{self.operations} operations, {len(self.losses)} losses, {len(self.states)} modules with state"
        )


def read(path: Path) -> Record:
    """The record in a file that a launcher wrote; an empty one if there is none, as after a crash."""
    record = pickle.loads(path.read_bytes()) if path.exists() else Record()
    assert isinstance(record, Record)
    return record


class Recorder:
    """Watches a program that runs in this process; `is_there` says whether a tensor is on the accelerator."""

    def __init__(self, is_there: Callable[[Any], bool], extent: Extent | None = None) -> None:
        self._is_there = is_there
        self._extent = extent or Extent()
        self._counter = StepCounter(self._extent.steps)
        self._losses: list[Loss] = []
        #: Losses whose values are read later, with the times of their calls.
        self._unread: list[tuple[Any, float]] = []
        self._modules: dict[int, Any] = {}
        self._start: dict[int, Group] = {}
        self._began = 0.0
        self._depth = 0
        self._half = ""

    @contextmanager
    def kept(self, target: Path, executed: Callable[[], int] = lambda: 0) -> Iterator[None]:
        """Watch what happens within; leave the record in `target` at its end, unless it dies."""
        self._install()
        try:
            yield
        except SystemExit:
            self._leave(target, executed())
            raise
        self._leave(target, executed())

    def _install(self) -> None:
        import torch

        # A copy of a module is not initialised, but filled.
        for method in ("__init__", "__setstate__"):
            self._note_modules(torch.nn.Module, method)
        self._note_losses(torch.Tensor)
        self._note_losses(torch.autograd)

        def begin(*_: object) -> None:
            self._began = time.process_time()
            first.remove()
            if self._extent.shift:
                weights = [p for module in self._roots() for p in module.parameters()]
                shift(weights, self._extent.shift, self._extent.relative_shift)

        first = torch.nn.modules.module.register_module_forward_pre_hook(begin)
        if self._extent.steps:
            self._counter.install()
            torch.nn.modules.module.register_module_forward_hook(self._note_dtype)

    def _note_dtype(self, _module: Any, _inputs: Any, result: Any) -> None:
        """Note the dtype of a module's result, if it has 16 bits."""
        name = str(getattr(result, "dtype", "")).removeprefix("torch.")
        if name in _RESOLUTION:
            self._half = name

    def _leave(self, target: Path, operations: int) -> None:
        self._read()
        stood_in = tuple(sorted(torchvision_standin.used))
        states = tuple(self._state(module) for module in self._roots() if _tensors(module))
        steps = self._counter.steps
        resolution = _RESOLUTION.get(self._half, 0.0)
        record = Record(operations, stood_in, tuple(self._losses), self._began, states, steps, resolution)
        target.write_bytes(pickle.dumps(record))

    def _state(self, module: Any) -> State:
        there = {name for name, value in _tensors(module).items() if self._is_there(value)}
        start = self._start.get(id(module))
        parameters = frozenset(name for name, _ in module.named_parameters(remove_duplicate=False))
        return State(type(module).__name__, _values(module), start, frozenset(there), parameters)

    def _note_modules(self, owner: Any, name: str) -> None:
        method = getattr(owner, name)

        @functools.wraps(method)
        def noted(module: Any, *args: Any, **kwargs: Any) -> Any:
            # What a call of a module makes for itself is gone with it, and may hold what JAX traces.
            if not _is_module_called():
                self._modules.setdefault(id(module), module)
            return method(module, *args, **kwargs)

        setattr(owner, name, noted)

    def _note_losses(self, owner: Any) -> None:
        backward = owner.backward

        @functools.wraps(backward)
        def noted(tensors: Any, *args: Any, **kwargs: Any) -> Any:
            with self._outermost() as is_outermost:
                if is_outermost and not _is_traced(tensors):
                    self._note(tensors if isinstance(tensors, (list, tuple)) else [tensors])
                return backward(tensors, *args, **kwargs)

        owner.backward = noted

    @contextmanager
    def _outermost(self) -> Iterator[bool]:
        """Whether this is the program's own call: one `backward` calls the other, and itself under a mode."""
        self._depth += 1
        try:
            yield self._depth == 1
        finally:
            self._depth -= 1

    def _note(self, losses: Sequence[Any]) -> None:
        """Note losses, whose values are read with the next ones: a step in between may need them unread."""
        if not self._losses and not self._unread:
            self._start = {id(module): _values(module) for module in self._roots()}
        self._read()
        self._unread = [(loss, time.process_time()) for loss in losses]

    def _read(self) -> None:
        for loss, at in self._unread:
            value = observed(loss)
            assert isinstance(value, Array)
            self._losses.append(Loss(float(value.data.sum()), at))
        self._unread = []

    def _roots(self) -> list[Any]:
        """The modules that are part of no other, in the order of their making."""
        own = [module for module in self._modules.values() if type(module).__name__ not in _WRAPPERS]
        inner = {id(part) for module in own for part in module.modules() if part is not module}
        return [m for m in own if id(m) not in inner and not any(map(_is_empty, _tensors(m).values()))]


def _is_empty(tensor: Any) -> bool:
    """Whether a tensor has no values: JAX traces it, or it is of the device `meta`."""
    return _is_traced(tensor) or (hasattr(tensor, "device") and tensor.device.type == "meta")


def _is_traced(tensor: Any) -> bool:
    """Whether JAX traces a tensor, so that it has no value."""
    jax = sys.modules.get("jax")
    held = getattr(tensor, "__dict__", {})  # to ask a tensor may compute it
    return jax is not None and isinstance(held.get("_elem"), jax.core.Tracer)


def _is_module_called() -> bool:
    """Whether a call of a module is under way."""
    frame = inspect.currentframe()
    while frame is not None and frame.f_code.co_name != "_call_impl":
        frame = frame.f_back
    return frame is not None


def _values(module: Any) -> Group:
    return Group("mapping", tuple((name, observed(tensor)) for name, tensor in _tensors(module).items()))


def _tensors(module: Any) -> dict[str, Any]:
    """A module's variables themselves, since detaching them would be an operation of torchax."""
    try:
        tensors: dict[str, Any] = module.state_dict(keep_vars=True)
    except TypeError:  # one of the program's own, as averages of weights have, takes nothing
        tensors = dict([*module.named_parameters(), *module.named_buffers()])
    return tensors
