"""What `torch.save(..., pickle_module=torchax_pickle)` pickles with."""

from .pickling import Pickler, dump

__all__ = ["Pickler", "dump"]
