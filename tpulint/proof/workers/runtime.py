"""Enables the runtime torchax-compat."""

from __future__ import annotations

from types import ModuleType


def enabled_runtime() -> ModuleType:
    """Enable the runtime, and return its package; the operators of torchvision are replaced if necessary."""
    import torchax_compat

    from tpulint.verify import torchvision_standin

    torchvision_standin.install()
    torchax_compat.enable()
    return torchax_compat
