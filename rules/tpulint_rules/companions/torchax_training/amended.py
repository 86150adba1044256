"""Imports the modules that patch torch and torchax, so that torchax tensors behave as in PyTorch.

A module that does not fit the installed version of torchax is skipped.
"""

from __future__ import annotations

import contextlib
import importlib

for _name in (
    "host.compiling",
    "tensors.items",  # before `tensors.dispatch`, which wraps its `__setitem__`
    "tensors.values",
    "tensors.dispatch",
    "tensors.sharing",
    "autograd.custom",
    "autograd.derivatives",
    "autograd.functional",
    "autograd.transforms",
    "host.generators",
    "host.importing",
    "host.loading",
    "host.meshes",
    "host.pickling",
    "host.processes",
    "host.scripting",
    "host.threads",
    "host.torch_compile",
    "host.workers",
    "operators.attention",
    "operators.convolutions",
    "operators.flexible_attention",
    "operators.missing",
    "operators.normalisation",
    "operators.options",
    "operators.packed",
    "operators.reckoning",
    "operators.recurrent",
    "operators.reductions",
    "operators.resampling",
    "operators.sampling",
    "operators.sparse_matrices",
    "optimizers.lbfgs",
    "optimizers.sparse_adam",
    "tracing.jittable",
    "tensors.addresses",
    "tensors.copies",
    "tensors.moving",
    "tensors.old_types",
):
    with contextlib.suppress(ImportError, AttributeError):  # other versions of torchax may differ
        importlib.import_module(f".{_name}", __package__)
