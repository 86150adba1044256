"""What a program takes for `torch.cuda.Event`: that itself, on CUDA."""

import torch

if torch.cuda.is_available():
    from torch.cuda import Event
else:
    from .events import Event

__all__ = ["Event"]
