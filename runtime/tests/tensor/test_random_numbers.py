"""Random numbers on the device are those of torch on the host, or of the distribution that is asked for."""

# ruff: noqa: ARG005 # all draws are given the same

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import pytest
import torch
import torchax
from torch import distributions, nn
from torch.nn import functional
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable
from torchax_compat.jit import host_random

Drawing = Callable[[Any, str], Any]

NUMBERS = torch.linspace(-2, 3, 6 * 4 * 5 * 7).reshape(6, 4, 5, 7)


def _chance(x: Any) -> Any:
    return x[0, 0].softmax(-1)


AS_TORCH: dict[str, Drawing] = {
    "dropout": lambda x, d: functional.dropout(x, 0.3),
    "dropout2d": lambda x, d: functional.dropout2d(x, 0.3),
    "alpha_dropout": lambda x, d: functional.alpha_dropout(x, 0.3, training=True),
    "dropout of a transposed tensor": lambda x, d: functional.dropout(x.transpose(1, 2), 0.2),
    "dropout of what was computed of a transposed tensor": lambda x, d: functional.dropout(
        functional.leaky_relu(functional.gelu(x.transpose(-1, 1)).transpose(-1, 1) + x[0]), 0.3
    ),
    "randn": lambda x, d: torch.randn(30, device=d),
    "rand": lambda x, d: torch.rand((3,), device=d),
    "randn of sizes of NumPy": lambda x, d: torch.randn(tuple(np.array([2, 3])), device=d),
    "randint": lambda x, d: torch.randint(0, 5, (30,), device=d),
    "randperm": lambda x, d: torch.randperm(50, device=d),
    "randint and randperm": lambda x, d: torch.randint(0, 5, (4,), device=d) + torch.randperm(4, device=d),
    "normal_ of data": lambda x, d: torch.zeros(6, 5, device=d).data.normal_(1, 0.5),
    "normal": lambda x, d: torch.normal(0.5, 2.0, (30,), device=d),
    "normal of tensors": lambda x, d: torch.normal(x, x.abs()),
    "randn_like of a transposed tensor": lambda x, d: torch.randn_like(x.transpose(1, 2)),
    "rand_like": lambda x, d: torch.rand_like(x),
    "randint_like": lambda x, d: torch.randint_like(x, 2, 5),
    "bernoulli": lambda x, d: torch.bernoulli(_chance(x)),
    "bernoulli_": lambda x, d: torch.empty_like(x).bernoulli_(0.4),
    "bernoulli_ of a tensor": lambda x, d: torch.empty_like(_chance(x)).bernoulli_(_chance(x)),
    "multinomial": lambda x, d: torch.multinomial(_chance(x), 1),
    "multinomial of three": lambda x, d: torch.multinomial(_chance(x), 3),
    "multinomial with replacement": lambda x, d: torch.multinomial(_chance(x), 9, replacement=True),
    "gumbel_softmax": lambda x, d: functional.gumbel_softmax(x),
    "Normal": lambda x, d: distributions.Normal(x, 1.0).rsample(),
    "Categorical": lambda x, d: distributions.Categorical(logits=x).sample(),
    "Exponential": lambda x, d: distributions.Exponential(x.exp()).sample(),
    "Laplace": lambda x, d: distributions.Laplace(x, 1.0).rsample(),
    "uniform_": lambda x, d: x.new_empty(3).uniform_(-1, 1),
    "two draws": lambda x, d: torch.rand(2, device=d) + torch.randn(2, device=d),
}
ALONE: dict[str, Drawing] = {
    "part of a tensor": lambda x, d: torch.zeros(4, 3, device=d)[1:3].uniform_(),
    "cauchy_": lambda x, d: torch.zeros(5, device=d).cauchy_(),
    "log_normal_": lambda x, d: torch.zeros(5, device=d).log_normal_(),
    "geometric_": lambda x, d: torch.zeros(5, device=d).geometric_(0.3),
    "random_": lambda x, d: torch.zeros(5, device=d).random_(3, 9),
    "exponential_": lambda x, d: torch.zeros(5, device=d).exponential_(0.5),
    "poisson": lambda x, d: torch.poisson(x[0, 0].abs()),
    "binomial": lambda x, d: torch.binomial(torch.full((3,), 9.0, device=d), torch.full((3,), 0.4, device=d)),
    "Gamma": lambda x, d: distributions.Gamma(x[0, 0].exp(), 1.0).sample(),
    "Dirichlet": lambda x, d: distributions.Dirichlet(x[0, 0].exp()).sample(),
    "generator": lambda x, d: torch.randn(4, generator=torch.Generator(d).manual_seed(3), device=d),
    "requires_grad": lambda x, d: torch.randn(4, device=d, requires_grad=True),
    "orthogonal_": lambda x, d: nn.init.orthogonal_(torch.empty(3, 4, device=d)),
    "orthogonal_ of a parameter": lambda x, d: nn.init.orthogonal_(nn.Linear(3, 2).to(d).weight),
    "eye_": lambda x, d: nn.init.eye_(torch.empty(3, 4, device=d)),
    "dirac_": lambda x, d: nn.init.dirac_(torch.empty(3, 4, 3, device=d)),
    "trunc_normal_": lambda x, d: nn.init.trunc_normal_(torch.empty(3, 4, device=d), std=0.2),
    "xavier_normal_": lambda x, d: nn.init.xavier_normal_(torch.empty(3, 4, device=d)),
}


def _drawn(function: Drawing, device: str) -> tuple[list[torch.Tensor], torch.Tensor]:
    torch.manual_seed(7)
    x = NUMBERS.to(device)
    made = [function(x, device).detach().cpu().float() for _ in range(2)]
    return made, torch.get_rng_state()


@pytest.mark.parametrize("name", [*AS_TORCH, *ALONE])
def test_numbers_are_those_that_torch_draws_on_the_host(name: str) -> None:
    function = {**AS_TORCH, **ALONE}[name]
    with _disable_current_modes():
        due, state = _drawn(function, "cpu")
    made, after = _drawn(function, "jax")
    assert torch.equal(state, after)
    for one, other in zip(due, made, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


@pytest.mark.parametrize("name", AS_TORCH)
def test_numbers_of_compiled_functions_are_those_that_torch_draws(name: str) -> None:
    with _disable_current_modes():
        due, state = _drawn(AS_TORCH[name], "cpu")
    traced = differentiable(lambda x, d: AS_TORCH[name](x, d))
    made, after = _drawn(traced, "jax")
    assert torch.equal(state, after)
    assert traced.compiled_function.is_compiled
    for one, other in zip(due, made, strict=True):
        assert torch.allclose(one, other, atol=1e-5)


NETWORKS: dict[str, tuple[Callable[[], Any], Callable[[Any, Any], Any]]] = {
    "LSTM": (lambda: nn.LSTM(4, 3, 2, dropout=0.3), lambda net, x: net(x)[0]),
    "GRU": (lambda: nn.GRU(4, 3, 2, dropout=0.4, batch_first=True), lambda net, x: net(x)[0]),
    "TransformerEncoderLayer": (
        lambda: nn.TransformerEncoderLayer(4, 1, 4, dropout=0.2, batch_first=True),
        lambda net, x: net(x),
    ),
    "MultiheadAttention": (
        lambda: nn.MultiheadAttention(4, 2, dropout=0.3, batch_first=True),
        lambda net, x: net(x, x, x)[0],
    ),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_drop_out_what_they_do_in_torch(name: str) -> None:
    make, call = NETWORKS[name]
    host = make()
    net = copy.deepcopy(host).to("jax")
    compiled = differentiable(lambda net, x: call(net, x))
    x = torch.linspace(-1, 1, 5 * 3 * 4).reshape(5, 3, 4)
    for function in (call, compiled):
        results = []
        for one, given in ((host, x), (net, x.to("jax"))):
            torch.manual_seed(7)
            run = call if one is host else function
            results.append([run(one, given).detach().cpu(), run(one, given).detach().cpu(), torch.rand(1)])
        assert all(torch.allclose(*pair, atol=1e-5) for pair in zip(*results, strict=True))
    assert compiled.compiled_function.is_compiled


BY_DEVICE: list[tuple[Drawing, float, float]] = [
    (lambda x, d: x.clone().normal_(1, 0.5), 1, 0.5),
    (lambda x, d: x.clone().uniform_(-1, 3), 1, 1.155),
    (lambda x, d: x.clone().exponential_(2.0), 0.5, 0.5),
    (lambda x, d: x.clone().geometric_(0.25), 4, 3.46),
    (lambda x, d: x.clone().log_normal_(0, 0.5), 1.133, 0.604),
    (lambda x, d: x.clone().random_(5), 2, 1.414),
    (lambda x, d: x.clone().random_(5, 9), 6.5, 1.118),
    (lambda x, d: x.clone().bernoulli_(0.2), 0.2, 0.4),
    (lambda x, d: x.clone().cauchy_(0.0, 1.0).atan(), 0, 0.907),
    (lambda x, d: torch.normal(1.0, 0.5, (200, 100), device=d), 1, 0.5),
    (lambda x, d: torch.normal(x + 1, 0.5), 1, 0.5),
    (lambda x, d: torch.bernoulli(x + 0.3), 0.3, 0.458),
    (lambda x, d: torch.multinomial(x + 1, 1), 49.5, 28.9),
    (lambda x, d: torch.multinomial(x + 1, 3, replacement=True), 49.5, 28.9),
    (lambda x, d: torch.multinomial(x + 1, 60), 49.5, 28.9),
    (lambda x, d: distributions.Gumbel(x, 1.0).rsample(), 0.577, 1.283),
    (lambda x, d: functional.dropout(x + 1, 0.25), 1, 0.577),
    (lambda x, d: torch.rand_like(x), 0.5, 0.289),
]


@pytest.mark.parametrize("number", range(len(BY_DEVICE)))
@pytest.mark.parametrize("is_compiled", [True, False])
def test_numbers_of_a_device_have_the_distribution_that_is_asked_for(
    number: int, is_compiled: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_random, "is_drawn_by_torch", lambda: False)
    torchax.default_env().manual_seed(3)
    function, mean, deviation = BY_DEVICE[number]
    if is_compiled:
        function = differentiable(lambda x, d: BY_DEVICE[number][0](x, d))
    x = torch.zeros(200, 100).to("jax")
    first, second = (function(x, "jax").float() for _ in range(2))
    assert not torch.equal(first, second)
    assert abs(first.mean().item() - mean) < 0.2 * deviation
    assert abs(first.std().item() - deviation) < 0.12 * deviation


def test_random_of_integers_has_all_their_bits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_random, "is_drawn_by_torch", lambda: False)
    drawn = differentiable(lambda x: x.clone().random_())
    assert drawn(torch.zeros(1000, dtype=torch.int32, device="jax")).max().item() > 2**30
    assert 2**24 > drawn(torch.zeros(1000, device="jax")).max().item() > 2**22


def test_a_generator_of_its_own_decides_what_the_device_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator("jax")
    made = [torch.zeros(4, device="jax").uniform_(generator=generator.manual_seed(3)) for _ in range(2)]
    assert torch.equal(*made)
    monkeypatch.setattr(host_random, "is_drawn_by_torch", lambda: False)
    noise = torch.zeros(4, device="jax").normal_(generator=generator)
    assert not torch.equal(noise, torch.zeros(4, device="jax").normal_(generator=generator))


def test_parts_of_what_is_traced_are_filled() -> None:
    @differentiable
    def drawn(x: Any) -> Any:
        y = x.clone()
        y[1:].uniform_(2, 3)
        return y

    made = drawn(torch.zeros(4, device="jax")).tolist()
    assert 0 == made[0]
    assert all(2 <= one < 3 for one in made[1:])


def test_out_is_left_to_torchax() -> None:
    out = torch.empty(3, device="jax")
    assert 3 == len(set(torch.rand(3, out=out).tolist()))


def test_gamma_cannot_be_drawn_for_what_is_traced() -> None:
    function = differentiable(lambda x: distributions.Gamma(x.exp(), 1.0).sample().sum())
    assert 0 < function(torch.ones(3, device="jax")).item()


def test_initialisation_of_what_is_traced_is_torchs_own() -> None:
    def identity(x: Any) -> Any:
        return nn.init.eye_(x * 1)

    made = jax.eval_shape(torchax.interop.jax_view(identity), jax.numpy.ones((2, 2)))
    assert (2, 2) == made.shape
    assert not torch.ones(1, device="jax").is_meta
