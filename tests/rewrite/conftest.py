"""How hypothesis is to be run here."""

from __future__ import annotations

import os
import sys

from hypothesis import HealthCheck, settings

from tpulint.engine.desk import RECURSION_LIMIT

# The engine raises it anyway; hypothesis would warn that it changed in the middle of a test.
sys.setrecursionlimit(RECURSION_LIMIT)

# Two cores are shared by all. Continuous integration tries the same examples each time; whoever runs tests
# by hand tries new ones.
settings.register_profile(
    "tpulint",
    deadline=None,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("tpulint")
