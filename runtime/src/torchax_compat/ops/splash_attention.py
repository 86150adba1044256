"""Splash attention of JAX for long sequences on a TPU, which keeps no matrix of all pairs of positions.

The environment variable `TORCHAX_COMPAT_SPLASH_ATTENTION` says from which length on it is used, such as 4096.
By the TPU compiler (v5e), forward and backward pass of a causal attention with 8 heads, 8,192 positions and
bfloat16 take 0.12 GB of temporary memory with it, and 2.2 GB without.
XLA cannot partition the kernel: on several devices, each computes the attention of its own samples and heads.
"""

from __future__ import annotations

import math
from typing import Any

import jax
from jax.sharding import PartitionSpec

from .. import ranks
from ..ranks import between_processes, launchers
from ..tensor import copies

#: The environment variable with the least length of sequences.
VARIABLE = "TORCHAX_COMPAT_SPLASH_ATTENTION"
#: The kernel computes blocks of so many positions; the first number that divides the length is used.
_BLOCKS = (512, 256, 128)


def is_used(query: Any, key: Any, value: Any, dropout: float, *, has_groups: bool) -> bool:
    """Whether splash attention computes an attention without a mask, of arrays."""
    least = launchers.number(VARIABLE, 0)
    if not least or dropout or has_groups or jax.default_backend() != "tpu":
        return False
    if ranks.context() is ranks.Context.IN_TURN:
        return False  # the samples of one rank are on all devices
    lengths = query.shape[-2], key.shape[-2]
    fits = query.ndim == 4 and query.shape[:2] == key.shape[:2] and key.shape == value.shape
    return fits and min(lengths) >= least and all(length % _BLOCKS[-1] == 0 for length in lengths)


def attended(
    query: Any, key: Any, value: Any, scale: float | None, *, is_causal: bool, interprets: bool = False
) -> Any:
    """The results of an attention of arrays with the shape (batch, heads, length, size).

    Args:
        query, key, value: the arrays.
        scale: the factor of the weights, None for that by the size.
        is_causal: whether a position attends to none behind it.
        interprets: whether to interpret the kernel, for a test without a TPU.
    """
    factor = 1 / math.sqrt(query.shape[-1]) if scale is None else scale

    def compute(query: Any, key: Any, value: Any) -> Any:
        return jax.vmap(_kernel(query, key, is_causal, interprets))(query, key, value)

    mesh = _mesh()
    if mesh is not None:
        spec = _spec(mesh, query.shape)
        compute = jax.shard_map(
            compute,
            mesh=mesh,
            in_specs=(spec,) * 3,
            out_specs=spec,
            axis_names={*mesh.axis_names}.difference(getattr(mesh, "manual_axes", ())),
            check_vma=False,
        )
    return compute(query * query.dtype.type(factor), key, value)


def _kernel(query: Any, key: Any, is_causal: bool, interprets: bool) -> Any:
    """The kernel for the heads of a sample."""
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as kernels
    from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

    shape = query.shape[-2], key.shape[-2]
    mask = masks.CausalMask(shape) if is_causal else masks.FullMask(shape)
    q, kv = (next(block for block in _BLOCKS if length % block == 0) for length in shape)
    return kernels.make_splash_mha(
        masks.MultiHeadMask([mask] * query.shape[1]),
        block_sizes=kernels.BlockSizes(
            block_q=q,
            block_kv=kv,
            block_kv_compute=kv,
            block_q_dkv=q,
            block_kv_dkv=kv,
            block_kv_dkv_compute=kv,
            block_q_dq=q,
            block_kv_dq=kv,
        ),
        head_shards=1,
        q_seq_shards=1,
        interpret=interprets,
    )


def _mesh() -> Any:
    """The devices over which the arrays are sharded or replicated; None if they are on a single one."""
    if ranks.context() is ranks.Context.JOINED:
        return between_processes.same_on_all().mesh
    mesh = between_processes.own_mesh()
    return mesh if copies.are_placed() and mesh.size > 1 else None


def _spec(mesh: Any, shape: tuple[int, ...]) -> PartitionSpec:
    """How samples and heads are sharded over a mesh; the dimension of mapped ranks comes in front of them."""
    axes = (None if ranks.context() else ranks.AXIS, ranks.MODEL_AXIS)
    return PartitionSpec(
        *(
            None if axis is None or length % mesh.shape[axis] else axis
            for axis, length in zip(axes, shape, strict=False)
        )
    )
