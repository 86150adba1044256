"""Data loading, and files of tensors."""

from __future__ import annotations

from . import cpu_pickle
from .device_loader import DeviceLoader

__all__ = ["DeviceLoader", "cpu_pickle"]
