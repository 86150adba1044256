"""Data loading, and files of tensors."""

from __future__ import annotations

from . import cpu_pickle

__all__ = ["cpu_pickle"]
