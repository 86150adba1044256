"""Operators that torchax lacks; importing this brings them in (`operators.py`)."""

from . import operators  # noqa: F401
