"""How often a decorated function and an optimizer are compiled, and what the compiled ones keep."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="has-type"

from __future__ import annotations

import gc
import itertools
import warnings
import weakref

import jax
import torch
from torch import nn
from torchax_compat import compile_optimizer, differentiable

from ..comparison import assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def mean_square(net, x):
    return net(x).square().mean()


def test_steps_are_compiled_once_and_then_optimized() -> None:
    events: list[str] = []

    def listen(event, *_, **__):
        events.append(event)

    # Of shapes that no other test has: what JAX compiled once is kept.
    net = nn.Sequential(nn.Linear(3, 23), nn.Dropout(), nn.Linear(23, 2)).to("jax")
    optimizer = compile_optimizer(torch.optim.Adam(net.parameters(), weight_decay=0.01))
    compute_loss, x, counts = differentiable(mean_square), X.to("jax"), []
    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        for step in range(9):
            for group in optimizer.param_groups:
                group["weight_decay"] = 0.01 * (step + 1)
            optimizer.zero_grad()
            compute_loss(net, x).backward()
            optimizer.step()
            counts.append(sum("backend_compile" in event for event in events))
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    # The weight decay becomes an input; after four calls, all of it is compiled again as one program.
    assert [1, 0, 0, 1, 0, 0, 0, 0] == [after - before for before, after in itertools.pairwise(counts)]


def test_version_keeps_no_batch_alive() -> None:
    compute_loss = differentiable(mean_square)
    net, x = nn.Linear(3, 2).to("jax"), X.to("jax")
    compute_loss(net, x)
    kept = weakref.ref(x)
    del x
    gc.collect()
    assert kept() is None


def test_no_warning_where_a_function_is_compiled_as_a_whole() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_same_as_torch(mean_square, nn.Linear(3, 2), X, batches=[()] * 6)
