"""Functions that draw random numbers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

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
#: Initializations; they are looked up when they are called, since the runtime patches some.
_OF_WEIGHTS = {
    "uniform_": lambda w: nn.init.uniform_(w, -1, 1),
    "normal_": lambda w: nn.init.normal_(w, 0, 0.1),
    "trunc_normal_": lambda w: nn.init.trunc_normal_(w, std=0.2),
    "constant_": lambda w: nn.init.constant_(w, 0.5),
    "ones_": lambda w: nn.init.ones_(w),
    "zeros_": lambda w: nn.init.zeros_(w),
    "eye_": lambda w: nn.init.eye_(w),
    "xavier_uniform_": lambda w: nn.init.xavier_uniform_(w),
    "xavier_normal_": lambda w: nn.init.xavier_normal_(w),
    "kaiming_uniform_": lambda w: nn.init.kaiming_uniform_(w),
    "kaiming_normal_": lambda w: nn.init.kaiming_normal_(w),
    "orthogonal_": lambda w: nn.init.orthogonal_(w),
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
