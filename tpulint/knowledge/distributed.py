"""What the functions of `torch.distributed` come to under torchax, and what takes their place.

Measured with one process and gloo on torch 2.13.0, torchax 0.0.14.dev20261026, jax 0.10.2.
"""

from __future__ import annotations

from dataclasses import dataclass

_TENSORS = "raises for torchax tensors"
_OBJECTS = "raises in the torchax environment"
NO_GROUP = "raises without a process group, and a program on TPU needs no process group"


@dataclass(frozen=True, slots=True)
class Collective:
    """One function of `torch.distributed`.

    `what` ends the sentence that begins with its name. `instead` is the expression that takes its place;
    `removable` says that a call that is a statement can go where one process drives all devices; `own` is
    what such a call comes to there, of its first two arguments.
    """

    what: str
    instead: str = ""
    removable: bool = False
    own: str = ""


#: By the name behind `torch.distributed.`
COLLECTIVES = {
    "get_rank": Collective(NO_GROUP, "jax.process_index()"),
    "get_world_size": Collective(NO_GROUP, "jax.process_count()"),
    "get_backend": Collective(NO_GROUP, '"gloo"'),
    "new_group": Collective(NO_GROUP),
    "monitored_barrier": Collective(NO_GROUP, removable=True),
    "barrier": Collective("raises after `import torchax`", removable=True),
    "destroy_process_group": Collective(NO_GROUP, removable=True),
    "all_reduce": Collective(_TENSORS, removable=True),
    "broadcast": Collective(_TENSORS, removable=True),
    "reduce": Collective(_TENSORS, removable=True),
    "all_reduce_coalesced": Collective(_TENSORS, removable=True),
    "all_gather": Collective(_TENSORS, own="{}[:] = [{}.clone()]"),
    "all_gather_into_tensor": Collective(_TENSORS, own="{}[...] = {}"),
    "all_to_all": Collective(_TENSORS),
    "all_to_all_single": Collective(_TENSORS),
    "gather": Collective(_TENSORS),
    "irecv": Collective(_TENSORS),
    "isend": Collective(_TENSORS),
    "recv": Collective(_TENSORS),
    "reduce_scatter": Collective(_TENSORS),
    "reduce_scatter_tensor": Collective(_TENSORS),
    "scatter": Collective(_TENSORS),
    "send": Collective(_TENSORS),
    "all_gather_object": Collective(_OBJECTS, own="{}[:] = [{}]"),
    "broadcast_object_list": Collective(_OBJECTS, removable=True),
    "gather_object": Collective(_OBJECTS),
    "scatter_object_list": Collective(_OBJECTS),
}

_SAME = ("torch.distributed.distributed_c10d.", "torch.distributed.")


def collective(qualified: str | None) -> tuple[str, Collective] | None:
    """Whether this is a `torch.distributed` function that tpulint knows; its name and entry, or None."""
    for prefix in _SAME:
        if qualified is not None and qualified.startswith(prefix):
            name = qualified.removeprefix(prefix)
            return (name, COLLECTIVES[name]) if name in COLLECTIVES else None
    return None


#: Backends of process groups that communicate tensors of the host.
ON_HOST = frozenset({"gloo", "mpi"})

#: Questions that are answered with no on a host without a process group, and raise nothing.
IS_STARTED = frozenset(f"torch.distributed.{part}is_initialized" for part in ("", "distributed_c10d."))

START = "torch.distributed.init_process_group"

#: What starts a function in several processes; its first arguments, by position.
SPAWN = frozenset({"torch.multiprocessing.spawn", "torch.multiprocessing.spawn.spawn"})
SPAWNED = ("fn", "args", "nprocs")

#: Functions that lay a mesh over processes, one for each device.
MESHES = frozenset(
    f"torch.distributed.{part}{name}"
    for part in ("", "device_mesh.", "tensor.", "tensor.device_mesh.", "_tensor.", "_tensor.device_mesh.")
    for name in ("init_device_mesh", "DeviceMesh")
)

#: Functions that look up the backend of a device.
DEFAULT_BACKEND = frozenset(
    f"torch.distributed.{part}get_default_backend_for_device" for part in ("", "distributed_c10d.")
)

#: Samplers that give each process its share, and ask the process group which that is.
SAMPLERS = frozenset(
    {"torch.utils.data.DistributedSampler", "torch.utils.data.distributed.DistributedSampler"}
)

#: Wrappers that spread a module over devices: what they do on torchax.
WRAPPERS = {
    "torch.nn.DataParallel": "raises after `import torchax`",
    "torch.nn.parallel.DataParallel": "raises after `import torchax`",
    "torch.nn.parallel.DistributedDataParallel": "raises for a module on the torchax device",
    "torch.nn.parallel.distributed.DistributedDataParallel": "raises for a module on the torchax device",
    "torch.distributed.fsdp.FullyShardedDataParallel": "raises after `import torchax`",
    "torch.distributed.fsdp.fully_sharded_data_parallel.FullyShardedDataParallel": (
        "raises after `import torchax`"
    ),
}

#: Those that split each batch over the devices of one process.
SPLITTING = frozenset(name for name in WRAPPERS if name.endswith(".DataParallel"))

#: What does so in place.
SHARDED_IN_PLACE = frozenset(
    {"torch.distributed.fsdp.fully_shard", "torch.distributed._composable.fsdp.fully_shard"}
)

#: What shards parameters over the processes, so that a program needs all devices.
SHARDING = (
    SHARDED_IN_PLACE
    | frozenset(name for name in WRAPPERS if name.endswith(".FullyShardedDataParallel"))
    | {f"torch.distributed.tensor.parallel.{part}parallelize_module" for part in ("", "api.")}
)

#: What communicates between some of the processes by hand: programs that use it need processes that differ,
#: which the devices of one process cannot stand for.
ADDRESSING = frozenset(
    f"torch.distributed.{name}"
    for name in (
        *("new_group", "new_subgroups", "new_subgroups_by_enumeration", "send", "recv", "isend", "irecv"),
        *("batch_isend_irecv", "P2POp", "send_object_list", "recv_object_list"),
        *("rpc.init_rpc", "monitored_barrier", "pipelining.pipeline", "pipelining.PipelineStage"),
    )
)

#: What only a wrapper has, so that a module without one cannot stand in for it.
WRAPPER_ONLY = frozenset({"join", "register_comm_hook", "summon_full_params", "clip_grad_norm_"})
