"""`Trainer` of transformers on torchax: its loss has gradients, and its optimizer is compiled.

`Trainer` calls `compute_loss`, which programs override, then `backward()`, clips gradients, and calls the
optimizer.
So `compute_loss` is decorated with `@differentiable`, and the optimizer gets `compile_optimizer`, as
`tpulint fix` does in a program with a loop of its own.
Nothing changes where the trainer computes on another device: accelerate reads the device from the environment
variable `ACCELERATE_TORCH_DEVICE`.
"""

from __future__ import annotations

import functools
import os
from types import ModuleType
from typing import Any

from ..autograd.differentiable import differentiable
from ..optim.compilation import compile_optimizer
from ..patches.application import Undo
from ..patches.declarations import setup
from ..patches.import_hooks import AfterImport


def _replacements(module: ModuleType) -> list[tuple[Any, str, Any]]:
    trainer = module.Trainer
    make, make_optimizer = trainer.__init__, trainer.create_optimizer

    @functools.wraps(make)
    def initialize(self: Any, *args: Any, **kwargs: Any) -> None:
        make(self, *args, **kwargs)
        if _is_on_torchax(self):
            self.compute_loss = differentiable(self.compute_loss)

    @functools.wraps(make_optimizer)
    def create_optimizer(self: Any, *args: Any, **kwargs: Any) -> Any:
        made = make_optimizer(self, *args, **kwargs)
        if _is_on_torchax(self) and self.optimizer is not None:
            compile_optimizer(self.optimizer)
        return made

    return [(trainer, "__init__", initialize), (trainer, "create_optimizer", create_optimizer)]


def _is_on_torchax(trainer: Any) -> bool:
    return bool(trainer.args.device.type == "jax")


def _checks(module: ModuleType) -> list[tuple[Any, str, Any]]:
    has_bfloat16 = module.is_torch_bf16_gpu_available

    @functools.wraps(has_bfloat16)
    def available() -> bool:
        return os.environ.get("ACCELERATE_TORCH_DEVICE") == "jax" or has_bfloat16()

    return [(module, "is_torch_bf16_gpu_available", available)]


@setup("transformers.training_args", why="`TrainingArguments(bf16=True)` looks for a GPU with bfloat16.")
def _add_check() -> Undo:
    return AfterImport("transformers.training_args", _checks).add()


@setup("transformers.trainer", why="`Trainer` calls `backward()` on what torchax computed without gradients.")
def _add_hook() -> Undo:
    return AfterImport("transformers.trainer", _replacements).add()
