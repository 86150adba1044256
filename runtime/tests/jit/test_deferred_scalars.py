"""Numbers that a traced function reads out of tensors by `.item()` and passes on."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import copy
import math
import warnings
from math import isnan

import pytest
import torch
from torch import nn
from torchax_compat import differentiable

from ..comparison import assert_equal, assert_same_as_torch, moved, plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)
SEEN: list[float] = []
FOUR = [()] * 4


def same(function, *args, steps=4, is_compiled=True):
    """The same as torch on a linear layer, without warnings where it is compiled as a whole."""
    with warnings.catch_warnings():
        if is_compiled:
            warnings.filterwarnings("error", "`.*` runs call by call")
        else:
            warnings.filterwarnings("ignore", "`.*` runs call by call")
        assert_same_as_torch(
            function, nn.Linear(3, 2), X, *args, batches=[()] * steps, is_compiled=is_compiled
        )


def test_numbers_in_the_result_are_those_of_each_call() -> None:
    def compute_loss(net, x):
        error = net(x) - 1
        far, right = error.square().mean(), (error.abs() < 0.5).sum().item()
        log = {
            "far": far.item(),
            "near": round(error.abs().mean().item(), 3),
            "right": 100.0 * right / error.numel(),
            "is": isinstance(right, int) and not isinstance(right, float),
        }
        return far, log

    same(compute_loss)


def test_numbers_compute_with_others_as_those_of_python() -> None:
    def compute_loss(net, x):
        a, b = net(x).square().mean().item(), (x > 0).sum().item()
        found = [
            a + b,
            2 - a,
            a * 3,
            1 / (b + 1),
            b // 2,
            b % 3,
            2**a,
            a**2,
            -a,
            +a,
            abs(-a),
            round(a, 2),
            b - 1,
        ]
        return net(x).sum(), found, [float(b), int(b), float(a)]

    same(compute_loss)


def test_numbers_are_given_to_functions_of_math() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        value = loss.item()
        return loss, math.exp(value), math.sqrt(value), round(math.log(value), 3)

    same(compute_loss)


def test_function_of_math_of_a_number_that_the_computation_needs() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return loss * math.exp(loss.item()) + loss * math.pow(loss.item(), 2)

    same(compute_loss)


@pytest.mark.parametrize("function", [lambda value: math.log(value, 3), math.lgamma])
def test_function_of_math_that_arrays_do_not_have_lets_calls_be_compiled_one_by_one(function) -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return loss * function(loss.item())

    same(compute_loss, is_compiled=False)


def test_numbers_weigh_losses_without_gradients() -> None:
    def compute_loss(net, x):
        far, near = net(x).square().mean(), net(x).abs().mean()
        return far + near / near.item() + far * (near.item() / (far.item() + 1e-6))

    same(compute_loss)


def test_whole_numbers_promote_as_those_of_python_do() -> None:
    def compute_loss(net, x):
        count = (x > 0).sum().item()
        return (net(x) * count).sum(), x.half() * count, torch.arange(3, device=x.device) * count

    same(compute_loss)


def test_what_a_comparison_says_is_asked() -> None:
    class Balanced(nn.Linear):
        best = math.inf

        def forward(self, x):
            out = super().forward(x)
            value = out.square().mean().item()
            if not math.isfinite(value) or isnan(value):
                raise ValueError
            if value < 0.8 * self.best:
                self.best = value
            return out * 0.5 if value > 0.4 else out, min(value, 0.3), max(value, 0.1), self.best

    def compute_loss(net, x):
        out, *numbers = net(x)
        return out.square().mean(), numbers

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`.*` runs call by call")
        assert_same_as_torch(compute_loss, Balanced(3, 2), X, batches=[()] * 8)


def test_numbers_that_are_kept_elsewhere_let_calls_be_compiled_one_by_one() -> None:
    class Keeper:
        def __init__(self, held):
            self.append = held.append

    def compute_loss(net, x, keep=SEEN.__iadd__):
        loss = net(x).square().mean()
        keep([loss.item()])
        return loss

    SEEN.clear()
    same(compute_loss, steps=3, is_compiled=False)
    assert_equal(SEEN[:3], SEEN[3:])


def test_numbers_that_become_something_else_let_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return loss * len(range(int(1 + loss.item() // 1000))), hash(loss.item()) != 0

    same(compute_loss, is_compiled=False)


def test_numbers_in_arithmetic_with_other_values() -> None:
    def compute_loss(net, x):
        value = net(x).square().mean().item()
        return net(x).sum(), [value] == [value], value * True, value.__add__("text") is NotImplemented

    net = nn.Linear(3, 2).to("jax")
    function = differentiable(compute_loss)
    for _ in range(3):
        assert [True, True] == [function(net, X.to("jax"))[i] for i in (1, 3)]


def test_division_by_a_number_that_may_be_zero() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        count = (x > 99).sum().item()
        return loss, 0 if count == 0 else loss.item() / count

    same(compute_loss)


def test_numbers_are_copied_and_pickled_as_plain_ones() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return loss, copy.deepcopy({"value": loss.item()})["value"]

    same(compute_loss)


def test_number_left_in_an_attribute() -> None:
    class Noting(nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            self.parts = {"mean": out.mean().item(), "of": "layer"}
            return out

    def compute_loss(net, x):
        return net(x).square().mean()

    net, there = Noting(3, 2), differentiable(compute_loss)
    other = moved(copy.deepcopy(net), "jax")
    for k in range(4):
        with plain_torch():
            compute_loss(net, X + k)
        there(other, (X + k).to("jax"))
        assert_equal(net.parts, other.parts)
        assert "float" == type(other.parts["mean"]).__name__
    assert there.compiled_function.is_compiled


@pytest.mark.parametrize("name", ["tolist", "numpy"])
def test_number_by_other_ways_lets_calls_be_compiled_one_by_one(name: str) -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return loss, float(getattr(loss.detach().cpu(), name)())

    same(compute_loss, is_compiled=False)


def test_number_of_a_copy_on_the_host() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return (
            loss,
            loss.detach().cpu().item() + loss.item(),
            loss.detach().to("cpu"),
            (x > 0).cpu().sum().item(),
        )

    same(compute_loss)


def test_complex_number_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        wave = torch.fft.fft(net(x)).sum()
        return wave.abs(), abs(wave.item())

    same(compute_loss, is_compiled=False)


def test_floats_and_ints_of_tensors_by_their_classes() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        right = int((net(x) > 0).sum())
        stats = {"far": float(loss), "right": right, "is": isinstance(right, int)}
        return loss, stats

    same(compute_loss)
