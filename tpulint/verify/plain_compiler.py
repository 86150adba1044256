"""What needs torch's compiler, without it: the compiler cannot trace the emulation of an accelerator."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import torch
from torch._higher_order_ops.flex_attention import math_attention
from torch.nn.attention import flex_attention as flex


def install() -> None:
    """Let `torch.compile` compile nothing, and let `flex_attention` compute in plain operators."""
    torch.compile = _uncompiled
    flex.flex_attention = _attention


@functools.wraps(torch.compile)
def _uncompiled(model: Any = None, **options: Any) -> Any:
    if model is None:
        return functools.partial(_uncompiled, **options)
    return torch.compiler.disable(model) if isinstance(model, torch.nn.Module) else model


def _attention(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Callable[..., torch.Tensor] | None = None,
    block_mask: Any = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,  # noqa: ARG001 # of GPU kernels
    *,
    return_aux: Any = None,
) -> Any:
    """`flex_attention` by the function that PyTorch itself computes it with on the CPU.

    Its own refuses tensors that require gradients on the CPU.
    """
    if not enable_gqa and query.size(1) != key.size(1):
        raise ValueError("Expect query and key/value to have the same number of heads")
    mask = (flex.noop_mask,) if block_mask is None else block_mask.as_tuple()
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    made, lse, best = math_attention(query, key, value, score_mod or flex._identity, mask, scale, {})  # noqa: SLF001
    lse, best = lse * math.log(2), best * math.log(2)
    if return_aux is not None:
        wanted = (lse if return_aux.lse else None), (best if return_aux.max_scores else None)
        return made, flex.AuxOutput(*wanted)
    return (made, lse) if return_lse else made
