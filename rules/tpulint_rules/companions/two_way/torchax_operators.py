"""Operators that torchax lacks: nothing on CUDA, elsewhere importing this brings them in (`operators.py`)."""

import torch

if not torch.cuda.is_available():
    from . import operators  # noqa: F401
