"""Packages that hold kernels for NVIDIA GPUs, and what takes their place on TPU."""

from __future__ import annotations

import re
from dataclasses import dataclass

_ATTENTION = "use `F.scaled_dot_product_attention` instead"
_PALLAS = "write the kernels with torch operations, or with JAX's Pallas"
_OPTIMIZERS = "use `torch.nn` and `torch.optim` instead"

#: By the package that is imported: what takes its place, as the end of a sentence.
PACKAGES = {
    "apex": _OPTIMIZERS,
    "bitsandbytes": "use bfloat16 weights and `torch.optim` instead",
    "causal_conv1d": "use `F.conv1d` instead",
    "cupy": "use `jax.numpy` instead",
    "flash_attn": _ATTENTION,
    "flash_attn_interface": _ATTENTION,
    "flashinfer": _ATTENTION,
    "mamba_ssm": "write the scans with torch operations",
    "pycuda": _PALLAS,
    "sageattention": _ATTENTION,
    "tensorrt": "use `torchax.compile` instead",
    "torch_tensorrt": "use `torchax.compile` instead",
    "transformer_engine": _OPTIMIZERS,
    "triton": _PALLAS,
    "xformers": _ATTENTION,
}

#: Those in which projects write kernels of their own.
KERNEL_LANGUAGES = frozenset({"cupy", "pycuda", "triton"})

#: Libraries that use a GPU without torch: a check for CUDA that chooses how they run is right on a TPU host.
OTHER_GPU_LIBRARIES = frozenset(
    {"cudf", "cugraph", "cuml", "faiss", "numba", "nvidia", "onnxruntime", "pynvml", "rmm", "tensorflow"}
)

#: Names of execution providers of ONNX, and of packages that are built for GPUs.
OTHER_GPU_TEXT = re.compile(r"(CUDA|ROCM|Tensorrt|TensorRT)ExecutionProvider\Z|\A[a-z][\w-]*-gpu\Z")

#: What builds extensions of torch, and asks on the way whether there is CUDA to build for.
EXTENSIONS = ("torch.utils.cpp_extension", "torch.utils.ffi")

#: What torch has under a name of its own, with the same defaults.
SAME_IN_TORCH = {
    "apex.normalization.FusedLayerNorm": "torch.nn.LayerNorm",
    "apex.normalization.fused_layer_norm.FusedLayerNorm": "torch.nn.LayerNorm",
    "bitsandbytes.optim.Adam8bit": "torch.optim.Adam",
    "bitsandbytes.optim.AdamW8bit": "torch.optim.AdamW",
}


@dataclass(frozen=True, slots=True)
class Attention:
    """A function of three tensors, (batch, length, heads, size), that attends.

    `positional` names what may follow them by position; `renamed` says what each argument is called in
    `F.scaled_dot_product_attention`.
    """

    positional: tuple[str, ...]
    renamed: dict[str, str]


_FLASH = Attention(
    ("dropout_p", "softmax_scale", "causal"),
    {"dropout_p": "dropout_p", "softmax_scale": "scale", "causal": "is_causal"},
)

#: Functions of these packages that `F.scaled_dot_product_attention` replaces.
ATTENTION = {
    "flash_attn.flash_attn_func": _FLASH,
    "flash_attn.flash_attn_interface.flash_attn_func": _FLASH,
    "xformers.ops.memory_efficient_attention": Attention(
        ("attn_bias", "p", "scale"), {"p": "dropout_p", "scale": "scale"}
    ),
}

#: Masks of xformers that `is_causal` stands for.
CAUSAL_MASKS = frozenset(
    {"xformers.ops.LowerTriangularMask", "xformers.ops.fmha.attn_bias.LowerTriangularMask"}
)

#: Functions that build or load kernels written in CUDA.
BUILDERS = frozenset(
    {
        "torch.utils.cpp_extension.CUDAExtension",
        "torch.utils.cpp_extension.load_inline",
        "torch.utils.cpp_extension.load",
    }
)
