"""Names of torch_xla, and what takes their place in a program for torchax.

The names are those of torch_xla 2.9.0, and of earlier releases where programs still use them. What each
function does was measured with torch_xla 2.9.0 on torch 2.9.0 with PJRT_DEVICE=CPU.
"""

from __future__ import annotations

from typing import NamedTuple

from tpulint.knowledge.runtime import PACKAGE as RUNTIME

PACKAGE = "torch_xla"

#: The short names that programs give to modules of torch_xla, by the modules.
MODULES = {
    "torch_xla.core.xla_model": "xm",
    "torch_xla.runtime": "xr",
    "torch_xla.experimental.pjrt": "xr",
    "torch_xla.distributed.parallel_loader": "pl",
    "torch_xla.distributed.xla_multiprocessing": "xmp",
    "torch_xla.distributed.spmd.xla_sharding": "xs",
    "torch_xla.distributed.spmd": "xs",
    "torch_xla.experimental.xla_sharding": "xs",
    "torch_xla.utils.serialization": "xser",
    "torch_xla.debug.metrics": "met",
    "torch_xla.debug.profiler": "xp",
    "torch_xla.amp.syncfree": "syncfree",
    "torch_xla.amp": "amp",
    "torch_xla.torch_xla": "torch_xla",
}


def short_name(qualified: str | None) -> str | None:
    """A qualified name of torch_xla with the short name of its module, such as `xm.mark_step`; else None."""
    if qualified is None or qualified.partition(".")[0] != PACKAGE:
        return None
    module, _, name = qualified.rpartition(".")
    return f"{MODULES[module]}.{name}" if module in MODULES else qualified


#: Functions that return the device, or a list of devices.
DEVICES = frozenset({"xm.xla_device", "torch_xla.device", "xm.xla_real_devices"})

#: Functions that start a function once for each device, with its first arguments by position.
LAUNCH = {"xmp.spawn": ("fn", "args", "nprocs"), "torch_xla.launch": ("fn", "args")}

#: Functions that put a program on the devices of torch_xla: a file that calls one depends on torch_xla, even
#: if it imports torch_xla only where that is installed.
PLACING = frozenset({"xm.xla_device", "torch_xla.device", *LAUNCH})

#: What takes the place of these devices.
TORCHAX_DEVICE = "jax"

#: Strings that name a device.
DEVICE_STRINGS = frozenset({"xla", *(f"xla:{number}" for number in range(16))})


class Query(NamedTuple):
    """What takes the place of a question, in one process, and in a program with a rank for each device."""

    alone: str
    ranked: str
    imported: str = "jax"


_RANK, _WORLD = "torch.distributed.get_rank()", "torch.distributed.get_world_size()"
_PLATFORM = "jax.default_backend().upper()"

#: Questions about processes and devices.
QUERIES = {
    "xm.get_ordinal": Query("jax.process_index()", _RANK),
    "xr.global_ordinal": Query("jax.process_index()", _RANK),
    "xm.get_local_ordinal": Query("0", _RANK),
    "xr.local_ordinal": Query("0", _RANK),
    "xm.is_master_ordinal": Query("jax.process_index() == 0", f"{_RANK} == 0"),
    "xm.xrt_world_size": Query("jax.process_count()", _WORLD),
    "xr.world_size": Query("jax.process_count()", _WORLD),
    "xr.process_index": Query("jax.process_index()", "jax.process_index()"),
    "xr.host_index": Query("jax.process_index()", "jax.process_index()"),
    "xr.process_count": Query("jax.process_count()", "jax.process_count()"),
    "xr.global_device_count": Query("jax.device_count()", "jax.device_count()"),
    "xr.global_runtime_device_count": Query("jax.device_count()", "jax.device_count()"),
    "xr.addressable_device_count": Query("jax.local_device_count()", "jax.local_device_count()"),
    "xr.addressable_runtime_device_count": Query("jax.local_device_count()", "jax.local_device_count()"),
    "xr.local_device_count": Query("jax.local_device_count()", "jax.local_device_count()"),
    "torch_xla.device_count": Query("jax.local_device_count()", "jax.local_device_count()"),
    "xr.device_type": Query(_PLATFORM, _PLATFORM),
    "xm.xla_device_hw": Query(_PLATFORM, _PLATFORM),
    "xr.using_pjrt": Query("True", "True"),
}

#: Calls that do nothing that a program needs on torchax.
NEEDLESS = frozenset({"xr.use_spmd", "xr.set_device_type", "torch_xla.experimental.eager_mode"})

#: Optimizers whose step does not read the gradients for infinities on the host, and those of PyTorch.
SYNCFREE = frozenset({"syncfree.SGD", "syncfree.Adam", "syncfree.AdamW"})

#: The names of reductions, and the function of `torch.distributed.ReduceOp`.
REDUCTIONS = {
    "xm.REDUCE_SUM": "SUM",
    "xm.REDUCE_MAX": "MAX",
    "xm.REDUCE_MIN": "MIN",
    "xm.REDUCE_MUL": "PRODUCT",
}
REDUCTION_TEXTS = {"sum": "SUM", "max": "MAX", "min": "MIN", "mul": "PRODUCT"}

#: Functions that count or report what torch_xla did, which torchax does not count.
METRICS = frozenset(
    f"met.{name}"
    for name in (
        *("metrics_report", "short_metrics_report", "clear_all", "clear_counters", "clear_metrics"),
        *("counter_names", "counter_value", "metric_names", "metric_data", "executed_fallback_ops"),
    )
)

#: Functions of the profiler, and those of JAX with the same arguments.
PROFILER = {
    "xp.start_trace": "jax.profiler.start_trace",
    "xp.stop_trace": "jax.profiler.stop_trace",
    "xp.Trace": "jax.profiler.TraceAnnotation",
}

#: Environment variables that only torch_xla reads.
VARIABLES = frozenset(
    {
        *("PJRT_DEVICE", "XRT_TPU_CONFIG", "XRT_DEVICE_MAP", "XRT_WORKERS", "TPU_NUM_DEVICES"),
        *("CPU_NUM_DEVICES", "GPU_NUM_DEVICES", "XLA_USE_BF16", "XLA_DOWNCAST_BF16", "XLA_USE_F16"),
        *("XLA_DOWNCAST_FP16", "XLA_USE_SPMD", "XLA_AUTO_SPMD", "XLA_IR_DEBUG", "XLA_HLO_DEBUG"),
        *("XLA_NO_SPECIAL_SCALARS", "XLA_TENSOR_ALLOCATOR_MAXSIZE", "XLA_SAVE_TENSORS_FILE"),
        *("XLA_SAVE_TENSORS_FMT", "XLA_METRICS_FILE", "XLA_DUMP_HLO_GRAPH", "XLA_SYNC_WAIT"),
        *("XLA_PERSISTENT_CACHE_PATH", "XLA_STABLEHLO_COMPILE", "PT_XLA_DEBUG", "PT_XLA_DEBUG_LEVEL"),
        *("XLA_USE_EAGER_DEBUG_MODE", "XLA_REGISTER_INSTALLED_PLUGINS"),
    }
)

#: Those that make float32 tensors bfloat16.
NARROWING = frozenset({"XLA_USE_BF16", "XLA_DOWNCAST_BF16"})

#: What iterates over a loader with its batches on the device.
DEVICE_LOADER = f"{RUNTIME}.data.DeviceLoader"

#: What gives the values of all ranks.
GATHER_VALUES = f"{RUNTIME}.distributed.gather_values"

#: All functions of torch_xla that rules of their own report, by their last names.
FUNCTIONS = frozenset(
    {
        *DEVICES,
        *LAUNCH,
        *QUERIES,
        *NEEDLESS,
        *SYNCFREE,
        *REDUCTIONS,
        *METRICS,
        *PROFILER,
        *("xm.mark_step", "torch_xla.sync", "torch_xla.step", "torch_xla.compile", "xm.wait_device_ops"),
        *("xm.add_step_closure", "xm.optimizer_step", "xm.reduce_gradients"),
        *("pl.ParallelLoader", "pl.MpDeviceLoader", "xmp.MpModelWrapper"),
        *("xm.master_print", "xm.rendezvous", "xm.mesh_reduce", "xm.all_reduce", "xm.broadcast_master_param"),
        *("xm.save", "xser.save", "xser.load"),
        *("xs.Mesh", "xs.mark_sharding", "xs.get_1d_mesh", "xs.set_global_mesh", "xs.ShardingSpec"),
        *("amp.autocast", "amp.GradScaler", "xm.set_rng_state", "torch_xla.manual_seed"),
        *("xp.start_server", "xp.StepTrace", "xr.initialize_cache"),
    }
)

#: What to use instead of other functions, by what their names begin with.
REPLACEMENTS = {
    "torch_xla.distributed.fsdp": "`torch.distributed.fsdp`",
    "xm.get_memory_info": "`jax.local_devices()[0].memory_stats()`",
    "xm.get_xla_supported_devices": "`jax.devices()`",
    "torch_xla.devices": "`jax.devices()`",
    "xm.all_gather": "`torch.distributed.all_gather`",
    "xm.reduce_scatter": "`torch.distributed.reduce_scatter`",
    "xm.get_rng_state": "`torchax.default_env().prng_key`",
    "xs.clear_sharding": "`jax.device_put`",
    "xp.trace": "`jax.profiler.trace`",
    "torch_xla.experimental.custom_kernel": "Pallas kernels, through `torchax.interop.call_jax`",
    "torch_xla.experimental.scan": "`jax.lax.scan`, through `torchax.interop.call_jax`",
    "torch_xla.stablehlo": "`torchax.export`",
}

#: What messages say of a function that still works.
DEPRECATED = "is deprecated"
#: Functions that torch_xla 2.9.0 does not have, or warns of: what to call instead, and why, for messages.
OUTDATED = {
    "xm.xla_device": ("torch_xla.device", DEPRECATED),
    "xm.mark_step": ("torch_xla.sync", DEPRECATED),
    "xm.get_ordinal": ("xr.global_ordinal", "does not exist"),
    "xm.xrt_world_size": ("xr.world_size", "does not exist"),
}
