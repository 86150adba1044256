"""The wrapper `single_process(module)`, in place of `DistributedDataParallel`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch

    from .single_process import DataParallel


def single_process(module: torch.nn.Module) -> DataParallel:
    """Wrap a module like `DataParallel` or `DistributedDataParallel`, without distributing it over devices.

    Args:
        module: the module to wrap.

    Returns:
        An instance of both classes. It moves tensors among its inputs to the device of the module, and calls
        the module. It has the attribute `module`, the names of its parameters begin with `module.`, and
        `no_sync()` does nothing.

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> model = torchax_compat.single_process(torch.nn.Linear(2, 1))
        >>> [name for name, _ in model.named_parameters()]
        ['module.weight', 'module.bias']
    """
    from .single_process import DataParallel

    wrapped: DataParallel = DataParallel(module)
    return wrapped
