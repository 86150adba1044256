"""Random numbers that a traced function draws: those of torch, at each call, in its order."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: FBT003, N812

from __future__ import annotations

import random
import warnings
from random import random as chance
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributions as D
from torch import nn
from torch.nn import functional as F
from torchax_compat import differentiable
from torchax_compat.autograd import specialization
from torchax_compat.jit import host_random

from ..comparison import assert_equal, copied, plain_torch

X = torch.linspace(-2, 3, 6 * 4 * 5).reshape(6, 4, 5)


def score(x):
    return x[0, 0].softmax(-1)


NOISE = {
    "dropout": lambda x: F.dropout(x, 0.3),
    "dropout2d": lambda x: F.dropout2d(x[None], 0.3),
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3, True),
    "dropout of a transposed tensor": lambda x: F.dropout(x.transpose(1, 2), 0.2),
    "randn": lambda x: torch.randn(30, device=x.device),
    "rand": lambda x: torch.rand((3,), device=x.device),
    "randint": lambda x: torch.randint(0, 5, (30,), device=x.device),
    "randperm": lambda x: torch.randperm(50, device=x.device),
    "two draws": lambda x: torch.rand(2, device=x.device) + torch.randn(2, device=x.device),
    "normal_ of data": lambda x: torch.zeros(6, 5, device=x.device).data.normal_(1, 0.5),
    "normal": lambda x: torch.normal(0.5, 2.0, (30,), device=x.device),
    "normal of tensors": lambda x: torch.normal(x, x.abs()),
    "randn_like": lambda x: torch.randn_like(x.transpose(1, 2)),
    "randint_like": lambda x: torch.randint_like(x, 2, 5),
    "bernoulli": lambda x: torch.bernoulli(score(x)),
    "bernoulli_": lambda x: torch.empty_like(x).bernoulli_(0.4),
    "multinomial": lambda x: torch.multinomial(score(x), 3),
    "multinomial with replacement": lambda x: torch.multinomial(score(x), 9, True),
    "gumbel_softmax": F.gumbel_softmax,
    "Normal.rsample": lambda x: D.Normal(x, 1.0).rsample(),
    "Categorical.sample": lambda x: D.Categorical(logits=x).sample(),
    "Exponential.sample": lambda x: D.Exponential(x.exp()).sample(),
    "uniform_ of a new tensor": lambda x: x.new_empty(3).uniform_(-1, 1),
}


def drawn(function, x, seed=7):
    torch.manual_seed(seed)
    made = [function(x).detach().cpu().float() for _ in range(2)]
    return made, torch.get_rng_state()


@pytest.mark.parametrize("name", NOISE)
def test_noise_is_what_torch_draws_on_the_host_compiled_or_not(name: str) -> None:
    function = NOISE[name]
    with plain_torch():
        expected = drawn(function, X)
    traced = differentiable(function)
    for one in (function, traced):
        assert_equal(expected, drawn(one, X.to("jax")))
    assert traced.compiled_function.is_compiled


@pytest.mark.parametrize(
    ("function", "mean", "deviation"),
    [
        (lambda x: x.clone().normal_(1, 0.5), 1, 0.5),
        (lambda x: x.clone().uniform_(-1, 3), 1, 1.155),
        (lambda x: x.clone().exponential_(2.0), 0.5, 0.5),
        (lambda x: torch.bernoulli(x + 0.3), 0.3, 0.458),
        (lambda x: F.dropout(x + 1, 0.25), 1, 0.577),
        (lambda x: torch.rand_like(x), 0.5, 0.289),
    ],
)
def test_noise_of_the_device_has_the_distribution_that_is_asked_for(
    function, mean, deviation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(host_random, "is_drawn_by_torch", lambda: False)
    for one in (function, differentiable(function)):
        (first, second), _ = drawn(one, torch.zeros(200, 100).to("jax"))
        assert not torch.equal(first, second)
        assert abs(first.mean().item() - mean) < 0.2 * deviation
        assert abs(first.std().item() - deviation) < 0.12 * deviation


def test_noise_of_other_shapes_needs_no_other_run_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    runs, run = [], specialization.Specialization.__call__

    def noting(self, given, is_compiled):
        runs.append(is_compiled)
        return run(self, given, is_compiled)

    monkeypatch.setattr(specialization.Specialization, "__call__", noting)

    @differentiable
    def dropped(x):
        if x.sum() > 0:
            x = x * 2
        return F.dropout(x, 0.5).sum() + torch.rand_like(x[0]).sum()

    for size in (3, 4, 5, 3):
        torch.manual_seed(size)
        found = dropped(torch.ones(size, size, requires_grad=True, device="jax"))
        torch.manual_seed(size)
        assert_equal(
            F.dropout(torch.ones(size, size) * 2, 0.5).sum() + torch.rand(size).sum(), found.detach()
        )
    assert 1 == runs.count(False)


def trained(function, make, *, steps=6, is_compiled=True, seed=0) -> Any:
    """Losses, gradients and the generators behind them are those of torch."""
    found, decorated = [], differentiable(function)
    for device in ("cpu", "jax"):
        torch.manual_seed(seed), np.random.seed(seed), random.seed(seed)
        net = make().to(device)
        with warnings.catch_warnings():
            warnings.filterwarnings("error" if is_compiled else "ignore", "`.*` runs call by call")
            for step in range(steps):
                net.zero_grad()
                x = (X[0] + step / 4).to(device)
                if device == "cpu":
                    with plain_torch():
                        result = function(net, x)
                        result[0].backward()
                else:
                    result = decorated(net, x)
                    result[0].backward()
                found.append(copied((result, [p.grad for p in net.parameters()])))
        found.append((random.random(), float(np.random.rand()), torch.rand(1)))
    half = len(found) // 2
    assert_equal(found[:half], found[half:])
    assert is_compiled == decorated.compiled_function.is_compiled
    return decorated


def layer():
    return nn.Linear(5, 3)


def test_noise_that_is_drawn_on_the_host_and_moved() -> None:
    def compute_loss(net, x):
        return (net(x + torch.randn(x.shape, generator=None).to(x.device)).square().mean(),)

    trained(compute_loss, layer)


def test_numbers_of_python_and_numpy() -> None:
    def compute_loss(net, x):
        share, place = np.random.beta(1.0, 1.0), np.random.randint(3)
        order = torch.randperm(len(x)).to(x.device)
        scale = torch.from_numpy(np.random.normal(1.0, 0.1, size=(4, 1)).astype(np.float32)).to(x.device)
        mixed = share * x + (1 - share) * x[order]
        hidden = net(mixed * scale)
        if random.random() < 0.5:
            hidden = hidden * 2
        loss = hidden.square().mean() + hidden[:, place].square().mean()
        return loss * 2 if chance() < 0.3 else loss, share, random.randint(0, 9)

    trained(compute_loss, layer, steps=16)


def test_arrays_of_numpy_that_are_needed_let_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        order = list(range(len(x)))
        random.shuffle(order)
        noise = torch.FloatTensor(np.random.normal(size=(4, 5))).to(x.device)
        return net(x[order] + noise).square().mean(), np.random.rand()

    trained(compute_loss, layer, is_compiled=False)


def test_attribute_of_an_array_that_is_drawn_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        noise = np.random.normal(size=(4, 5))
        return net(x).square().mean() * float(noise.mean()), noise.shape

    trained(compute_loss, layer, is_compiled=False)


def test_noise_behind_dropout_is_in_the_order_of_torch() -> None:
    def compute_loss(net, x):
        codes = net(x)
        others = torch.randint(0, 4, (4,), device=x.device)
        shift = torch.randn_like(x) / 10
        return ((codes * codes[others]).sum(-1) - (codes * net(x + shift)).sum(-1)).mean(), others

    trained(compute_loss, lambda: nn.Sequential(nn.Linear(5, 6), nn.Dropout(0.5), nn.Linear(6, 3)))


def test_noise_of_other_functions_of_the_host() -> None:
    def compute_loss(net, x):
        noise = torch.rand(x.shape).to(x.device)
        scores = net(x + noise)
        if scores.abs().max() > 1000:
            scores = scores / 2
        drawn = torch.normal(0.0, 1.0, (3,)).to(x.device)
        return (scores * drawn).square().mean(), torch.randint(9, (2,)), torch.randperm(3)

    trained(compute_loss, layer)


def test_generators_of_their_own_go_on_at_each_call() -> None:
    class Noisy(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.rng, self.python = nn.Linear(5, 3), np.random.default_rng(1), random.Random(2)
            self.old, self.torch = np.random.RandomState(3), torch.Generator().manual_seed(4)

        def forward(self, x):
            noise = torch.from_numpy(self.rng.random(tuple(x.shape), dtype=np.float32)).to(x.device)
            target = torch.randn(len(x), 3, generator=self.torch).to(x.device)
            return (self.layer(x + noise) - target) * (self.python.random() + self.old.rand())

    trained(lambda net, x: (net(x).square().mean(),), Noisy, is_compiled=False)


def test_generator_of_torch_that_is_an_argument() -> None:
    losses = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net, generator = layer().to(device), torch.Generator().manual_seed(0)

        def compute_loss(net, x, generator):
            return (net(x) * torch.randn(4, 3, generator=generator).to(x.device)).square().mean()

        function = compute_loss if device == "cpu" else differentiable(compute_loss)
        losses += [function(net, X[0].to(device), generator).item() for _ in range(4)]
    assert_equal(losses[:4], losses[4:])


def test_noise_with_a_generator_of_its_own_on_the_device() -> None:
    @differentiable
    def compute_loss(net, x, generator):
        return (net(x) * torch.rand(4, 3, generator=generator, device=x.device)).sum()

    net = layer().to("jax")
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        generator = torch.Generator().manual_seed(0)
        losses = [compute_loss(net, X[0].to("jax"), generator).item() for _ in range(3)]
    generator = torch.Generator().manual_seed(0)
    host = net.cpu()
    assert_equal(
        [(host(X[0]) * torch.rand(4, 3, generator=generator)).sum().item() for _ in range(3)], losses
    )


def test_other_draws_at_a_later_call_are_noticed() -> None:
    class Sometimes(nn.Linear):
        def forward(self, x):
            x = super().forward(x)
            return F.dropout(x, 0.5) if self.is_noisy else x

    def compute_loss(net, x):
        net.is_noisy = bool(x.sum() > 100)
        return (net(x).square().mean(),)

    trained(compute_loss, lambda: Sometimes(5, 3))


def test_more_noise_in_a_branch_that_is_taken_later() -> None:
    def compute_loss(net, x):
        out = F.dropout(net(x), 0.5)
        if x.mean() > -1.2:
            out = out + torch.rand_like(out)
        return (out.square().mean(),)

    trained(compute_loss, layer, steps=10)


def test_noise_of_modules_called_one_by_one() -> None:
    def compute_loss(net, x):
        out = net(x)
        return out.square().mean(), out.detach().cpu().numpy().shape

    trained(
        compute_loss,
        lambda: nn.Sequential(nn.Linear(5, 4), nn.Dropout(0.5), nn.Linear(4, 3)),
        is_compiled=False,
    )


def test_tensor_of_the_host_that_is_drawn_by_the_size_of_a_tensor() -> None:
    def compute_loss(net, x):
        places = torch.randint(x.shape[0], (3,)).to(x.device)
        return (net(x[places][torch.randperm(3)]).square().mean(),)

    trained(compute_loss, layer)
