"""Log messages about functions that JAX compiles again for new shapes, and how they are compiled then."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import logging
import re

import pytest
import torch
from torch import nn
from torchax_compat import differentiable
from torchax_compat.jit import compiler_settings, recompilations
from torchax_compat.jit import program as jitted_program
from torchax_compat.jit.tensor_objects import Record

from ..comparison import assert_same_as_torch


def of_length(length):
    return torch.linspace(-1, 1, length * 3).reshape(length, 3)


def messages(caplog):
    return [one.getMessage() for one in caplog.records if one.name == "torchax_compat"]


def test_message_names_function_argument_and_shapes(caplog: pytest.LogCaptureFixture) -> None:
    def mean_square(net, batch):
        return net(batch["x"]).square().mean()

    compute_loss, net = differentiable(mean_square), nn.Linear(3, 2).to("jax")
    for length in (4, 4, 5, 6, 4):
        compute_loss(net, {"x": of_length(length).to("jax")}).backward()
    (message,) = messages(caplog)
    line = mean_square.__code__.co_firstlineno
    assert message.startswith(f"{__file__}:{line}: JAX compiles `")
    assert "mean_square` again for a new shape: `batch['x']` had the shape (4, 3)" in message
    assert "now has the shape (5, 3)" in message
    assert re.search(r"has compiled `\S+mean_square` 2 times, which took \d+\.\d s in total", message)
    assert "WARNING" == caplog.records[0].levelname
    assert compute_loss.compiled_function.compilations.count == 3
    assert compute_loss.compiled_function.compilations.seconds > 0


def test_message_comes_again_at_ten_compilations(caplog: pytest.LogCaptureFixture) -> None:
    compute_loss = differentiable(lambda net, *many: sum(net(x).square().mean() for x in many))
    net, x = nn.Linear(3, 2).to("jax"), of_length(4).to("jax")
    for length in range(4, 17):
        compute_loss(net, x, of_length(length).to("jax"))
    first, second = messages(caplog)
    assert "`many[1]` had the shape (4, 3) and now has the shape (5, 3)" in first
    assert "`many[1]` had the shape (12, 3) and now has the shape (13, 3)" in second
    assert " 10 times" in second


@pytest.mark.parametrize("change", ["mode", "value", "nothing"])
def test_no_message_without_a_new_shape(change: str, caplog: pytest.LogCaptureFixture) -> None:
    compute_loss = differentiable(lambda net, x, power: (net(x) ** power).mean())
    net, x = nn.Linear(3, 2).to("jax"), of_length(4).to("jax")
    for step in range(2):
        net.train(step == 0 or change != "mode")
        compute_loss(net, x, 4 if step and change == "value" else 2)
    assert messages(caplog) == []
    assert compute_loss.compiled_function.compilations.count == (1 if change == "nothing" else 2)


def test_messages_can_be_switched_off(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.ERROR, "torchax_compat")
    compute_loss, net = differentiable(lambda net, x: net(x).mean()), nn.Linear(3, 2).to("jax")
    for length in (4, 5):
        compute_loss(net, of_length(length).to("jax"))
    assert messages(caplog) == []


def test_functions_within_others_log_nothing(caplog: pytest.LogCaptureFixture) -> None:
    inner = differentiable(lambda net, x: net(x).square().mean())
    compute_loss = differentiable(lambda net, x: inner(net, x) + inner(net, x[:-1]))
    compute_loss(nn.Linear(3, 2).to("jax"), of_length(4).to("jax")).backward()
    assert messages(caplog) == []


def test_functions_of_many_shapes_are_optimized_after_many_calls() -> None:
    compute_loss, net = differentiable(lambda net, x: net(x).mean()), nn.Linear(3, 2).to("jax")
    lengths = range(4, 4 + recompilations.MANY_SHAPES + 2)
    for length in lengths:
        for _ in range(compiler_settings.FEW_CALLS + 1):
            compute_loss(net, of_length(length).to("jax")).backward()
    made = [one for known in compute_loss.compiled_function.known.traces.values() for one in known]
    assert [one.forward._used is one.forward._optimized for one in made] == [True] * 5 + [False]
    assert [one.backward._used is one.backward._optimized for one in made] == [True] * 5 + [False]


def test_gradients_for_many_shapes_are_those_of_torch() -> None:
    net = nn.GRU(3, 4, batch_first=True)
    batches = [(of_length(length)[None],) for length in (*range(4, 12), 5, 11)]
    assert_same_as_torch(lambda net, x: net(x)[0].square().mean(), net, batches=batches)


def test_message_for_modules_in_evaluation(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(jitted_program, "PATIENCE", 0.0)  # each shape is compiled at once

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))

        def forward(self, points):
            return self.layers(points)

    net = Net().to("jax").eval()
    with torch.no_grad():
        for length in (4, 5, 5, 6):
            net(of_length(length).to("jax"))
    (message,) = messages(caplog)
    assert message.startswith(f"{__file__}:{Net.forward.__code__.co_firstlineno}: ")
    assert "Net.forward` again for a new shape: `points` had the shape (4, 3)" in message


def test_arguments_of_types_without_named_places_are_numbered() -> None:
    class Batch:
        def __init__(self):
            self.x, self.y = of_length(4), of_length(2)

    shapes = recompilations._shapes(
        lambda batch, other: (batch, other), (Record.of(Batch()), [of_length(3)]), {}
    )
    assert {"batch[0]": (4, 3), "batch[1]": (2, 3), "other[0]": (3, 3)} == shapes
