"""Settings of JAX that name a platform, and settings that only a GPU has.

Measured on jax 0.10.2: `tests/model` does not run JAX; the fixture cases of the rules do.
"""

from __future__ import annotations

#: Platforms that a TPU host does not have.
GPUS = frozenset({"cuda", "gpu", "rocm"})

#: Environment variables and options of `jax.config` that name the platforms of a program.
VARIABLES = frozenset({"JAX_PLATFORMS", "JAX_PLATFORM_NAME"})
OPTIONS = frozenset({"jax_platforms", "jax_platform_name"})
#: The option with the default device, which may be a platform as well.
DEFAULT_DEVICE = "jax_default_device"

#: Environment variables that JAX reads when it is imported: those that are true or false, and all.
FLAGS = frozenset(
    {
        *("JAX_CHECK_TRACER_LEAKS", "JAX_DEBUG_INFS", "JAX_DEBUG_NANS", "JAX_DISABLE_JIT"),
        *("JAX_ENABLE_X64", "JAX_LOG_COMPILES", "JAX_THREEFRY_PARTITIONABLE"),
    }
)
READ_ON_IMPORT = (
    FLAGS
    | VARIABLES
    | {
        *("JAX_COMPILATION_CACHE_DIR", "JAX_DEFAULT_MATMUL_PRECISION", "JAX_DEFAULT_PRNG_IMPL"),
        *("JAX_NUMPY_RANK_PROMOTION", "JAX_TRACEBACK_FILTERING", "JAX_TRANSFER_GUARD"),
    }
)
#: Packages that import JAX.
IMPORT_JAX = ("equinox", "flax", "haiku", "jax", "numpyro", "optax", "torchax", "torchax_compat")
#: Packages that start processes, which inherit environment variables.
STARTERS = frozenset({"concurrent", "joblib", "multiprocessing", "ray", "subprocess"})

#: Functions that take a platform, with the position of this argument; its keyword is `backend`.
LOOKUPS = {
    "jax.devices": 0,
    "jax.device_count": 0,
    "jax.local_devices": 1,
    "jax.local_device_count": 0,
    "jax.process_count": 0,
    "jax.process_index": 0,
    "jax.extend.backend.get_backend": 0,
}
#: Functions that compile for the platform of their argument `backend`.
COMPILERS = frozenset({"jax.jit", "jax.pmap"})

#: Environment variables that only the GPU client of JAX reads.
MEMORY = frozenset(
    {
        "XLA_CLIENT_MEM_FRACTION",
        "XLA_PYTHON_CLIENT_ALLOCATOR",
        "XLA_PYTHON_CLIENT_MEM_FRACTION",
        "XLA_PYTHON_CLIENT_PREALLOCATE",
    }
)


#: Packages with kernels for GPUs, and modules of JAX for them.
GPU_KERNELS = frozenset(
    {
        *("cupy", "cutlass", "jax_triton", "mosaic_gpu", "numba", "nvidia", "pycuda", "pynvml"),
        *("transformer_engine", "triton", "warp"),
    }
)
PALLAS_ON_GPU = ("jax.experimental.pallas.mosaic_gpu", "jax.experimental.pallas.triton")


def is_gpu(text: str | None) -> bool:
    """Whether a platform, or a list of platforms such as `cuda,cpu`, needs a GPU or prefers it to a TPU."""
    names = {name.strip().lower() for name in (text or "").split(",")}
    return bool(names & GPUS) and "tpu" not in names
