"""`torch.cuda.Event`, `Stream`, `stream` and `current_stream`, on torchax as well."""

from __future__ import annotations

from .events import Event
from .streams import Stream, current_stream, stream

__all__ = ["Event", "Stream", "current_stream", "stream"]
