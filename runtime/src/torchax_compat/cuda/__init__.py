"""Replacements for `torch.cuda.Event`, `torch.cuda.Stream` and `torch.cuda.stream`."""

from .events import Event
from .streams import Stream, current_stream, stream

__all__ = ["Event", "Stream", "current_stream", "stream"]
