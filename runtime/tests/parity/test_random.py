"""For a seed, draws and the state after them are those of torch on the host, one by one and compiled."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import hypothesis
import pytest
import torch
from hypothesis import strategies
from torch import nn
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable

from .comparison import assert_same
from .differences import DIFFERENT_COMPILED_DRAWS, DIFFERENT_DRAWS

#: What draws numbers, for a device; a function that JAX compiles may call it as well.
DRAWS: dict[str, Callable[[str], Any]] = {
    "rand": lambda d: torch.rand(3, 4, device=d),
    "randn": lambda d: torch.randn(3, 4, device=d),
    "many of randn": lambda d: torch.randn(40, device=d),
    "randint": lambda d: torch.randint(-3, 9, (7,), device=d),
    "randperm": lambda d: torch.randperm(9, device=d),
    "normal": lambda d: torch.normal(0.5, 2.0, (5,), device=d),
    "normal of means": lambda d: torch.normal(torch.linspace(-1, 1, 5).to(d), 0.5),
    "rand_like": lambda d: torch.rand_like(torch.zeros(2, 3, device=d)),
    "randn_like": lambda d: torch.randn_like(torch.zeros(2, 3, device=d)),
    "randint_like": lambda d: torch.randint_like(torch.zeros(5, device=d), 2, 6),
    "bernoulli": lambda d: torch.bernoulli(torch.linspace(0, 1, 6).to(d)),
    "multinomial": lambda d: torch.multinomial(torch.linspace(0.1, 1, 6).to(d), 3),
    "multinomial with replacement": lambda d: torch.multinomial(
        torch.linspace(0.1, 1, 6).to(d), 8, replacement=True
    ),
    "normal_": lambda d: torch.zeros(3, 5, device=d).normal_(1, 0.5),
    "uniform_": lambda d: torch.zeros(3, 5, device=d).uniform_(-1, 2),
    "bernoulli_": lambda d: torch.zeros(3, 5, device=d).bernoulli_(0.3),
    "dropout": lambda d: functional.dropout(torch.ones(3, 5, device=d), 0.4),
    "dropout2d": lambda d: functional.dropout2d(torch.ones(2, 3, 2, 2, device=d), 0.4),
    "alpha_dropout": lambda d: functional.alpha_dropout(torch.ones(3, 5, device=d), 0.4, training=True),
    "feature_alpha_dropout": lambda d: functional.feature_alpha_dropout(
        torch.ones(2, 3, 4, device=d), 0.4, training=True
    ),
    "rrelu": lambda d: functional.rrelu(torch.linspace(-1, 1, 6).to(d), training=True),
    "gumbel_softmax": lambda d: functional.gumbel_softmax(torch.linspace(-1, 1, 6).to(d).view(2, 3)),
    "in half precision": lambda d: torch.rand(5, device=d, dtype=torch.bfloat16),
}
#: What draws numbers outside of compiled functions.
DRAWS_ONE_BY_ONE: dict[str, Callable[[str], Any]] = {
    "exponential_": lambda d: torch.zeros(5, device=d).exponential_(0.5),
    "cauchy_": lambda d: torch.zeros(5, device=d).cauchy_(),
    "log_normal_": lambda d: torch.zeros(5, device=d).log_normal_(),
    "geometric_": lambda d: torch.zeros(5, device=d).geometric_(0.3),
    "random_": lambda d: torch.zeros(5, device=d).random_(3, 9),
    "poisson": lambda d: torch.poisson(torch.linspace(0.5, 4, 5).to(d)),
    "draw into a view": lambda d: torch.zeros(4, 3, device=d)[1:3].uniform_(),
    "normal_ of a transposed tensor": lambda d: torch.zeros(4, 3, device=d).t().normal_(),
    "generator": lambda d: torch.randn(4, generator=torch.Generator(d).manual_seed(3), device=d),
    "seed": lambda d: (torch.manual_seed(5), torch.rand(2, device=d))[1],
    "fork_rng": lambda d: _forked(d),
}
_OF_WEIGHTS = {
    "uniform_": lambda w: nn.init.uniform_(w, -1, 1),
    "normal_": lambda w: nn.init.normal_(w, 0, 0.1),
    "trunc_normal_": lambda w: nn.init.trunc_normal_(w, std=0.2),
    "constant_": lambda w: nn.init.constant_(w, 0.5),
    "ones_": nn.init.ones_,
    "zeros_": nn.init.zeros_,
    "eye_": nn.init.eye_,
    "xavier_uniform_": nn.init.xavier_uniform_,
    "xavier_normal_": nn.init.xavier_normal_,
    "kaiming_uniform_": nn.init.kaiming_uniform_,
    "kaiming_normal_": nn.init.kaiming_normal_,
    "orthogonal_": nn.init.orthogonal_,
    "sparse_": lambda w: nn.init.sparse_(w, 0.3),
}


def _initialized(function: Callable[[Any], Any], device: str) -> Any:
    return function(torch.empty(4, 3, device=device))


INITIALIZATIONS: dict[str, Callable[[str], Any]] = {
    f"init.{name}": functools.partial(_initialized, function) for name, function in _OF_WEIGHTS.items()
} | {"init.dirac_": lambda d: nn.init.dirac_(torch.empty(4, 3, 3, device=d))}


def _forked(device: str) -> Any:
    with torch.random.fork_rng():
        torch.manual_seed(1)
        inner = torch.rand(2, device=device)
    return inner, torch.rand(2, device=device)


ALL = {**DRAWS, **DRAWS_ONE_BY_ONE, **INITIALIZATIONS}


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
