"""`flex_attention` in plain operators.

PyTorch's `flex_attention` refuses tensors on torchax's device, and fails for CPU tensors, too, once torchax
is imported.
`score_mod` and `mask_mod` are called as in PyTorch: with one score, or one position, at a time, by `vmap`.
The matrix of all scores is stored in memory.
"""

from __future__ import annotations

import contextlib
import inspect
import math
from typing import Any

import torch
from torch.nn.attention import flex_attention as flex

from ..adapters.torch_internals import (
    LARGE_SPARSE_BLOCK_SIZE,
    DisableTorchFunction,
    no_dispatch,
    sliced_mask_mod_error,
    validate_embed_dim,
    vmap_over_scores,
)
from ..autograd.func_transforms import are_on_torchax
from ..patches.declarations import TORCH, patch
from ..patches.function_code import code_that_calls

_WHY = "PyTorch refuses tensors on torchax's device, and fails for CPU tensors once torchax is imported."
_UPSTREAM = TORCH + "nn/attention/flex_attention.py"


@patch(
    "torch.nn.attention.flex_attention:_attention_in_plain_operators",
    why=_WHY,
    upstream=_UPSTREAM,
    is_new=True,
)
def _attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Any = None,
    block_mask: Any = None,
    scale: Any = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    kernel_options: Any = None,  # noqa: ARG001 # of torch's kernels for GPUs
    *,
    return_aux: Any = None,
) -> Any:
    _refuse_mismatches(query, key, value, block_mask, enable_gqa)
    if return_lse and return_aux is not None:
        raise ValueError("Cannot specify both return_lse and return_aux.")
    with contextlib.ExitStack() as stack:
        if not are_on_torchax(query, key, value):  # torchax does not know what `vmap` makes of CPU tensors
            stack.enter_context(DisableTorchFunction())
            stack.enter_context(no_dispatch())
        made, scores = _computed(query, key, value, score_mod, block_mask, scale)
    if return_aux is not None:
        lse = torch.logsumexp(scores, -1) if return_aux.lse else None
        return made, flex.AuxOutput(lse=lse, max_scores=scores.amax(-1) if return_aux.max_scores else None)
    return (made, torch.logsumexp(scores, -1)) if return_lse else made


def _refuse_mismatches(query: Any, key: Any, value: Any, block_mask: Any, enable_gqa: Any) -> None:
    """Raise what PyTorch raises for shapes that do not match."""
    validate_embed_dim(query, key, value)
    if any(x.dim() != 4 for x in (query, key, value)):
        raise NotImplementedError("NYI: query, key, and value must be 4D tensors")
    heads, of_keys = query.size(1), key.size(1)
    if heads % of_keys if enable_gqa else heads != of_keys:
        raise ValueError(f"Expect matching numbers of heads, but got Hq={heads} and Hkv={of_keys}.")
    if block_mask is None:
        if query.size(0) != key.size(0):
            raise ValueError("Expect query and key/value to have the same batch size, or a block_mask.")
        return
    if block_mask.mask_mod is sliced_mask_mod_error:
        raise RuntimeError("Cannot use mask_mod from a sliced BlockMask")
    if not _is_whole(block_mask) and tuple(block_mask.shape[-2:]) != (query.size(2), key.size(2)):
        raise ValueError(
            f"block_mask was created for block_mask.shape={block_mask.shape} "
            f"but got q_len={query.size(2)} and kv_len={key.size(2)}."
        )


def _computed(query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, scale: Any) -> Any:
    """The result, and the scores before the softmax."""
    groups = query.size(1) // key.size(1)
    if groups > 1:
        key, value = (x.repeat_interleave(groups, dim=1) for x in (key, value))
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    precise = torch.float64 if query.dtype == torch.float64 else torch.float32
    scores = query.to(precise) @ key.to(precise).transpose(-2, -1) * scale
    places = [torch.arange(size, device=scores.device) for size in scores.shape]
    if score_mod is not None:
        scores = vmap_over_scores(score_mod, prefix=(0,))(scores, *places).to(precise)
    if block_mask is not None:
        scores = torch.where(_seen(block_mask, places), scores, float("-inf"))
    weights = torch.ops.aten._safe_softmax(scores, -1)
    return weights.to(query.dtype) @ value.to(query.dtype), scores


def _is_whole(block_mask: Any) -> bool:
    """Whether a mask has one block without bounds, as without blocks."""
    return all(size == LARGE_SPARSE_BLOCK_SIZE for size in block_mask.BLOCK_SIZE)


def _seen(block_mask: Any, places: Any) -> Any:
    """The keys that each query sees: those for which `mask_mod` holds in partial blocks, all in full ones."""
    holds = vmap_over_scores(block_mask.mask_mod, prefix=())(*places)
    if _is_whole(block_mask):
        return holds
    sizes, lengths = block_mask.BLOCK_SIZE, [len(place) for place in places[2:]]
    seen = holds & _listed(block_mask.kv_num_blocks, block_mask.kv_indices, sizes, lengths)
    if block_mask.full_kv_num_blocks is None:
        return seen
    return seen | _listed(block_mask.full_kv_num_blocks, block_mask.full_kv_indices, sizes, lengths)


def _listed(counts: Any, indices: Any, block_size: Any, lengths: Any) -> Any:
    """For each query and key, whether a mask lists the block in which they are."""
    device = counts.device
    is_listed = torch.arange(indices.size(-1), device=device) < counts.unsqueeze(-1)
    columns = torch.arange(-(-lengths[1] // block_size[1]), device=device)
    listed = ((indices.unsqueeze(-1) == columns) & is_listed.unsqueeze(-1)).any(-2)
    rows, columns = (
        torch.arange(length, device=device) // size for length, size in zip(lengths, block_size, strict=False)
    )
    return listed[..., rows, :][..., columns]


# Programs may have imported `flex_attention` by name already, so its code is replaced.
for _name, _value, _is_new in (
    ("__signature__", inspect.signature(flex.flex_attention), True),
    ("__code__", code_that_calls("_attention_in_plain_operators"), False),
    ("__defaults__", None, False),
    ("__kwdefaults__", None, False),
):
    patch(
        f"torch.nn.attention.flex_attention:flex_attention.{_name}",
        why=_WHY,
        upstream=_UPSTREAM,
        is_new=_is_new,
    )(_value)
