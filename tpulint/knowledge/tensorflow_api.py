"""What TensorFlow programs use on GPUs, on former TPUs, and on TPUs now.

Measured with tensorflow-cpu 2.21.0 and Keras 3.15.1: each name was looked up, and each operation compiled by
XLA for the CPU.
"""

from __future__ import annotations

import re

_DISTRIBUTE = "tensorflow.distribute"
RESOLVER = f"{_DISTRIBUTE}.cluster_resolver.TPUClusterResolver"
CONNECT = "tensorflow.config.experimental_connect_to_cluster"
INITIALIZE = "tensorflow.tpu.experimental.initialize_tpu_system"
TPU_STRATEGIES = frozenset({f"{_DISTRIBUTE}.TPUStrategy", f"{_DISTRIBUTE}.experimental.TPUStrategy"})

#: Strategies that a TPU strategy replaces, and those of several hosts, which no fix replaces.
GPU_STRATEGIES = frozenset(
    {
        f"{_DISTRIBUTE}.MirroredStrategy",
        f"{_DISTRIBUTE}.experimental.CentralStorageStrategy",
    }
)
ONE_DEVICE = f"{_DISTRIBUTE}.OneDeviceStrategy"
SEVERAL_HOSTS = frozenset(
    {
        f"{_DISTRIBUTE}.MultiWorkerMirroredStrategy",
        f"{_DISTRIBUTE}.experimental.MultiWorkerMirroredStrategy",
        f"{_DISTRIBUTE}.ParameterServerStrategy",
        f"{_DISTRIBUTE}.experimental.ParameterServerStrategy",
    }
)
STRATEGIES = TPU_STRATEGIES | GPU_STRATEGIES | SEVERAL_HOSTS | {ONE_DEVICE}

#: Classes and functions that create a model of Keras.
MODELS = frozenset(
    f"{root}.{name}"
    for root in ("keras", "tensorflow.keras")
    for name in (
        *("Model", "Sequential", "models.Model", "models.Sequential"),
        *("models.load_model", "models.clone_model"),
    )
)

#: A device string that names a GPU, such as `/GPU:0` or `/job:localhost/device:gpu:1`.
_GPU = re.compile(r"(.*/)?(device:)?gpu(:[\d*]+)?\Z", re.IGNORECASE)

#: Functions that list GPUs, with the type of the devices as their first argument.
LISTS = frozenset(
    {
        "tensorflow.config.list_physical_devices",
        "tensorflow.config.list_logical_devices",
        "tensorflow.config.experimental.list_physical_devices",
        "tensorflow.config.experimental.list_logical_devices",
        "tensorflow.config.get_visible_devices",
    }
)
#: Functions that ask for GPUs alone.
CHECKS = frozenset(
    {
        "tensorflow.test.gpu_device_name",
        "tensorflow.test.is_built_with_cuda",
        "tensorflow.test.is_built_with_gpu_support",
        "tensorflow.test.is_gpu_available",
    }
)
#: Functions that configure a device that is passed to them, with the position of a device type or -1.
GPU_SETTINGS = {
    "tensorflow.config.experimental.set_memory_growth": -1,
    "tensorflow.config.experimental.set_virtual_device_configuration": -1,
    "tensorflow.config.set_logical_device_configuration": -1,
    "tensorflow.config.set_visible_devices": 1,
    "tensorflow.config.experimental.set_visible_devices": 1,
}
#: Those that only GPUs have; the others configure other devices, too.
ONLY_GPU = frozenset({"tensorflow.config.experimental.set_memory_growth"})
#: Functions that raise without a GPU, with the device as their first argument.
MEMORY_QUERIES = frozenset(
    f"tensorflow.config.experimental.{name}"
    for name in ("get_memory_info", "get_memory_usage", "reset_memory_stats")
)
#: Environment variables that only TensorFlow for GPUs reads.
VARIABLES = frozenset(
    {
        "TF_CUDNN_DETERMINISTIC",
        "TF_CUDNN_USE_AUTOTUNE",
        "TF_FORCE_GPU_ALLOW_GROWTH",
        "TF_FORCE_UNIFIED_MEMORY",
        "TF_GPU_ALLOCATOR",
        "TF_GPU_THREAD_COUNT",
        "TF_GPU_THREAD_MODE",
    }
)

#: What XLA cannot compile, with the operation that it names. XLA for the CPU was measured.
HOST_OPERATIONS = {
    "tensorflow.io.decode_image": "",
    "tensorflow.io.decode_jpeg": "",
    "tensorflow.io.decode_png": "",
    "tensorflow.io.read_file": "",
    "tensorflow.linalg.eig": "Eig",
    "tensorflow.linalg.lu": "Lu",
    "tensorflow.numpy_function": "PyFunc",
    "tensorflow.print": "StringFormat",
    "tensorflow.py_function": "EagerPyFunc",
    "tensorflow.sparse.sparse_dense_matmul": "SparseTensorDenseMatMul",
    "tensorflow.strings.as_string": "AsString",
    "tensorflow.strings.format": "StringFormat",
    "tensorflow.timestamp": "Timestamp",
}

_KERAS = "tensorflow.keras"
#: By qualified name: what became of it, and the name that takes its place, if there is one.
NAMES: dict[str, tuple[str, str]] = {
    "tensorflow.contrib": ("no longer exists since TensorFlow 2.0", ""),
    "tensorflow.contrib.tpu": ("no longer exists since TensorFlow 2.0; use `tf.distribute.TPUStrategy`", ""),
    "tensorflow.contrib.distribute.MirroredStrategy": (
        "no longer exists since TensorFlow 2.0",
        "tensorflow.distribute.MirroredStrategy",
    ),
    "tensorflow.contrib.cluster_resolver.TPUClusterResolver": (
        "no longer exists since TensorFlow 2.0",
        RESOLVER,
    ),
    "tensorflow.estimator": (
        "no longer exists in TensorFlow 2.21; use a Keras model under `tf.distribute.TPUStrategy`",
        "",
    ),
    "tensorflow.compat.v1.estimator": (
        "no longer exists in TensorFlow 2.21; use a Keras model under `tf.distribute.TPUStrategy`",
        "",
    ),
    f"{_DISTRIBUTE}.experimental.TPUStrategy": ("is deprecated", f"{_DISTRIBUTE}.TPUStrategy"),
    f"{_DISTRIBUTE}.experimental.MultiWorkerMirroredStrategy": (
        "is deprecated",
        f"{_DISTRIBUTE}.MultiWorkerMirroredStrategy",
    ),
    "tensorflow.train.experimental.enable_mixed_precision_graph_rewrite": (
        "no longer exists; use `tf.keras.mixed_precision.set_global_policy`",
        "",
    ),
    f"{_KERAS}.mixed_precision.experimental.set_policy": (
        "no longer exists",
        f"{_KERAS}.mixed_precision.set_global_policy",
    ),
    f"{_KERAS}.mixed_precision.experimental.Policy": ("no longer exists", f"{_KERAS}.mixed_precision.Policy"),
    f"{_KERAS}.mixed_precision.experimental.global_policy": (
        "no longer exists",
        f"{_KERAS}.mixed_precision.global_policy",
    ),
    f"{_KERAS}.mixed_precision.experimental.LossScaleOptimizer": (
        "no longer exists; the policy `mixed_bfloat16` needs no scaling of the loss",
        "",
    ),
    f"{_KERAS}.mixed_precision.experimental": ("no longer exists", f"{_KERAS}.mixed_precision"),
    f"{_KERAS}.layers.experimental.preprocessing": ("no longer exists in Keras 3", f"{_KERAS}.layers"),
    f"{_KERAS}.layers.CuDNNGRU": ("no longer exists", f"{_KERAS}.layers.GRU"),
    f"{_KERAS}.layers.CuDNNLSTM": ("no longer exists", f"{_KERAS}.layers.LSTM"),
    "tensorflow.compat.v1.keras.layers.CuDNNGRU": ("no longer exists", f"{_KERAS}.layers.GRU"),
    "tensorflow.compat.v1.keras.layers.CuDNNLSTM": ("no longer exists", f"{_KERAS}.layers.LSTM"),
    f"{_KERAS}.utils.multi_gpu_model": (
        "no longer exists; create the model under `strategy.scope()` of a `tf.distribute.TPUStrategy`",
        "",
    ),
    f"{_KERAS}.optimizers.legacy": ("raises in Keras 3", f"{_KERAS}.optimizers"),
    "tensorflow.config.experimental_run_functions_eagerly": (
        "is deprecated",
        "tensorflow.config.run_functions_eagerly",
    ),
}
#: Methods of strategies that no longer exist, with their new names.
METHODS = {
    "experimental_run_v2": "run",
    "experimental_make_numpy_dataset": "",
}


def is_gpu_device(text: str | None) -> bool:
    """Whether a device string of TensorFlow names a GPU."""
    return text is not None and _GPU.match(text) is not None
