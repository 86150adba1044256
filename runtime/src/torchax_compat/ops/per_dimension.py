"""Settings of operators, expanded to one value for each dimension."""

from __future__ import annotations

from typing import Any


def each(setting: Any, count: int) -> Any:
    """A setting for each dimension: a single value, or a list with one, applies to all."""
    listed = list(setting) if isinstance(setting, (list, tuple)) else [setting]
    return listed * count if len(listed) == 1 else listed
