"""The runtime that fixes write beside a program, in this process: torch, torchax and JAX are imported once.

These tests run as a pytest process of their own (`make runtime`), since entering torchax changes torch for
every test behind it.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest

RUNTIME = Path(__file__).parents[2] / "rules" / "tpulint_rules" / "companions"

collect_ignore_glob: list[str] = []
if any(importlib.util.find_spec(name) is None for name in ("torch", "torchax", "jax")):
    collect_ignore_glob.append("*")
else:
    # As the verifier has it: libtpu must not look for a TPU, and small operations need one thread.
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    sys.path.insert(0, str(RUNTIME))


@pytest.fixture(autouse=True, scope="session")
def _environment() -> None:
    """Enter torchax once, with the runtime, as a fixed program does at its start."""
    import torch
    import torchax
    import torchax_training  # noqa: F401

    torch.set_num_threads(1)
    torchax.enable_globally()


@pytest.fixture(autouse=True)
def _seed() -> None:
    import torch

    torch.manual_seed(0)
