"""`tpulint report`: what it takes to bring a project to TPU, on one page."""

from tpulint.overview.collect import collected
from tpulint.overview.content import Overview

__all__ = ["Overview", "collected"]
