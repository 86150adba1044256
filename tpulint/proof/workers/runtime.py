"""The runtime torchax-compat, which fixed code runs with."""

from __future__ import annotations

from types import ModuleType


def enabled_runtime() -> ModuleType:
    """The package, after the environment of torchax was entered; torchvision works beside it."""
    import torchax_compat

    from tpulint.verify import torchvision_standin

    torchvision_standin.install()
    torchax_compat.enable()
    return torchax_compat
