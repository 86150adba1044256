"""What each function of `torch.cuda` and `torch.accelerator` does on a TPU host, and what takes its place.

Measured on torch 2.13.0+cpu, torchax 0.0.14.dev20261026, jax 0.10.2.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum


class Effect(StrEnum):
    """What a call comes to, as the end of a sentence about it."""

    RAISES = "raises on a TPU host, which has no CUDA"
    UNLINKED = "raises for the torchax device"
    NOTHING = "does nothing on TPU"
    ZERO = "returns 0 on a TPU host, without an error"
    FALSE = "returns false on a TPU host, without an error"
    EMPTY = "returns an empty result on a TPU host, without an error"
    UNSEEDED = "does not seed the random numbers that torchax draws on TPU"
    UNRESTORED = "does not restore the random state that torchax uses on TPU"


@dataclass(frozen=True, slots=True)
class CudaCall:
    """One function of `torch.cuda`.

    `instead` is the expression, or the statement, that takes the place of a call, with `{}` for its first
    argument; empty where nothing does. `needs` are the imports of that expression, one a line.
    `described` describes the expression in the title of a fix, where its code is long.
    `name` is the qualified name of the function, which the table of all functions adds.
    `removable` says that a call that is a statement can go, `exact` that nothing is lost with it.
    `stands_in` says that the expression is no answer, but lets a program go on.
    """

    effect: Effect
    instead: str = ""
    needs: str = "import jax"
    removable: bool = False
    exact: bool = False
    stands_in: bool = False
    described: str = ""
    name: str = ""


_STATS = "(jax.local_devices()[0].memory_stats() or {{}})"
_GONE = CudaCall(Effect.RAISES, removable=True)
_GONE_EXACTLY = CudaCall(Effect.RAISES, removable=True, exact=True)
_RAISES = CudaCall(Effect.RAISES)
# The key as a tensor of the host, as a checkpoint keeps it.
_KEY = "torch.tensor(jax.random.key_data(torchax.default_env().prng_key).tolist())"
_FROM_KEY = (
    'torchax.default_env().prng_key = jax.random.wrap_key_data(jax.numpy.asarray({}.tolist(), "uint32"))'
)
_OF_KEY = "import jax\nimport torch\nimport torchax"
_OWN_KEY = "the random key of torchax, `torchax.default_env().prng_key`"
_SET_KEY = "an assignment to `torchax.default_env().prng_key`, the random key of torchax"
_SEED = CudaCall(Effect.UNSEEDED, "torchax.default_env().manual_seed({})", "import torchax")


#: How titles of fixes name one of the memory statistics.
MEMORY = "`{}` from the memory statistics of JAX"
_LIMIT = f'{_STATS}.get("bytes_limit", 0)'
# What asks for it wants to know whether kernels of CUDA can be had.
_CAPABILITY = "(0, 0)"
#: What is read of a device's properties.
PROPERTIES = {
    "name": "jax.local_devices()[0].device_kind",
    "total_memory": _LIMIT.format(),
    "major": "0",
    "minor": "0",
    "multi_processor_count": "1",
}
_PROPERTIES = f"types.SimpleNamespace({', '.join(f'{k}={v}' for k, v in PROPERTIES.items())})"
_PROPERTIES = _PROPERTIES.replace("{}", "{{}}")


def _memory(key: str) -> CudaCall:
    return CudaCall(Effect.ZERO, f'{_STATS}.get("{key}", 0)', described=MEMORY.format(key))


#: By the name behind `torch.cuda.`; those in `torch.cuda.memory` and `torch.cuda.random` are the same ones.
CALLS = {
    # memory
    "empty_cache": CudaCall(Effect.NOTHING, removable=True, exact=True),
    "ipc_collect": _GONE_EXACTLY,
    "memory_allocated": _memory("bytes_in_use"),
    "max_memory_allocated": _memory("peak_bytes_in_use"),
    "memory_reserved": _memory("bytes_reserved"),
    "max_memory_reserved": _memory("peak_bytes_reserved"),
    "memory_cached": _memory("bytes_reserved"),
    "max_memory_cached": _memory("peak_bytes_reserved"),
    "reset_peak_memory_stats": _GONE,
    "reset_max_memory_allocated": _GONE,
    "reset_max_memory_cached": _GONE,
    "reset_accumulated_memory_stats": _GONE,
    "reset_peak_host_memory_stats": _GONE,
    "memory_stats": CudaCall(Effect.EMPTY, _STATS, described="the memory statistics of JAX"),
    "memory_summary": CudaCall(Effect.RAISES, f"str{_STATS}", described="the memory statistics of JAX"),
    "memory_snapshot": _RAISES,
    "mem_get_info": CudaCall(
        Effect.RAISES,
        f'({_LIMIT} - {_STATS}.get("bytes_in_use", 0), {_LIMIT})',
        described="the free and total memory from the memory statistics of JAX",
    ),
    "set_per_process_memory_fraction": _GONE,
    "get_per_process_memory_fraction": _RAISES,
    "caching_allocator_alloc": _RAISES,
    "get_allocator_backend": _RAISES,
    # devices
    "device_count": CudaCall(Effect.ZERO, "jax.local_device_count()"),
    "current_device": _RAISES,
    "device": CudaCall(Effect.RAISES, removable=True),
    "set_device": _GONE,
    "init": _GONE_EXACTLY,
    "get_device_name": CudaCall(Effect.RAISES, "jax.local_devices()[0].device_kind"),
    "get_device_capability": CudaCall(Effect.RAISES, _CAPABILITY, "", stands_in=True),
    "get_device_properties": CudaCall(
        Effect.RAISES,
        _PROPERTIES,
        "import jax\nimport types",
        stands_in=True,
        described="a `types.SimpleNamespace` that holds the name and memory size of the TPU",
    ),
    "is_bf16_supported": CudaCall(Effect.FALSE, "True", ""),
    "can_device_access_peer": _RAISES,
    "cudart": _RAISES,
    "set_sync_debug_mode": _GONE_EXACTLY,
    "get_sync_debug_mode": _RAISES,
    "utilization": _RAISES,
    "memory_usage": _RAISES,
    "temperature": _RAISES,
    "power_draw": _RAISES,
    "clock_rate": _RAISES,
    # copies between GPUs
    "comm.broadcast": _RAISES,
    "comm.broadcast_coalesced": _RAISES,
    "comm.gather": _RAISES,
    "comm.reduce_add": _RAISES,
    "comm.reduce_add_coalesced": _RAISES,
    "comm.scatter": _RAISES,
    # random state
    "manual_seed": _SEED,
    "manual_seed_all": _SEED,
    "seed": CudaCall(Effect.UNSEEDED),
    "seed_all": CudaCall(Effect.UNSEEDED),
    "initial_seed": _RAISES,
    "get_rng_state": CudaCall(Effect.RAISES, _KEY, _OF_KEY, described=_OWN_KEY),
    "get_rng_state_all": CudaCall(Effect.EMPTY, f"[{_KEY}]", _OF_KEY, described=_OWN_KEY),
    "set_rng_state": CudaCall(Effect.UNRESTORED, _FROM_KEY, _OF_KEY, described=_SET_KEY),
    "set_rng_state_all": CudaCall(
        Effect.UNRESTORED, _FROM_KEY.replace("{}", "{}[0]"), _OF_KEY, described=_SET_KEY
    ),
}

#: By the name behind `torch.accelerator.`: its device is torchax's, of which torch knows no more than that.
ACCELERATOR_CALLS = {
    "current_device_idx": CudaCall(Effect.UNLINKED),
    "current_device_index": CudaCall(Effect.UNLINKED),
    "current_stream": CudaCall(Effect.UNLINKED),
    "device_index": CudaCall(Effect.UNLINKED, removable=True),
    "empty_cache": CudaCall(Effect.UNLINKED, removable=True, exact=True),
    "get_device_capability": CudaCall(Effect.UNLINKED),
    "get_memory_info": CudaCall(Effect.UNLINKED),
    "max_memory_allocated": replace(CALLS["max_memory_allocated"], effect=Effect.UNLINKED),
    "max_memory_reserved": replace(CALLS["max_memory_reserved"], effect=Effect.UNLINKED),
    "memory_allocated": replace(CALLS["memory_allocated"], effect=Effect.UNLINKED),
    "memory_reserved": replace(CALLS["memory_reserved"], effect=Effect.UNLINKED),
    "memory_stats": replace(CALLS["memory_stats"], effect=Effect.UNLINKED),
    "reset_accumulated_memory_stats": CudaCall(Effect.UNLINKED, removable=True),
    "reset_peak_memory_stats": CudaCall(Effect.UNLINKED, removable=True),
    "set_device_idx": CudaCall(Effect.UNLINKED, removable=True),
    "set_device_index": CudaCall(Effect.UNLINKED, removable=True),
}

#: Modules that give the same functions, by the one under whose name these stand here.
_SAME = {
    "torch.cuda.memory.": "torch.cuda.",
    "torch.cuda.random.": "torch.cuda.",
    "torch.nn.parallel.comm.": "torch.cuda.comm.",
}
_TABLES = {
    name: replace(call, name=name)
    for prefix, calls in (("torch.cuda.", CALLS), ("torch.accelerator.", ACCELERATOR_CALLS))
    for name, call in ((f"{prefix}{last}", call) for last, call in calls.items())
}
#: The last parts of all of these names.
CALLED = frozenset(name.rpartition(".")[2] for name in CALLS.keys() | ACCELERATOR_CALLS.keys())


def cuda_call(qualified: str | None) -> tuple[str, CudaCall] | None:
    """Whether this is a `torch.cuda` function that tpulint knows; its name and entry, or None."""
    for prefix, name in _SAME.items():
        if qualified is not None and qualified.startswith(prefix):
            qualified = f"{name}{qualified.removeprefix(prefix)}"
    return (qualified, _TABLES[qualified]) if qualified is not None and qualified in _TABLES else None


#: Switches of `torch.backends` that nothing on TPU reads: an assignment to one can go.
SWITCHES = frozenset(
    {
        "torch.backends.cudnn.allow_tf32",
        "torch.backends.cudnn.benchmark",
        "torch.backends.cudnn.benchmark_limit",
        "torch.backends.cudnn.deterministic",
        "torch.backends.cudnn.enabled",
        "torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction",
        "torch.backends.cuda.matmul.allow_fp16_accumulation",
        "torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction",
    }
)

#: Switches that choose the precision of products, and what turns reduced precision off.
PRECISION = {
    "torch.backends.cuda.matmul.allow_tf32": False,
    "torch.backends.cuda.matmul.fp32_precision": "ieee",
    "torch.backends.fp32_precision": "ieee",
}

#: Functions of `torch.backends` that choose among CUDA's kernels: a call that is a statement can go.
CHOICES = {
    "torch.backends.cuda.enable_flash_sdp": Effect.NOTHING,
    "torch.backends.cuda.enable_mem_efficient_sdp": Effect.NOTHING,
    "torch.backends.cuda.enable_math_sdp": Effect.NOTHING,
    "torch.backends.cuda.enable_cudnn_sdp": Effect.NOTHING,
    "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp": Effect.NOTHING,
    "torch.backends.cuda.preferred_linalg_library": Effect.RAISES,
    "torch.backends.cuda.preferred_blas_library": Effect.RAISES,
    "torch.backends.cuda.cufft_plan_cache.clear": Effect.RAISES,
}

#: Context managers that choose among CUDA's kernels.
KERNEL_CONTEXTS = frozenset(
    {
        "torch.backends.cuda.sdp_kernel",
        "torch.backends.cudnn.flags",
        "torch.nn.attention.sdpa_kernel",
    }
)

#: What gives an object of CUDA's queue of work, by the name behind `torch.`, with that object's class.
CUDA_OBJECTS = {
    "Event": "torch.cuda.Event",
    "Stream": "torch.cuda.Stream",
    "cuda.Event": "torch.cuda.Event",
    "cuda.ExternalStream": "torch.cuda.Stream",
    "cuda.Stream": "torch.cuda.Stream",
    "cuda.current_stream": "torch.cuda.Stream",
    "cuda.default_stream": "torch.cuda.Stream",
    "cuda.streams.Event": "torch.cuda.Event",
    "cuda.streams.Stream": "torch.cuda.Stream",
}


#: The old types of tensors, with the dtypes that they have.
TENSOR_DTYPES = {
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "HalfTensor": "float16",
    "BFloat16Tensor": "bfloat16",
    "LongTensor": "int64",
    "IntTensor": "int32",
    "ShortTensor": "int16",
    "CharTensor": "int8",
    "ByteTensor": "uint8",
    "BoolTensor": "bool",
}
