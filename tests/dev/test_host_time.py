"""`python -m tpulint.dev host-time`, on a model with one layer."""

from __future__ import annotations

from pathlib import Path

from tpulint.dev import host_time

ROOT = Path(__file__).parents[2]


def test_time_outside_of_compiled_functions_is_that_of_each_step_without_its_calls() -> None:
    sizes = {**host_time.SIZES, "LAYERS": "1"}
    found = host_time.measure(ROOT, steps=3, warm_up=8, sizes=sizes)
    assert found.parameters == 16
    assert len(found.outside) == len(found.calls) == 3
    assert min(found.outside) > 0
    assert min(found.calls) > 0
    assert found.line().startswith("16 parameters, 3 steps: ")
