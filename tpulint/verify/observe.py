"""Results as plain values, whatever made them: torch, torchax, NumPy or JAX."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Any

from tpulint.verify.values import Array, Group, Opaque, Scalar, Value


def observed(result: Any) -> Value:
    """What a call gave, as plain values."""
    import numpy as np
    import torch

    match result:
        case torch.Tensor():
            return _tensor(result)
        case np.ndarray():
            return Array("numpy", result.dtype.name, _plain(result))
        case np.generic():
            return Scalar(result.item())
        case bool() | int() | float() | complex() | str() | bytes():
            return Scalar(result)
        case torch.dtype():
            return Scalar(str(result))
        case Mapping():
            return Group("mapping", tuple((repr(key), observed(item)) for key, item in result.items()))
        case list() | tuple():
            return Group("sequence", tuple((str(i), observed(item)) for i, item in enumerate(result)))
        case _ if dataclasses.is_dataclass(result) and not isinstance(result, type):
            items = ((f.name, observed(getattr(result, f.name))) for f in dataclasses.fields(result))
            return Group("mapping", tuple(items))
    if "jax" in sys.modules and isinstance(result, sys.modules["jax"].Array):
        return Array("jax", result.dtype.name, _plain(np.asarray(result)))
    return Opaque("None" if result is None else type(result).__name__)


def _tensor(tensor: Any) -> Value:
    import numpy as np
    import torch

    dtype = str(tensor.dtype).removeprefix("torch.")
    torchax = sys.modules.get("torchax")
    if torchax is not None and isinstance(tensor, (torchax.tensor.Tensor, torchax.view.View)):
        return Array("torchax", dtype, _plain(np.asarray(tensor.jax())))
    if tensor.layout is not torch.strided or tensor.is_quantized:
        return Opaque(f"{tensor.layout} tensor")
    tensor = part_of_rank(tensor)
    # Observation must not run through the environment that it observes.
    with torch._C.DisableTorchFunction(), torch.utils._mode_utils.no_dispatch():  # noqa: SLF001
        host = tensor.detach().cpu().resolve_conj().resolve_neg()
        exotic = host.is_floating_point() and host.dtype not in (torch.float16, torch.float32, torch.float64)
        return Array("host", dtype, (host.float() if exotic else host).numpy().copy())


def part_of_rank(tensor: Any) -> Any:
    """The plain tensor of this rank, of a `DTensor`; any other tensor itself."""
    return tensor.to_local() if hasattr(tensor, "to_local") else tensor


def _plain(array: Any) -> Any:
    """The array in a dtype of numpy's own; small float formats widen to float32."""
    import numpy as np

    return array if array.dtype.kind in "biufc" else array.astype(np.float32)
