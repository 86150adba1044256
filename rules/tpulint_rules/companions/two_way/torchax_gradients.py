"""The mark of functions that call `torch.autograd.grad`, on CUDA and elsewhere by `torchax_gradients_by_jax`."""

from __future__ import annotations

import importlib

import torch

if torch.cuda.is_available():  # tpulint: ignore[TPU103]

    def recorded(function):
        """The function as it is."""
        return function

else:
    _name = "torchax_gradients_by_jax"
    recorded = importlib.import_module(f".{_name}" if __package__ else _name, __package__).recorded
