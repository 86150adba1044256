"""Noise of the folder beside fixed programs: torch's own on the host, and right where the device draws."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torchax")

DRAWN = """\
import torch
import torch.distributions as D
import torch.nn.functional as F
import torchax
from torch import nn
from torchax_training import differentiable
from torchax_training.tracing import draws

NUMBERS = torch.linspace(-2, 3, 6 * 4 * 5 * 7).reshape(6, 4, 5, 7)
ROWS = torch.linspace(-1, 1, 5 * 4 * 12).reshape(5, 4, 12)
torch.manual_seed(1)
NETWORKS = [
    nn.LSTM(7, 6, 3, dropout=0.3, bidirectional=True),
    nn.GRU(7, 6, 2, dropout=0.4, batch_first=True),
    nn.TransformerEncoderLayer(12, 2, 16, dropout=0.2, batch_first=True),
    nn.MultiheadAttention(12, 2, dropout=0.3, batch_first=True),
]


def drawing(text):
    return eval(
        f"lambda x, s, n, place: {text}",
        {"torch": torch, "F": F, "D": D, "nn": nn, "chance": lambda x: x[0, 0].softmax(-1)},
    )


def drawn(function, x, s, networks, place):
    torch.manual_seed(7)
    made = [function(x, s, networks, place).detach().cpu().float() for _ in range(2)]
    return made, torch.get_rng_state()
"""

AS_TORCH = """\
TEXTS = [
    "F.dropout(x, 0.3)",
    "F.dropout2d(x, 0.3)",
    "F.alpha_dropout(x, 0.3, True)",
    "F.dropout(x.transpose(1, 2), 0.2)",
    "torch.randn(30, device=place)",
    "torch.rand((3,), device=place)",
    "torch.randint(0, 5, (30,), device=place)",
    "torch.randperm(50, device=place)",
    "torch.randint(0, n[0].num_layers + 2, (4,), device=place) + torch.randperm(4, device=place)",
    "torch.zeros(6, 5, device=place).data.normal_(1, 0.5)",
    "torch.normal(0.5, 2.0, (30,), device=place)",
    "torch.normal(x, x.abs())",
    "torch.randn_like(x.transpose(1, 2))",
    "torch.rand_like(x)",
    "torch.randint_like(x, 2, 5)",
    "torch.bernoulli(chance(x))",
    "torch.empty_like(x).bernoulli_(0.4)",
    "torch.multinomial(chance(x), 1)",
    "torch.multinomial(chance(x), 3)",
    "torch.multinomial(chance(x), 9, True)",
    "F.gumbel_softmax(x)",
    "D.Normal(x, 1.0).rsample()",
    "D.Categorical(logits=x).sample()",
    "D.Exponential(x.exp()).sample()",
    "D.Laplace(x, 1.0).rsample()",
    "x.new_empty(3).uniform_(-1, 1)",
    "torch.rand(2, device=place) + torch.randn(2, device=place)",
    "n[0](x[0])[0]",
    "n[1](x[0])[0]",
    "n[2](s)",
    "n[3](s, s, s)[0]",
]
due = [drawn(drawing(text), NUMBERS, ROWS, NETWORKS, None) for text in TEXTS]
torchax.enable_globally()
there = [network.to("jax") for network in NETWORKS]
for text, (expected, state) in zip(TEXTS, due, strict=True):
    traced = differentiable(drawing(text))
    for function in (drawing(text), traced):
        made, after = drawn(function, NUMBERS.to("jax"), ROWS.to("jax"), there, "jax")
        assert torch.equal(state, after), text
        for one, other in zip(made, expected, strict=True):
            assert torch.allclose(one, other, atol=1e-5), text
    assert traced.is_compiled, text
"""

BY_DEVICE = """\
draws.is_of_torch = False
torchax.enable_globally()
x = torch.zeros(200, 100).to("jax")
for text, mean, deviation in (
    ("x.clone().normal_(1, 0.5)", 1, 0.5),
    ("x.clone().uniform_(-1, 3)", 1, 1.155),
    ("x.clone().exponential_(2.0)", 0.5, 0.5),
    ("x.clone().geometric_(0.25)", 4, 3.46),
    ("x.clone().log_normal_(0, 0.5)", 1.133, 0.604),
    ("x.clone().random_(5)", 2, 1.414),
    ("x.clone().random_(5, 9)", 6.5, 1.118),
    ("x.clone().bernoulli_(0.2)", 0.2, 0.4),
    ("torch.normal(1.0, 0.5, (200, 100), device=place)", 1, 0.5),
    ("torch.normal(x + 1, 0.5)", 1, 0.5),
    ("torch.bernoulli(x + 0.3)", 0.3, 0.458),
    ("torch.multinomial(x + 1, 1)", 49.5, 28.9),
    ("torch.multinomial(x + 1, 3, True)", 49.5, 28.9),
    ("D.Gumbel(x, 1.0).rsample()", 0.577, 1.283),
    ("F.dropout(x + 1, 0.25)", 1, 0.577),
):
    for function in (drawing(text), differentiable(drawing(text))):
        (first, second), _ = drawn(function, x, None, None, "jax")
        assert not torch.equal(first, second), text
        assert abs(first.mean().item() - mean) < 0.2 * deviation, text
        assert abs(first.std().item() - deviation) < 0.12 * deviation, text
"""


def test_noise_is_what_torch_draws_on_the_host_compiled_or_not(printed: Callable[[str], str]) -> None:
    assert printed(f"{DRAWN}{AS_TORCH}print('same')") == "same\n"


def test_noise_of_a_device_has_the_distribution_that_is_asked_for(printed: Callable[[str], str]) -> None:
    assert printed(f"{DRAWN}{BY_DEVICE}print('right')") == "right\n"


ATTACKED = """\
import torch
import torchax
from torchax_training import differentiable

torchax.enable_globally()
torch.manual_seed(0)


@differentiable
def far(x):
    d = (x.detach().cpu() * 0 + torch.randn(x.shape)).to(x.device).requires_grad_()
    (there,) = torch.autograd.grad((x.detach() * d).sin().sum(), d)
    return ((x + there) ** 2).mean()


far(torch.ones(3, requires_grad=True, device="jax")).backward()
drawn = torch.rand(1)
torch.manual_seed(0)
torch.randn(3)
print(torch.equal(drawn, torch.rand(1)))
"""


def test_what_is_run_once_more_to_be_recorded_draws_but_once(printed: Callable[[str], str]) -> None:
    assert printed(ATTACKED) == "True\n"


OF_OTHER_SHAPES = """\
import torch
import torch.nn.functional as F
import torchax
from torchax_training import differentiable, training

torchax.enable_globally()
runs = []
run = training._Version.__call__
training._Version.__call__ = lambda self, given, is_compiled: (
    runs.append(is_compiled), run(self, given, is_compiled)
)[1]


@differentiable
def dropped(x):
    if x.sum() > 0:
        x = x * 2
    return F.dropout(x, 0.5).sum() + torch.rand_like(x[0]).sum()


for size in (3, 4, 5, 3):
    torch.manual_seed(size)
    got = dropped(torch.ones(size, size, requires_grad=True, device="jax")).item()
    torch.manual_seed(size)
    due = F.dropout(torch.ones(size, size) * 2, 0.5).sum() + torch.rand(size).sum()
    print(abs(got - due.item()) < 1e-4)
print(runs.count(False))
"""


def test_noise_of_other_shapes_needs_no_other_run_as_it_is(printed: Callable[[str], str]) -> None:
    assert printed(OF_OTHER_SHAPES) == "True\nTrue\nTrue\nTrue\n1\n"


COMPILED_ONCE = """\
import itertools

import jax
import torch
import torch.nn as nn
import torchax
from torchax_training import compiled, differentiable

torchax.enable_globally()
events = []
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: events.append(event)
)


@differentiable
def compute_loss(model, x):
    loss = (model(x) ** 2).mean()
    return loss


torch.manual_seed(0)
model = nn.Sequential(nn.Linear(3, 4), nn.Dropout(), nn.Linear(4, 2)).to("jax")
nn.init.xavier_uniform_(model[0].weight)
optimizer = compiled(torch.optim.Adam(model.parameters(), weight_decay=0.01))
counts = []
for step in range(9):
    for group in optimizer.param_groups:
        group["weight_decay"] = 0.01 * (step + 1)
    optimizer.zero_grad()
    compute_loss(model, torch.ones(4, 3, device="jax")).backward()
    optimizer.step()
    counts.append(sum("backend_compile" in event for event in events))
print(*(later - earlier for earlier, later in itertools.pairwise(counts)))
"""


def test_steps_with_noise_are_compiled_once_and_then_optimized(printed: Callable[[str], str]) -> None:
    # The weight decay becomes an input; after four calls, step and optimizer are compiled again.
    assert printed(COMPILED_ONCE) == "1 0 0 2 1 0 0 0\n"
