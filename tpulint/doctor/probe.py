"""The probes of an environment, each of which runs in a process of its own.

`probing` runs this file with the interpreter of the environment, as `python -c SOURCE NAME`.
tpulint need not be installed there, so this file imports only the standard library and the packages to check.
The result is a JSON object in the last line of standard output.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
import math
import os
import platform
import re
import sys
import time
import traceback
from pathlib import Path

PACKAGES = (
    *("torch", "torchvision", "torchax", "torchax-compat", "jax", "jaxlib", "libtpu", "numpy"),
    *("torch-xla", "torch-tpu", "tensorflow"),
)
MODULES = {"torchax-compat": "torchax_compat", "torch-xla": "torch_xla", "torch-tpu": "torch_tpu"}
VARIABLES = re.compile(r"(?:JAX|XLA|TPU|LIBTPU|PJRT|TORCHAX_COMPAT|TORCH_TPU|CUDA_VISIBLE)_?\w*")


def facts() -> dict[str, object]:
    """The interpreter, the packages with the files that Python imports, variables, and device files."""
    packages = {}
    for name in PACKAGES:
        found = [
            {"version": one.version, "folder": str(one.locate_file(""))}
            for one in importlib.metadata.distributions(name=name)
        ]
        if found:
            module = MODULES.get(name, name)
            try:
                spec = importlib.util.find_spec(module)
            except (ImportError, ValueError):
                spec = None
            folders = [] if spec is None else list(spec.submodule_search_locations or ())
            origin = None if spec is None else spec.origin or next(iter(folders), None)
            packages[name] = {"installed": found, "module": module, "origin": origin}
    return {
        "python": platform.python_version(),
        "executable": sys.executable,
        "packages": packages,
        "variables": {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name)},
        "chips": _files("accel*[0-9]") + _files("vfio/[0-9]*"),
        "nvidia": _files("nvidia[0-9]*"),
    }


def _files(pattern: str) -> list[str]:
    return sorted(map(str, Path("/dev").glob(pattern)))


def torch() -> dict[str, object]:
    """The version of torch, and the CUDA version that it is built for."""
    import torch

    return {"version": torch.__version__, "cuda": torch.version.cuda}


def torchvision() -> dict[str, object]:
    """The boxes that the compiled operator `nms` of torchvision keeps, of two that overlap."""
    import torch
    import torchvision

    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]])
    kept = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8]), 0.5)
    return {"version": torchvision.__version__, "kept": kept.tolist()}


def jax() -> dict[str, object]:
    """The devices that JAX finds, with their memory in bytes."""
    import jax

    return {
        "backend": jax.default_backend(),
        "processes": jax.process_count(),
        "devices": [
            {
                "platform": device.platform,
                "kind": device.device_kind,
                "memory": (device.memory_stats() or {}).get("bytes_limit", 0),
            }
            for device in jax.devices()
        ],
    }


def torchax() -> dict[str, object]:
    """A sum on the device of torchax, after the runtime was enabled."""
    import torch
    import torchax_compat

    torchax_compat.enable()
    value = (torch.ones(2, device="jax") * 2).sum()
    return {"version": torchax_compat.__version__, "value": float(value)}


def step() -> dict[str, object]:
    """Two training steps on the default device, and the first step in plain PyTorch to compare with."""
    import jax
    import torch
    import torchax_compat

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    x, y = torch.randn(64, 256), torch.randint(0, 8, (64,))
    expected = torch.nn.functional.cross_entropy(model(x), y)
    expected.backward()

    def gradient_norm() -> float:
        return math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None))

    norm = gradient_norm()
    torchax_compat.enable()
    model.zero_grad()
    model.to("jax")
    optimizer = torchax_compat.compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    @torchax_compat.differentiable
    def compute_loss(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x), y)

    x, y = x.to("jax"), y.to("jax")
    seconds = []
    losses = []
    norms = []
    for _ in range(2):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = compute_loss(model, x, y)
        loss.backward()
        losses.append(float(loss))
        norms.append(gradient_norm())
        optimizer.step()
        jax.block_until_ready(jax.live_arrays())
        seconds.append(time.perf_counter() - start)
    return {
        "device": str(jax.devices()[0].device_kind),
        "platform": jax.default_backend(),
        "loss": losses[0],
        "expected_loss": float(expected),
        "norm": norms[0],
        "expected_norm": norm,
        "first_seconds": seconds[0],
        "second_seconds": seconds[1],
        "learns": losses[1] < losses[0],
    }


PROBES = {one.__name__: one for one in (facts, torch, torchvision, jax, torchax, step)}

if __name__ == "__main__":
    try:
        result = PROBES[sys.argv[1]]()
    except BaseException as error:  # any failure of the environment is a result
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split()) or f"in {frame.filename}, line {frame.lineno}"
        result = {"error": f"{type(error).__name__}: {text}"}
    print("\n" + json.dumps(result), flush=True)
    os._exit(0)  # a normal exit of JAX may wait for other processes of a distributed program
