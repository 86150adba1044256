"""What a program takes for `torch.cuda.Event`."""

from .events import Event

__all__ = ["Event"]
