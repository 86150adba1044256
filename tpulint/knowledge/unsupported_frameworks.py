"""Libraries for GPUs that do not run on TPU, so that tpulint has no rules for them."""

from __future__ import annotations

#: Frameworks that run on TPU, as tpulint covers them: a file that uses one of them is analyzed.
ON_TPU = frozenset({"flax", "jax", "keras", "tensorflow", "torch", "torch_xla", "torchax"})

_MODEL = "write the model in PyTorch or JAX"
_TABLES = "prepare the data with pandas or NumPy on the host"
#: By the module that is imported: what to do, as the end of a sentence.
UNSUPPORTED = {
    "caffe": _MODEL,
    "chainer": _MODEL,
    "cntk": _MODEL,
    "cudf": _TABLES,
    "cugraph": _TABLES,
    "cuml": _TABLES,
    "gluoncv": _MODEL,
    "gluonnlp": _MODEL,
    "jittor": _MODEL,
    "megengine": _MODEL,
    "mindspore": _MODEL,
    "mxnet": _MODEL,
    "numba.cuda": "write the kernel with `jax.numpy`, or in JAX's Pallas",
    "nvidia.dali": "load the data with PyTorch or `tf.data`",
    "oneflow": _MODEL,
    "onnxruntime": "convert the model to PyTorch or JAX",
    "paddle": _MODEL,
    "rmm": _TABLES,
    "theano": _MODEL,
}
