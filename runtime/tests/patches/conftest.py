"""The runtime disabled, for tests of what `enable()` and `disable()` change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="module")
def disabled() -> Iterator[None]:
    """Disable the runtime during the tests of a module, which may enable it, and enable it after them."""
    import torchax_compat

    torchax_compat.disable()
    yield
    torchax_compat.disable()
    torchax_compat.enable()
