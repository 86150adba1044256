"""CPU tensors and views as arguments of a decorated function, which gets copies of them on the device.

Writes to a copy, such as those to an average of weights that was loaded from a file, are written to the
tensor after the call.
"""

from __future__ import annotations

from typing import Any

import torch
import torchax


def copies(tensors: Any, given: Any) -> Any:
    """The tensors that were copied, with the copy and its array."""
    return [(one, copy, copy.jax()) for one, copy in zip(tensors, given, strict=False) if one is not copy]


def write_back(copies: Any) -> None:
    """Write the changes of the copies to the tensors."""
    for tensor, copy, value in copies:
        if copy.jax() is value:
            continue
        with torch.no_grad():
            if isinstance(tensor, torchax.view.View):
                tensor.update(copy)
            elif tensor.shape == copy.shape and tensor.dtype == copy.dtype:
                tensor.copy_(copy.detach().cpu())
            else:
                tensor.data = copy.detach().cpu()
