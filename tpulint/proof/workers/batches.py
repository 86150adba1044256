"""The shapes of the batches of a program's data loader."""

from __future__ import annotations

import functools
import time
from typing import Any

_SECONDS = 10.0
"""The time limit for iterating over batches."""
_MOST_SHAPES = 8
"""How many shapes are listed."""


class LoaderRecorder:
    """Records the last data loader over which a program iterates."""

    def __init__(self) -> None:
        self._latest: Any = None

    def install(self) -> None:
        """Patch `DataLoader` to record its iterations."""
        import torch

        owner = torch.utils.data.DataLoader
        iterate = owner.__iter__

        @functools.wraps(iterate)
        def recorded(loader: Any) -> Any:
            self._latest = loader
            return iterate(loader)

        owner.__iter__ = recorded

    def shapes(self) -> dict[str, Any] | None:
        """The shapes of the batches of the last loader, as JSON values; None if there is no loader."""
        loader = self._latest
        if loader is None:
            return None
        deadline, found, count, is_all = time.monotonic() + _SECONDS, dict[str, None](), 0, True
        for batch in loader:
            found[described(batch)] = None
            count += 1
            if time.monotonic() > deadline:
                is_all = False
                break
        if not is_all and (rest := _last_batch(loader)):
            found[f"a last batch of {rest}"] = None
        return {"count": len(found), "shapes": list(found)[:_MOST_SHAPES], "batches": count, "is_all": is_all}


def _last_batch(loader: Any) -> int:
    """The size of an incomplete last batch; 0 if there is none, or if that is not known."""
    size = getattr(loader, "batch_size", None)
    if not size or loader.drop_last or not hasattr(loader.sampler, "__len__"):
        return 0
    return int(len(loader.sampler) % size)


def described(batch: Any) -> str:
    """The dtypes and shapes of the tensors of a batch, such as `float32[64, 784] int64[64]`."""
    import torch
    from torch.utils import _pytree as pytree

    tensors = [leaf for leaf in pytree.tree_leaves(batch) if isinstance(leaf, torch.Tensor)]
    texts = [f"{str(one.dtype).removeprefix('torch.')}{list(one.shape)}" for one in tensors]
    return " ".join(texts) or type(batch).__name__
