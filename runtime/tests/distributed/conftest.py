"""One process group of gloo, of this process alone."""

from __future__ import annotations

from collections.abc import Iterator

import pytest


@pytest.fixture
def alone() -> Iterator[None]:
    import torch.distributed as dist

    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()
