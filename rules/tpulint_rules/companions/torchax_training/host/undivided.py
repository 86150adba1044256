"""What spreads a module over GPUs, where one process drives all chips: it calls the module.

Importing this file makes `torch.nn.parallel.data_parallel` do so, too, and classes that are made of
`DataParallel`, such as the `DataParallelWithCallback` of synchronised batch normalisation.
"""

from __future__ import annotations

import contextlib
import sys

import torch
from torch.nn.parallel import DistributedDataParallel


class DataParallel(torch.nn.DataParallel, DistributedDataParallel):
    """A wrapper of either kind: it has the `module`, and the names that parameters have behind one."""

    def __init__(self, module):
        torch.nn.Module.__init__(self)
        self.module, self.device_ids = module, []

    def forward(self, *inputs, **kwargs):
        return self.module(*inputs, **kwargs)

    def train(self, mode=True):
        return torch.nn.Module.train(self, mode)

    def __getstate__(self):
        return self.__dict__.copy()

    def __setstate__(self, state):
        torch.nn.Module.__setstate__(self, state)

    @contextlib.contextmanager
    def no_sync(self):
        yield


def _data_parallel(module, inputs, device_ids=None, output_device=None, dim=0, module_kwargs=None):
    """`torch.nn.parallel.data_parallel`."""
    inputs = inputs if isinstance(inputs, tuple) else (inputs,)
    return module(*inputs, **(module_kwargs or {}))


def _devices_to_divide_over():
    """None: a wrapper that finds none calls its module."""


sys.modules["torch.nn.parallel.data_parallel"]._get_available_device_type = _devices_to_divide_over
torch.nn.parallel.data_parallel = _data_parallel


def undivided(module):
    """A module as its wrapper gives it, on all devices at once."""
    return DataParallel(module)
