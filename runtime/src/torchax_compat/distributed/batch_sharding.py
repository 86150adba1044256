"""Data parallelism: `shard_batches()` shards each batch over all devices."""

from __future__ import annotations

from .. import ranks
from ..environment import is_enabled


def shard_batches() -> None:
    """Shard tensors over all devices when they are moved to torchax, and replicate the tensors of modules.

    From this call until `disable()`, a tensor whose first dimension is a multiple of the number of devices is
    split along it.
    Any other tensor, and the parameters and buffers of modules, are replicated on all devices.
    XLA inserts the communication: a loss and its gradients are those of the whole batch.

    Raises:
        RuntimeError: the runtime is not enabled.
    """
    if not is_enabled():
        raise RuntimeError("call `torchax_compat.enable()` before `shard_batches()`")
    import jax

    from ..tensor import copies, sharding

    count = sharding.mesh().size
    if count == 1:
        return  # JAX compiles functions again for arrays that are committed to a device
    copies.place_by(sharding.placed)
    devices = f"{count} {jax.default_backend()} devices"
    ranks.report_once(
        f"data parallelism over {devices}: mesh ({ranks.AXIS}={count}), because one process splits its "
        "batches over all devices; tensors are sharded along their first dimension if the number of devices "
        "divides it; all others, and the parameters, are replicated"
    )
