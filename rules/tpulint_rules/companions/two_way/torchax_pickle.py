"""What `torch.save` pickles with: Python's own on CUDA, and elsewhere `torchax_pickle_by_jax`."""

from __future__ import annotations

import importlib
import pickle

import torch

if torch.cuda.is_available():
    _pickling = pickle
else:
    _name = "torchax_pickle_by_jax"
    _pickling = importlib.import_module(f".{_name}" if __package__ else _name, __package__)
Pickler, dump = _pickling.Pickler, _pickling.dump
