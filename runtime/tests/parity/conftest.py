"""What makes the comparison quick, and complete on the device."""

from __future__ import annotations

from collections.abc import Iterator

import hypothesis
import pytest

hypothesis.settings.register_profile(
    "parity",
    deadline=None,
    derandomize=True,
    database=None,
    suppress_health_check=list(hypothesis.HealthCheck),
)
hypothesis.settings.load_profile("parity")


@pytest.fixture(autouse=True, scope="session")
def _quick_compilation(_environment: None) -> Iterator[None]:
    """Compile single operations without optimization: each is called a few times."""
    import jax

    jax.config.update("jax_disable_most_optimizations", val=True)
    yield
    jax.config.update("jax_disable_most_optimizations", val=False)
