"""`F.scaled_dot_product_attention` with a mask, as PyTorch computes it.

Rows that may attend to nothing, such as left padding under a causal mask, are zeros in PyTorch.
In torchax they are NaN, or have NaN as gradients.
torchax also raises for a float mask that differs between the elements of a batch.

PyTorch's matrix product combines the dimensions of samples and of heads.
Where heads are sharded, XLA cannot shard the combined dimension as the two were, and divides the heads
themselves instead, which takes collectives for each of the products.
On one device, a step of a GPT with the two dimensions apart takes 8 % more memory.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import torch
from torch.nn import functional
from torchax.ops.mappings import t2j_dtype

from ..patches.declarations import operator
from ..tensor import arrays, sharding
from . import splash_attention

_aten = torch.ops.aten


def _softmax(x: Any, dim: Any, dtype: Any = None) -> Any:
    x = x if dtype is None else x.astype(t2j_dtype(dtype))
    empty = jnp.all(jnp.isneginf(x), axis=dim, keepdims=True)
    # An empty row attends to everything before it is set to zero: its gradient would be NaN otherwise.
    return jnp.where(empty, 0, jax.nn.softmax(jnp.where(empty, 0, x), axis=dim))


def _product(some: torch.Tensor, others: torch.Tensor) -> torch.Tensor:
    """The product of matrices, whose other dimensions stay apart where heads may be sharded."""
    values = arrays.array_of(some), arrays.array_of(others)
    is_traced = any(isinstance(value, jax.core.Tracer) for value in values)
    if is_traced and sharding.mesh().shape["model"] > 1:
        return arrays.tensor(jnp.matmul(*values))
    return some @ others


def _attention(
    query: Any,
    key: Any,
    value: Any,
    attn_mask: Any = None,
    dropout_p: Any = 0.0,
    is_causal: bool = False,
    scale: Any = None,
    enable_gqa: bool = False,
) -> Any:
    if query.dtype == torch.float16:
        # PyTorch multiplies float16 into float32, where products of large queries and keys do not overflow.
        bias = attn_mask is not None and attn_mask.is_floating_point()
        mask = attn_mask.float() if bias else attn_mask
        given = (query.float(), key.float(), value.float(), mask, dropout_p, is_causal, scale, enable_gqa)
        return _attention(*given).half()
    q, k, v = (arrays.array_of(one) for one in (query, key, value))
    if attn_mask is None and splash_attention.is_used(q, k, v, dropout_p, has_groups=enable_gqa):
        return arrays.tensor(splash_attention.attended(q, k, v, scale, is_causal=is_causal))
    if enable_gqa:
        key, value = (x.repeat_interleave(query.size(-3) // x.size(-3), -3) for x in (key, value))
    weights = _product(query, key.transpose(-2, -1)) * (query.size(-1) ** -0.5 if scale is None else scale)
    if attn_mask is None and is_causal:
        shown = torch.ones(weights.shape[-2:], dtype=torch.bool, device=query.device).tril()
        # The TPU compiler needs less memory than for a `masked_fill` of the weights.
        weights = weights + torch.zeros(shown.shape, dtype=query.dtype, device=query.device).masked_fill(
            ~shown, float("-inf")
        )
    elif attn_mask is not None and attn_mask.dtype == torch.bool:
        weights = weights.masked_fill(~attn_mask, float("-inf"))
    elif attn_mask is not None:
        weights = weights + attn_mask
    weights = weights.softmax(-1) if attn_mask is None else _aten._safe_softmax(weights, -1)
    if dropout_p > 0:
        weights = torch.dropout(weights, dropout_p, train=True)
    return _product(weights, value)


operator(
    _softmax,
    _aten._safe_softmax,
    _aten._safe_softmax.default,
    why="Rows that may attend to nothing are NaN in torchax, and zeros in PyTorch.",
)
operator(
    _attention,
    functional.scaled_dot_product_attention,
    _aten.scaled_dot_product_attention,
    why="torchax gives NaN for rows that may attend to nothing, and raises for float masks with a batch.",
    is_jax_function=False,
)
