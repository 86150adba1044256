"""Gives all runs the same random numbers."""

from __future__ import annotations

import functools
import random
from typing import Any


def repeat_random_numbers() -> None:
    """Seed all random number generators, also those that a program would seed randomly."""
    import numpy as np
    import torch

    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)  # tpulint: ignore[TPU617]
    for owner, name in ((random, "seed"), (np.random, "seed"), (np.random, "default_rng")):
        setattr(owner, name, _seeded(getattr(owner, name)))
    torch.seed = functools.partial(torch.manual_seed, 0)


def _seeded(function: Any) -> Any:
    @functools.wraps(function)
    def seeded(seed: Any = None, *args: Any, **kwargs: Any) -> Any:
        return function(0 if seed is None else seed, *args, **kwargs)

    return seeded
