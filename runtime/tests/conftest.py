"""torchax-compat, enabled once in this process.

These tests run as a pytest process of their own (`make runtime`), since entering torchax changes torch for
every test behind it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src"

collect_ignore_glob: list[str] = []
if any(importlib.util.find_spec(name) is None for name in ("torch", "torchax", "jax")):
    collect_ignore_glob.append("*")
else:
    # As the verifier has it: libtpu must not look for a TPU, and small operations need one thread.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(SOURCE))


@pytest.fixture(autouse=True, scope="session")
def _environment() -> None:
    """Enter torchax once, with the runtime, as a fixed program does at its start."""
    import torch
    import torchax_compat

    torch.set_num_threads(1)
    torchax_compat.enable()


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch

    torch.manual_seed(0)
