"""The marks of a program that trains on CUDA where there is any, and elsewhere with `torchax_training_by_jax`."""

from __future__ import annotations

import importlib

import torch

if torch.cuda.is_available():  # tpulint: ignore[TPU103]

    def differentiable(function=None, **_options):
        """The function as it is: torch's autograd differentiates it."""
        return function if function is not None else differentiable

    def compiled(optimizer):
        """The optimizer as it is."""
        return optimizer

else:
    _name = "torchax_training_by_jax"
    _by_jax = importlib.import_module(f".{_name}" if __package__ else _name, __package__)
    differentiable, compiled = _by_jax.differentiable, _by_jax.compiled
