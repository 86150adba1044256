"""`shard_by_name()`: parameters that are sharded over devices by rules about their names."""

from __future__ import annotations

import re
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from .. import ranks
from ..environment import is_enabled


def shard_by_name(rules: Mapping[str, Sequence[str | None]], *, devices: int | None = None) -> None:
    """Shard parameters by their names, when a module is moved to torchax.

    Modules compute with whole tensors: XLA inserts the communication, and results are those of one device.
    Parameters that no rule names are replicated.

    Args:
        rules: for a regular expression that the whole name of a parameter has to match, as
            `named_parameters()` of the moved module has it, the dimension of the mesh for each dimension of
            the parameter: `"model"`, `"data"`, or None for one that is not sharded.
        devices: the number of devices of the dimension `"model"`; all devices of this process by default.
            Batches are sharded over the other devices, with `shard_batches()` or `one_rank_per_device()`,
            which come first.

    Warns:
        UserWarning: a parameter is replicated, since its shape does not fit to the rule.

    Raises:
        RuntimeError: the runtime is not enabled.
        ValueError: a rule has an unknown dimension, or `devices` does not divide the number of devices.

    Example:
        >>> import torch, torchax_compat
        >>> torchax_compat.enable()
        >>> torchax_compat.distributed.shard_by_name({r"up\\.weight": ("model", None)})
        >>> model = torch.nn.ModuleDict({"up": torch.nn.Linear(2, 4)}).to("jax")
        >>> torchax_compat.disable()
    """
    if not is_enabled():
        raise RuntimeError("call `torchax_compat.enable()` before `shard_by_name()`")
    import jax

    from ..tensor import copies, module_to, sharding

    known = (ranks.AXIS, ranks.MODEL_AXIS, None)
    for pattern, spec in rules.items():
        if not set(spec) <= {*known}:
            raise ValueError(f"the rule for {pattern!r} has {tuple(spec)!r}: dimensions are {known}")
    if ranks.are_counted():
        count = ranks.count() * ranks.model()
        ranks.lay_out(devices or count)
    else:
        count = jax.local_device_count()
        if count % (devices or count):
            raise ValueError(f"`devices={devices}` does not divide {count} devices")
        sharding.use(count // (devices or count), devices or count)
        if count > 1:
            copies.place_by_default(sharding.on_all_devices)
    module_to.AFTER_MOVES.append(_Rules(rules))
    shape = ", ".join(f"{name}={size}" for name, size in sharding.mesh().shape.items())
    ranks.report_once(
        f"{len(rules)} sharding rules: mesh ({shape}), because `shard_by_name` was called; parameters that "
        "no rule names are replicated"
    )


class _Rules:
    """Shards the parameters of a module that was moved."""

    def __init__(self, rules: Mapping[str, Sequence[str | None]]) -> None:
        self._rules = [(re.compile(pattern), tuple(spec)) for pattern, spec in rules.items()]

    def __call__(self, module: Any) -> None:
        from jax.sharding import PartitionSpec

        from ..tensor import placements, sharding

        shape = sharding.mesh().shape
        for name, parameter in module.named_parameters():
            spec = next((spec for pattern, spec in self._rules if pattern.fullmatch(name)), None)
            if spec is None or placements.of(parameter) is not None:
                continue
            sizes = [1 if axis is None else shape[axis] for axis in spec]
            if len(spec) > parameter.dim() or any(
                length % size for length, size in zip(parameter.shape, sizes, strict=False)
            ):
                warnings.warn(
                    f"`{name}` of shape {tuple(parameter.shape)} is replicated: its sharding rule {spec} "
                    f"does not fit on the mesh {dict(shape)}",
                    stacklevel=2,
                )
                continue
            placements.keep(parameter, sharding.by(PartitionSpec(*spec)))
