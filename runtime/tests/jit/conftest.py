"""What makes the tests of tracing quick."""

from __future__ import annotations

import gc

import pytest


@pytest.fixture(autouse=True, scope="session")
def _quick_collection(_environment: None) -> None:
    """Leave out of collections what is loaded: runs that read numbers collect, to see whether any is kept."""
    gc.collect()
    gc.freeze()
