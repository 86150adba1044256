"""`tpulint report`: a page about the work to bring a project to TPU."""

from tpulint.overview.collection import collect
from tpulint.overview.content import Overview

__all__ = ["Overview", "collect"]
