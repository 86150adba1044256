"""The questions that are asked in the environment itself, each in a process of its own.

This file runs under the interpreter of the environment, which may have no tpulint, as `python -c SOURCE NAME`
in the folder of the program. It imports only the standard library, and what a question is about.
The answer is one line of JSON, the last of standard output.
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
    """The interpreter, the installed packages, what modules are found under their names, and variables."""
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
        "system": f"{platform.system()} {platform.machine()}",
        "is_virtual": sys.prefix != sys.base_prefix,
        "packages": packages,
        "variables": {name: value for name, value in os.environ.items() if VARIABLES.fullmatch(name)},
        "chips": _files("accel*[0-9]") + _files("vfio/[0-9]*"),
        "nvidia": _files("nvidia[0-9]*"),
    }


def _files(pattern: str) -> list[str]:
    return sorted(map(str, Path("/dev").glob(pattern)))


def torch() -> dict[str, object]:
    """The build of torch."""
    import torch

    return {
        "version": torch.__version__,
        "cuda": torch.version.cuda,
        "gpus": torch.cuda.device_count() if torch.version.cuda else 0,
    }


def torchvision() -> dict[str, object]:
    """Whether the compiled operators of torchvision load and run."""
    import torch
    import torchvision

    boxes = torch.tensor([[0.0, 0.0, 1.0, 1.0], [0.0, 0.0, 1.0, 0.9]])
    kept = torchvision.ops.nms(boxes, torch.tensor([0.9, 0.8]), 0.5)
    return {"version": torchvision.__version__, "kept": kept.tolist()}


def jax() -> dict[str, object]:
    """The devices that JAX finds, and their memory."""
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
    """Whether the runtime accepts what is installed."""
    import torch
    import torchax_compat

    torchax_compat.enable()
    value = (torch.ones(2, device="jax") * 2).sum()
    return {"version": torchax_compat.__version__, "value": float(value)}


def step() -> dict[str, object]:
    """One training step on the default device, beside the same step in plain torch."""
    import jax
    import torch
    import torchax_compat

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8))
    x, y = torch.randn(64, 256), torch.randint(0, 8, (64,))
    expected = torch.nn.functional.cross_entropy(model(x), y)
    expected.backward()

    def norm_of_gradients() -> float:
        return math.sqrt(sum(float((p.grad**2).sum()) for p in model.parameters() if p.grad is not None))

    norm = norm_of_gradients()
    torchax_compat.enable()
    model.zero_grad()
    model.to("jax")
    optimizer = torchax_compat.compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))

    @torchax_compat.differentiable
    def loss_of(model: torch.nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.cross_entropy(model(x), y)

    x, y = x.to("jax"), y.to("jax")
    seconds = []
    losses = []
    norms = []
    for _ in range(2):
        start = time.perf_counter()
        optimizer.zero_grad()
        loss = loss_of(model, x, y)
        loss.backward()
        losses.append(float(loss))
        norms.append(norm_of_gradients())
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


QUESTIONS = {one.__name__: one for one in (facts, torch, torchvision, jax, torchax, step)}

if __name__ == "__main__":
    try:
        answer = QUESTIONS[sys.argv[1]]()
    except BaseException as error:  # whatever the environment does is an answer
        frame = traceback.extract_tb(error.__traceback__)[-1]
        text = " ".join(str(error).split()) or f"in {frame.filename}, line {frame.lineno}"
        answer = {"error": f"{type(error).__name__}: {text}"}
    print("\n" + json.dumps(answer), flush=True)
    os._exit(0)  # a client of a device may wait for others when the interpreter ends
