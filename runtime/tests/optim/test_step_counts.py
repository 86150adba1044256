"""Counts of steps keep the digits of `1 - beta ** step`."""

from __future__ import annotations

import pytest
import torch
from torchax_compat.optim.step_counts import State


@pytest.mark.parametrize("step", [1, 2, 50])
def test_powers_of_a_beta_keep_their_digits(step: int) -> None:
    state = State({"step": torch.tensor(float(step), device="jax"), "exp_avg": torch.zeros(1, device="jax")})
    count = state["step"]
    assert count.item() is count
    assert pytest.approx(1 - 0.999**step, rel=1e-6) == float((1 - 0.999**count).jax())
    assert pytest.approx(0.999**step - 1, rel=1e-6) == float((0.999**count - 1).jax())
    assert pytest.approx(2 - 0.999**step, rel=1e-6) == float((2 - 0.999**count).jax())
    assert pytest.approx(0.999**step - 2, rel=1e-6) == float((0.999**count - 2).jax())
    assert pytest.approx(2.0**step, rel=1e-5) == float((2.0**count).jax())


def test_only_the_count_of_steps_is_one() -> None:
    state = State({"step": torch.zeros(2, device="jax")})
    state["other"] = torch.tensor(1.0, device="jax")
    assert [1.0, 1.0] == (2.0 ** state["step"]).tolist()
    assert 1 == state["other"].item()
    state["step"] = torch.tensor(3.0)
    assert 3 == float(state["step"].jax())
