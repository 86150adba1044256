"""What settings of operators mean."""

from __future__ import annotations


def each(setting, count):
    """A setting for each dimension: one for all may stand alone, or in a list."""
    listed = list(setting) if isinstance(setting, (list, tuple)) else [setting]
    return listed * count if len(listed) == 1 else listed
