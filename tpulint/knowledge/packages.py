"""Distributions, images, variables and commands that are for NVIDIA GPUs."""

from __future__ import annotations

import re

from tpulint.knowledge.gpu_kernels import PACKAGES

#: Where wheels of torch for CPUs come from; on a TPU host, torch itself computes on the CPU.
CPU_INDEX = "https://download.pytorch.org/whl/cpu"
#: Addresses of wheels of torch for one version of CUDA or ROCm; the group is what differs for CPUs.
TORCH_INDEX = re.compile(
    r"https?://(?:download|download-r2)\.pytorch\.org/whl/(?:(?:nightly|test)/)?(cu\d+|rocm[\d.]+)(?=/|$)"
)
#: Packages for CUDA only, beside torch.
OTHER_INDEX = re.compile(
    r"https?://(?:pypi\.nvidia\.com|pypi\.ngc\.nvidia\.com|developer\.download\.nvidia\.com)\b"
)
#: Where jaxlib for CUDA came from until JAX 0.4; releases are on the package index now.
JAX_INDEX = re.compile(r"https?://storage\.googleapis\.com/jax-releases/jax_(?:cuda_)?releases\.html")

#: Libraries of CUDA as distributions, for pip and for conda.
CUDA_LIBRARIES = re.compile(
    r"nvidia-[a-z0-9-]+-cu\d+|nvidia-(?:pyindex|cuda-[a-z-]+|nccl)|cudatoolkit|cudnn|nccl|"
    r"pytorch-cuda|pytorch-gpu|cuda(?:-[a-z-]+)?|jax-cuda\d+-(?:plugin|pjrt)|libtorch-cuda"
)
#: Distributions that exist in a version for CPUs, too.
FOR_CPUS = {
    "tensorflow-gpu": "tensorflow",
    "onnxruntime-gpu": "onnxruntime",
    "faiss-gpu": "faiss-cpu",
    "faiss-gpu-cu11": "faiss-cpu",
    "faiss-gpu-cu12": "faiss-cpu",
    "paddlepaddle-gpu": "paddlepaddle",
    "mxnet-cu112": "mxnet",
}
#: Distributions with kernels for GPUs, by name: what takes their place.
KERNELS = {
    **{name.replace("_", "-"): advice for name, advice in PACKAGES.items()},
    "cudf": "use `pandas`",
    "cuml": "use `scikit-learn`",
    "deepspeed": "remove it: `torchax_compat.distributed` shards parameters",
    "horovod": "remove it: one process uses all chips of a host",
    "nvidia-ml-py": "`tpu-info` reads the state of TPUs",
    "nvidia-ml-py3": "`tpu-info` reads the state of TPUs",
    "pynvml": "`tpu-info` reads the state of TPUs",
    "nvidia-dali": "use `torchvision` or `grain`",
    "torch-scatter": "use the functions of torch that replace it, such as `scatter_reduce`",
}
#: Names with a version of CUDA in them, such as `cupy-cuda12x`.
KERNELS_FOR_CUDA = re.compile(r"(cupy|cudf|cuml|nvidia-dali|mxnet|spconv|torch-tensorrt)-(?:cuda|cu)\d+x?")

#: Images with CUDA.
IMAGES = re.compile(
    r"(?:docker\.io/)?nvidia/.*|nvcr\.io/.*|(?:docker\.io/)?pytorch/pytorch:.*cuda.*|.*[-:_]cu(?:da)?[-_]?\d.*|"
    r"(?:docker\.io/)?tensorflow/tensorflow:.*gpu.*|.*-gpu(?:[-:].*)?|(?:docker\.io/)?rocm/.*"
)

#: Variables that only programs on GPUs read, by the pattern of their names: what to use on TPU, if anything.
VARIABLES: tuple[tuple[re.Pattern[str], str], ...] = (
    (
        re.compile(r"CUDA_VISIBLE_DEVICES|NVIDIA_VISIBLE_DEVICES|HIP_VISIBLE_DEVICES"),
        "`TPU_VISIBLE_CHIPS` selects chips",
    ),
    (re.compile(r"PYTORCH_(?:CUDA_|HIP_)?ALLOC_CONF"), ""),
    (re.compile(r"(?:NCCL|TORCH_NCCL|RCCL)_\w+"), ""),
    (
        re.compile(r"CUDA_(?:LAUNCH_BLOCKING|DEVICE_ORDER|DEVICE_MAX_CONNECTIONS|CACHE_\w+|MODULE_LOADING)"),
        "",
    ),
    (
        re.compile(
            r"CUDA_(?:HOME|PATH|ROOT|VERSION|TOOLKIT_ROOT_DIR)|CUDNN_\w+|TORCH_CUDA_\w+|FORCE_CUDA|NVCC\w*"
        ),
        "",
    ),
    (re.compile(r"NVIDIA_\w+|CUBLAS_WORKSPACE_CONFIG|NVTE_\w+|TORCH_CUDNN\w*|TORCH_ALLOW_TF32\w*"), ""),
    (re.compile(r"TF_FORCE_GPU_ALLOW_GROWTH|TF_GPU_\w+|TF_CUDNN_\w+"), ""),
)
