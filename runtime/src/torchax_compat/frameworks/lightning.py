"""`Trainer` of Lightning on torchax: an accelerator `"jax"`, whose strategy compiles the training step.

`Trainer(accelerator="jax")` trains on one device of JAX.
`training_step` of the `LightningModule` is decorated with `@differentiable`, and the optimizers get
`compile_optimizer`, as `tpulint fix` does in a program with a loop of its own.
What `training_step` logs is a further result of the compiled function, and is logged behind it: the tensors
that it logs are placeholders while JAX traces it.
A step that logs Python numbers runs call by call, so that they are read each time.
Other steps, such as `validation_step`, run one operation at a time, and so does a `training_step` that calls
`backward()` itself (manual optimization), which then gives no gradients: it raises.
"""

# ruff: noqa: ARG002, ARG004 # the methods have the arguments that Lightning passes

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import torch

from ..autograd.differentiable import differentiable
from ..optim.compilation import compile_optimizer
from ..patches.application import Undo
from ..patches.declarations import setup
from ..patches.import_hooks import AfterImport, Replacements

#: The two names under which Lightning is installed.
_PACKAGES = ("lightning.pytorch", "pytorch_lightning")
_NAME = "jax"


class _Log:
    """The calls of `log` of a step, while it is computed."""

    calls: list[tuple[str, Any, dict[str, Any]]] | None = None

    @classmethod
    @contextlib.contextmanager
    def collected(cls) -> Iterator[list[tuple[str, Any, dict[str, Any]]]]:
        outer, cls.calls = cls.calls, []
        try:
            yield cls.calls
        finally:
            cls.calls = outer


def _compute(module: Any, args: Any, kwargs: Any) -> Any:
    """A training step, with what it logs."""
    with _Log.collected() as calls:
        return module.training_step(*args, **kwargs), calls


_compiled = differentiable(_compute)
#: Runs the Python code at each call.
_call_by_call = differentiable(compiled=False)(_compute)


def _is_number(value: Any) -> bool:
    """Whether a logged value is one that a compiled function would not compute again."""
    if isinstance(value, dict):
        return any(map(_is_number, value.values()))
    return isinstance(value, int | float)


def _warn(name: str) -> None:
    warnings.warn(
        f"`training_step` logs the Python number {name!r}, so that it runs call by call, which is slower: "
        "log numbers in `on_train_batch_end`, or with a callback such as `LearningRateMonitor`",
        stacklevel=2,
    )


def _accelerator(base: Any) -> Any:
    """The class of the accelerator, for one of the two packages."""

    class TorchaxAccelerator(base):
        """One device of JAX."""

        def setup_device(self, device: torch.device) -> None:
            """Do nothing: the environment is entered already."""

        def get_device_stats(self, device: Any) -> dict[str, Any]:
            """Give no statistics."""
            return {}

        def teardown(self) -> None:
            """Do nothing."""

        @staticmethod
        def parse_devices(devices: Any) -> int:
            """One device, however many are asked for."""
            return 1

        @staticmethod
        def get_parallel_devices(devices: Any) -> list[torch.device]:
            """The device of torchax."""
            return [torch.device("jax")]

        @staticmethod
        def auto_device_count() -> int:
            """One device."""
            return 1

        @staticmethod
        def is_available() -> bool:
            """Whether there is such a device, which there is in the torchax environment."""
            return True

        @staticmethod
        def name() -> str:
            """The name in the registry of Lightning."""
            return _NAME

    return TorchaxAccelerator


def _strategy(base: Any) -> Any:
    """The class of the strategy, for one of the two packages."""

    class TorchaxStrategy(base):
        """A strategy for one device that compiles training steps and optimizers."""

        strategy_name = "single_jax"
        _logs_numbers = False

        def training_step(self, *args: Any, **kwargs: Any) -> Any:
            """Compute a training step, and log what it logs."""
            module = self.lightning_module
            if not module.automatic_optimization:
                raise NotImplementedError(
                    "Lightning's manual optimization does not work on torchax: `manual_backward()` gives no "
                    "gradients of what `training_step` computes. Use automatic optimization, or a loop of "
                    "your own."
                )
            compute = _call_by_call if self._logs_numbers else _compiled
            with self.precision_plugin.train_step_context():
                result, calls = compute(module, args, kwargs)
            if not self._logs_numbers and any(_is_number(value) for _, value, _ in calls):
                self._logs_numbers = True
                _warn(next(name for name, value, _ in calls if _is_number(value)))
            for name, value, options in calls:
                module.log(name, value, **options)
            return result

        def setup_optimizers(self, trainer: Any) -> None:
            """Create the optimizers, and compile them."""
            super().setup_optimizers(trainer)
            # Schedulers, which are made before, find another `step`, and warn that they may come too early.
            warnings.filterwarnings("ignore", "Seems like `optimizer.step\\(\\)` has been overridden")
            for optimizer in self.optimizers:
                compile_optimizer(optimizer)

    return TorchaxStrategy


def _logging(module: ModuleType) -> list[tuple[Any, str, Any]]:
    owner = module.LightningModule
    log = owner.log

    @functools.wraps(log)
    def logged(self: Any, name: str, value: Any, *args: Any, **kwargs: Any) -> None:
        if _Log.calls is None:
            log(self, name, value, *args, **kwargs)
            return
        options = dict(zip(_OPTIONS, args, strict=False)) | kwargs
        _Log.calls.append((name, value, options))

    return [(owner, "log", logged)]


#: The arguments of `LightningModule.log` behind the value that may be passed by position.
_OPTIONS = ("prog_bar", "logger", "on_step", "on_epoch", "reduce_fx", "enable_graph", "sync_dist")


def _connecting(module: ModuleType) -> list[tuple[Any, str, Any]]:
    connector = module._AcceleratorConnector
    accelerator, strategy = _accelerator(module.Accelerator), _strategy(module.SingleDeviceStrategy)
    check, choose, make_precision = (
        connector._check_config_and_set_final_flags,
        connector._check_strategy_and_fallback,
        connector._check_and_init_precision,
    )

    @functools.wraps(check)
    def check_config(self: Any, *args: Any, **kwargs: Any) -> None:
        if kwargs.get("accelerator") == _NAME:
            kwargs["accelerator"] = accelerator()
        check(self, *args, **kwargs)

    @functools.wraps(choose)
    def check_strategy(self: Any) -> None:
        if isinstance(self._accelerator_flag, accelerator):
            if not isinstance(self._strategy_flag, module.SingleDeviceStrategy):
                given = self._strategy_flag
                raise ValueError(
                    f"the accelerator 'jax' uses one device: pass `strategy='auto'`, not {given!r}"
                )
            self._strategy_flag = strategy(device=torch.device("jax"))
        choose(self)

    @functools.wraps(make_precision)
    def precision(self: Any) -> Any:
        on_jax = isinstance(self._accelerator_flag, accelerator)
        if on_jax and self._precision_flag == "16-mixed":
            self._precision_flag = "bf16-mixed"  # as Lightning does on the CPU
        made = make_precision(self)
        if on_jax and isinstance(made, module.MixedPrecision):
            made.device = "jax"
        return made

    return [
        (connector, "_check_config_and_set_final_flags", check_config),
        (connector, "_check_strategy_and_fallback", check_strategy),
        (connector, "_check_and_init_precision", precision),
    ]


def _added(module: str, replacements: Replacements) -> Undo:
    """Replace attributes of a module of both packages."""
    undone = [AfterImport(f"{package}.{module}", replacements).add() for package in _PACKAGES]

    def undo() -> None:
        for one in undone:
            one()

    return undo


@setup("lightning.pytorch.LightningModule.log", why="`log` keeps what a traced training step computes.")
def _add_log() -> Undo:
    return _added("core.module", _logging)


@setup("lightning.pytorch.Trainer", why="Lightning has no accelerator for torchax.")
def _add_accelerator() -> Undo:
    return _added("trainer.connectors.accelerator_connector", _connecting)
