"""What a function knows by names: globals, variables of functions around it, classes and namespaces."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="attr-defined, func-returns-value, misc, operator, union-attr"
# ruff: noqa: ARG005, ICN001

from __future__ import annotations

import argparse
import functools
import sys
import types
import warnings
from collections import deque
from typing import Any

import numpy
import pytest
import torch
from torch import nn
from torchax_compat import differentiable
from torchax_compat.jit import captured_objects, reachable_modules

from ..comparison import assert_equal, copied, plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)

args = argparse.Namespace(beta=1.0, calls=0)
config: dict[str, Any] = {"loss": {"weight": 1.0}}
kept: list[Any] = []
recent: deque[int] = deque(maxlen=3)
seen: dict[str, Any] = {"steps": 0}
status, last = "", None
ROUNDS, table, bias = 0, None, None


class Settings:
    def __init__(self, **given):
        vars(self).update(given)


settings = Settings(scale=1.0)


class Schedule:
    scale = 1.0

    @staticmethod
    def factor():
        return Schedule.scale

    @classmethod
    def twice(cls):
        return 2 * cls.scale

    @property
    def thrice(self):
        return 3 * Schedule.scale


def run(function, change, notes, *, steps=8, is_compiled=True) -> None:
    """Some steps with names that change; losses, gradients and notes are those of torch."""
    found = []
    decorated = differentiable(function)
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net = nn.Linear(3, 2).to(device)
        change(-1, device)
        for step in range(steps):
            change(step, device)
            net.zero_grad()
            if device == "cpu":
                with plain_torch():
                    loss = function(net, X.to(device))
                    loss.backward()
            else:
                loss = decorated(net, X.to(device))
                loss.backward()
            found.append(copied((loss, net.weight.grad, notes())))
    assert_equal(found[:steps], found[steps:])
    assert is_compiled == decorated.compiled_function.is_compiled


@pytest.fixture(autouse=True)
def _names_as_they_were(monkeypatch: pytest.MonkeyPatch):
    for name in ("status", "last", "ROUNDS", "table", "bias"):
        monkeypatch.setitem(globals(), name, globals()[name])
    yield
    args.beta, args.calls, config["loss"]["weight"] = 1.0, 0, 1.0
    Schedule.scale, settings.scale = 1.0, 1.0
    seen["steps"] = 0
    kept.clear(), recent.clear()


def test_names_that_change_are_read_at_each_call() -> None:
    def compute_loss(net, x):
        return net(x).square().mean() * args.beta * config["loss"]["weight"] * Schedule.scale * settings.scale

    def change(step, device):
        args.beta, config["loss"]["weight"] = 1 / (step + 2), 1.0 + (step > 2)
        Schedule.scale, settings.scale = 0.9**step, 1.0 + (step > 5)

    run(compute_loss, change, lambda: None, steps=12)


def test_names_that_a_function_assigns_are_left() -> None:
    def compute_loss(net, x):
        global ROUNDS
        ROUNDS += 1
        args.calls += 1
        seen["steps"] += 1
        Schedule.scale = Schedule.scale + 1.0
        out = net(x)
        kept.append(out.detach().sum())
        recent.append(len(out))
        return out.square().mean()

    def change(step, device):
        global ROUNDS
        if step < 0:
            ROUNDS = args.calls = seen["steps"] = 0
            Schedule.scale = 1.0
            kept.clear(), recent.clear()

    run(
        compute_loss,
        change,
        lambda: (ROUNDS, args.calls, seen["steps"], Schedule.scale, list(kept), list(recent)),
    )


def test_name_that_is_deleted_and_bound_again() -> None:
    holder = Settings(factor=2.0)

    def compute_loss(net, x):
        if hasattr(holder, "factor"):
            factor = holder.factor
            del holder.factor
        else:
            factor = holder.factor = 3.0
        return net(x).sum() * factor

    def change(step, device):
        if step < 0:
            holder.factor = 2.0

    run(compute_loss, change, lambda: hasattr(holder, "factor"))


def test_variables_of_the_function_around_are_read_and_assigned() -> None:
    def counted():
        calls, share = 0, 0.5

        def compute(net, x):
            nonlocal calls
            calls += 1
            return net(x).square().mean() * share * calls

        def halve():
            nonlocal share
            share /= 2

        def reset():
            nonlocal calls, share
            calls, share = 0, 0.5

        return compute, halve, reset, lambda: calls

    compute, halve, reset, calls = counted()
    run(compute, lambda step, device: reset() if step < 0 else halve() if step == 3 else None, calls)


def test_variable_around_that_is_not_bound_yet() -> None:
    def made():
        def compute(net, x):
            return net(x).sum() * (later if ready else 1.0)

        ready = False
        if args.calls > 99:
            later = 2.0
        return compute

    run(made(), lambda step, device: None, lambda: None)


def test_tensor_in_a_global_that_is_replaced_by_another() -> None:
    def compute_loss(net, x):
        global last
        out = net(x)
        last = 0.5 * last + out.detach().mean()
        return out.square().mean() * table.sum() + last

    def change(step, device):
        global table, last
        if step < 0:
            last = torch.zeros(()).to(device)
        table = torch.arange(2.0).to(device) + step

    run(compute_loss, change, lambda: last)


def test_learned_tensor_in_a_global_has_a_gradient() -> None:
    def compute_loss(net, x):
        return (net(x) + bias).square().mean()

    def change(step, device):
        global bias
        if step < 0:
            bias = torch.zeros(2, device=device).requires_grad_()

    run(compute_loss, change, lambda: bias.grad)


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or coverage traces already")
def test_names_that_only_other_functions_read_do_not_matter() -> None:
    class Criterion(nn.Module):
        def forward(self, output):
            return output.square().mean() * config["loss"]["weight"]

        def report(self):
            return f"{status} {last.sum():.3f}"

    criterion = Criterion()

    def compute_loss(net, x):
        return criterion(net(x))

    def change(step, device):
        global status, last
        status, last = f"step {step}", torch.ones(step + 2).to(device)
        config["loss"]["weight"] = 1.0 + (step > 7)

    with warnings.catch_warnings():
        warnings.filterwarnings("error", "`.*` runs call by call")
        run(compute_loss, change, lambda: None, steps=16)


def test_methods_of_classes_that_read_their_class() -> None:
    def compute_loss(net, x):
        return net(x).square().mean() * (Schedule.factor() + Schedule.twice() + Schedule().thrice)

    def change(step, device):
        Schedule.scale = 1.0 + (step > 4)

    run(compute_loss, change, lambda: None)


def test_what_is_wrapped_and_what_is_bound_to_arguments() -> None:
    def weighed(net, x, power):
        return net(x).abs().pow(power).mean() * args.beta

    @functools.wraps(weighed)
    def wrapped(*given, **named):
        return weighed(*given, **named)

    def compute_loss(net, x):
        return PARTIAL(net, x) + wrapped(net, x, power=1)

    global PARTIAL
    PARTIAL = functools.partial(weighed, power=2)

    def change(step, device):
        args.beta = 1.0 + (step > 3)

    run(compute_loss, change, lambda: None)


PARTIAL: Any = None


def test_module_that_methods_know_by_a_global() -> None:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return self.layer(x) * table(x).mean()

    global table
    results = []
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        block, table = Block().to(device), nn.Linear(3, 3).to(device)
        function = _mean if device == "cpu" else differentiable(_mean)
        function(block, X.to(device)).backward()
        results.append(copied((block.layer.weight.grad, table.weight.grad)))
    assert_equal(results[0], results[1])


def _mean(net, x):
    return net(x).square().mean()


def test_modules_that_a_function_reaches() -> None:
    first, second, third = (nn.Linear(1, 1) for _ in range(3))

    class Holder:
        def __init__(self):
            self.parts = {"second": second}

        def method(self):
            return third

    holder = Holder()
    closure = lambda: first  # noqa: E731
    partial = functools.partial(print, first, key=[second])
    found = reachable_modules.modules_of(closure, [holder.method, partial, torch.utils.data.DataLoader([1])])
    assert {id(first), id(second)} <= set(map(id, found))
    assert [third] == reachable_modules.modules_of(None, [{"a": [(third,)]}])
    assert [] == reachable_modules.modules_of(None, [1, "text", torch.ones(1), None])


def test_names_of_libraries_are_none_of_the_program() -> None:
    assert not captured_objects.is_own(torch.optim.SGD([torch.ones(1)], lr=0.1))
    assert not captured_objects.is_own(numpy.ones(1))
    assert captured_objects.is_own(args)
    assert reachable_modules.is_of_library({"__name__": "torch.nn"})
    assert reachable_modules.is_of_library({"__name__": "json", "__file__": types.__file__})
    assert not reachable_modules.is_of_library(globals())


def test_names_that_are_held_by_a_mapping() -> None:
    held = {"a": 1, "b": 2}
    names = captured_objects.Names(held, "dict", 1)
    names.used.update(a=None, gone=None)
    assert (["a"], 1) == (list(names), len(names))
    names["a"] = 3
    del names["b"]
    assert {"a": 3} == held
    of_class = captured_objects.Names(vars(Schedule), Schedule, 2)
    of_class["extra"] = 1
    assert 1 == Schedule.__dict__["extra"]
    del of_class["extra"]
    assert "extra" not in vars(Schedule)


def test_variable_of_a_function_around_may_be_deleted() -> None:
    def made():
        value = 1

        def compute():
            return value

        return compute

    cells = captured_objects._Cells(made())
    assert ["value"] == list(cells) and 1 == cells["value"]
    del cells["value"]
    assert [] == list(cells) and "value" not in cells


@pytest.mark.skipif(sys.gettrace() is not None, reason="a debugger or coverage traces already")
def test_names_that_functions_use_which_run() -> None:
    with captured_objects.Executed() as executed:
        _mean(torch.relu, X)
    assert {"square", "mean"} <= executed.used()


def test_names_that_run_are_unknown_beside_a_debugger(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "gettrace", lambda: print)
    with captured_objects.Executed() as executed:
        _mean(torch.relu, X)
    assert executed.used() is None
