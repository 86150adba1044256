"""Operators that torchax lacks: nothing on CUDA, and elsewhere what `torchax_operators_by_jax` brings in."""

from __future__ import annotations

import importlib

import torch

if not torch.cuda.is_available():  # tpulint: ignore[TPU103]
    _name = "torchax_operators_by_jax"
    importlib.import_module(f".{_name}" if __package__ else _name, __package__)
