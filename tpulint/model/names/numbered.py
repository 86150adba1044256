"""New names."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count


def numbered(name: str) -> Iterator[str]:
    """A name, and the name with numbers from 2."""
    yield name
    for number in count(2):
        yield f"{name}_{number}"
