"""For a seed, draws and the state after them are those of torch on the host, one by one and compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable

from .comparison import assert_same
from .differences import DIFFERENT_COMPILED_DRAWS, DIFFERENT_DRAWS
from .tables.draws import ALL, DRAWS


def _drawn(function: Callable[[str], Any], device: str, seed: int) -> list[Any]:
    torch.manual_seed(seed)
    made = [function(device) for _ in range(2)]
    return [*_on_host(made), torch.get_rng_state()]


def _on_host(values: Any) -> Any:
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda one: one.detach().cpu().clone(), values)


def _cases(names: Iterable[str], different: Mapping[str, str]) -> list[Any]:
    return [
        pytest.param(name, marks=pytest.mark.xfail(reason=different[name], strict=True))
        if name in different
        else name
        for name in names
    ]


@pytest.mark.parametrize("name", _cases(ALL, DIFFERENT_DRAWS))
def test_draws_are_those_of_torch(name: str) -> None:
    for seed in range(3):
        with _disable_current_modes():
            due = _drawn(ALL[name], "cpu", seed)
        assert_same(due, _drawn(ALL[name], "jax", seed), name)


@pytest.mark.parametrize("name", _cases(DRAWS, DIFFERENT_COMPILED_DRAWS))
def test_draws_of_compiled_functions_are_those_of_torch(name: str) -> None:
    def scaled(x: Any) -> Any:
        return DRAWS[name]("jax" if x.device.type == "jax" else "cpu") * x

    compiled, one = differentiable(scaled), torch.tensor(1.0)
    for seed in range(2):
        with _disable_current_modes():
            due = _drawn(lambda _: scaled(one), "cpu", seed)
        assert_same(due, _drawn(lambda _: compiled(one.to("jax")), "jax", seed), name)
    assert compiled.compiled_function.is_compiled


_WITHOUT_DIFFERENCES = [name for name in ALL if name not in DIFFERENT_DRAWS]
#: Steps of a program: what is drawn, or what is done to the state.
STEPS = strategies.lists(
    strategies.sampled_from(
        [
            *_WITHOUT_DIFFERENCES,
            "seed of the program",
            "save the state",
            "restore the state",
            "generator draws",
        ]
    ),
    min_size=1,
    max_size=6,
)


@hypothesis.settings(max_examples=60)
@hypothesis.given(steps=STEPS, seed=strategies.integers(0, 2**31))
def test_programs_draw_as_in_torch(steps: list[str], seed: int) -> None:
    with _disable_current_modes():
        due = _run(steps, seed, "cpu")
    assert_same(due, _run(steps, seed, "jax"), str(steps))


def _run(steps: list[str], seed: int, device: str) -> list[Any]:
    torch.manual_seed(seed)
    generator, state, seen = torch.Generator(device).manual_seed(seed), torch.get_rng_state(), []
    for step in steps:
        if step == "seed of the program":
            torch.manual_seed(seed + 1)
        elif step == "save the state":
            state = torch.get_rng_state()
        elif step == "restore the state":
            torch.set_rng_state(state)
        elif step == "generator draws":
            seen.append(torch.rand(3, generator=generator, device=device))
            seen.append(torch.zeros(3, device=device).normal_(generator=generator))
        else:
            seen.append(ALL[step](device))
    return [*_on_host(seen), torch.get_rng_state()]
