"""A pickle module for `torch.save` that writes torchax tensors as CPU tensors.

Use it as `torch.save(state, path, pickle_module=torchax_pickle)`.
"""

from .pickling import Pickler, dump

__all__ = ["Pickler", "dump"]
