"""What an optimizer holds, and its options, may change between fused steps."""

from __future__ import annotations

import copy
from typing import Any

import torch

from .test_fused_steps import ADAM, Loop, assert_close, logged, plain


def test_groups_of_an_optimizer_may_keep_different_things() -> None:
    def made(parameters: Any) -> torch.optim.Optimizer:
        first, *others = parameters
        return torch.optim.SGD([{"params": [first], "momentum": 0.9}, {"params": others}], lr=0.05)

    assert_close(logged(plain, "cpu", made, norm=False), logged(plain, "jax", made, norm=False))


def test_a_loaded_state_is_used() -> None:
    def run(loop: Loop, step: int) -> None:
        plain(loop, step)
        if step == 5:
            state = copy.deepcopy(loop.optimizer.state_dict())
            for entry in state["state"].values():
                entry["exp_avg"].mul_(0.5)
            loop.optimizer.load_state_dict(state)

    assert_close(logged(run, "cpu", ADAM, norm=False), logged(run, "jax", ADAM, norm=False))


def test_a_parameter_may_be_at_another_step() -> None:
    def run(loop: Loop, step: int) -> None:
        plain(loop, step)
        if step == 5:
            loop.optimizer.state[loop.net[0].weight]["step"].fill_(1.0)

    assert_close(logged(run, "cpu", ADAM, norm=False), logged(run, "jax", ADAM, norm=False))


def test_a_parameter_may_move_to_another_group() -> None:
    def made(parameters: Any) -> torch.optim.Optimizer:
        first, *others = parameters
        return torch.optim.Adam([{"params": [first]}, {"params": others, "lr": 0.001}], lr=0.05)

    def run(loop: Loop, step: int) -> None:
        plain(loop, step)
        if step == 5:
            one, other = loop.optimizer.param_groups
            one["params"].append(other["params"].pop(0))

    assert_close(logged(run, "cpu", made, norm=False), logged(run, "jax", made, norm=False))


def test_options_of_an_optimizer_may_be_a_list_that_changes() -> None:
    def run(loop: Loop, step: int) -> None:
        plain(loop, step)
        if step == 4:
            loop.optimizer.param_groups[0]["betas"] = [0.5, 0.6]
        if step == 6:
            loop.optimizer.param_groups[0]["betas"][0] = 0.1

    assert_close(logged(run, "cpu", ADAM, norm=False), logged(run, "jax", ADAM, norm=False))
