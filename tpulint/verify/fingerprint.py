"""What tells one piece of host data from another."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from tpulint.verify.observe import part_of_rank


def fingerprint(data: Any) -> str:
    """A digest of dtype, shape and bytes, or of whatever else makes the data."""
    import torch

    if isinstance(data, torch.Tensor):
        plain = part_of_rank(data).detach().cpu()
        plain = plain if plain.layout is torch.strided else plain.to_dense()
        plain = plain.clone(memory_format=torch.contiguous_format)  # one element may have any stride
        described = (
            f"{plain.dtype}{tuple(plain.shape)}".encode()
            + plain.flatten().view(torch.uint8).numpy().tobytes()
        )
    else:
        try:
            described = pickle.dumps(data)
        except Exception:  # whatever it is, its text is all there is to tell it by
            described = repr(data).encode()
    return hashlib.sha256(described).hexdigest()
