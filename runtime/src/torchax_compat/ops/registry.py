"""Registration of implementations of torch operations with torchax."""

from __future__ import annotations

import torchax
from torch._ops import OpOverload, OpOverloadPacket
from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # which registers torchax's own


def register(function, *operations, by_jax=True, is_user_defined=False, needs_env=False, is_view_op=False):
    """Let a function of JAX arrays, or of torch tensors, compute operations."""
    for operation in operations:
        made = ops_registry.Operator(
            operation,
            function,
            is_jax_function=by_jax,
            is_user_defined=is_user_defined,
            needs_env=needs_env,
            is_view_op=is_view_op,
        )
        is_aten = isinstance(operation, (OpOverload, OpOverloadPacket))
        known = ops_registry.all_aten_ops if is_aten else ops_registry.all_torch_functions
        known[operation] = made
        if torchax._env is not None:
            torchax._env._ops[operation] = made
