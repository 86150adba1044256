"""What a program takes for `torch.cuda.Event` and for streams."""

from .events import Event
from .streams import Stream, current_stream, stream

__all__ = ["Event", "Stream", "current_stream", "stream"]
