"""Evidence on record: what fixture cases came to when they were executed, and which have to be anew."""

from tpulint.evidence.run import Run

__all__ = ["Run"]
