"""What `torch.save(..., pickle_module=torchax_pickle)` pickles with: Python's own on CUDA."""

import torch

if torch.cuda.is_available():
    from pickle import Pickler, dump
else:
    from .pickling import Pickler, dump

__all__ = ["Pickler", "dump"]
