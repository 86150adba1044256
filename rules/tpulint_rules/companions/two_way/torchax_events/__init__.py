"""`torch.cuda.Event`: PyTorch's own if CUDA is available, otherwise a replacement for torchax."""

import torch

if torch.cuda.is_available():
    from torch.cuda import Event
else:
    from .events import Event

__all__ = ["Event"]
