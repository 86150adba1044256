"""A pickle module for `torch.save` that writes torchax tensors as CPU tensors.

If CUDA is available, it is Python's own pickler.
Use it as `torch.save(state, path, pickle_module=torchax_pickle)`.
"""

import torch

if torch.cuda.is_available():
    from pickle import Pickler, dump
else:
    from .pickling import Pickler, dump

__all__ = ["Pickler", "dump"]
