"""Modules that are evaluated outside of decorated functions are compiled where that pays."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: ARG005, FBT003

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat.jit import active_programs, reachable_modules
from torchax_compat.jit import program as jitted_program
from torchax_compat.tensor import arrays

from ..comparison import assert_equal

X = torch.linspace(-1, 2, 12).reshape(4, 3)


@pytest.fixture(autouse=True)
def _without_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compile what is evaluated at its second call."""
    monkeypatch.setattr(jitted_program, "PATIENCE", 0.0)


class Net(nn.Module):
    """Counts its calls, and notes whether they are traced."""

    def __init__(self):
        super().__init__()
        self.inner, self.calls, self.last, self.traced = nn.Linear(3, 3), 0, None, TRACED
        self.register_buffer("total", torch.zeros(3))

    def forward(self, x):
        TRACED.append(arrays.is_traced(x))
        self.calls += 1
        self.total += x.sum(0).detach()
        self.last = self.inner(x)
        return self.last * 2


TRACED: list[bool] = []


@pytest.fixture
def net() -> Any:
    TRACED.clear()
    return Net().to("jax").eval()


def test_module_without_gradients_is_compiled_and_leaves_what_it_would(net) -> None:
    expected = copy.deepcopy(net).cpu()
    x, y = X.to("jax"), X.clone()
    with torch.no_grad():
        for _ in range(5):
            found, due = net(x), expected(y)
            x, y = torch.cat([x, found[:1] / 4]), torch.cat([y, due[:1] / 4])
    assert_equal(
        (due, expected.total, expected.last, expected.calls), (found, net.total, net.last, net.calls)
    )
    assert any(TRACED)


def test_evaluated_module_is_compiled_with_gradients_enabled_too(net) -> None:
    net.requires_grad_(True)
    for _ in range(3):
        net(X.to("jax"))
    assert any(TRACED)


def test_module_whose_input_requires_gradients_and_one_that_trains_are_not(net) -> None:
    for _ in range(3):
        net(X.to("jax").requires_grad_())
        net.train()
        net(X.to("jax"))
        net.eval()
    assert not any(TRACED)


def test_module_with_hooks_is_called_as_it_is(net) -> None:
    net.inner.register_forward_hook(lambda module, given, output: None)
    for _ in range(3):
        net(X.to("jax"))
    assert not any(TRACED)


def test_module_that_is_patient_waits_until_its_calls_took_long(net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitted_program, "PATIENCE", 1e9)
    for _ in range(4):
        net(X.to("jax"))
    assert not any(TRACED)


def test_new_shapes_are_compiled_where_that_is_quicker(net, monkeypatch: pytest.MonkeyPatch) -> None:
    for size in range(1, 5):
        with torch.no_grad():
            net(X[:size].to("jax"))
    program = vars(net)[reachable_modules.EVALUATED].by_module[id(net)]
    assert len(program.known.traces) >= 1
    program.new, program.last_compiled, program.last_new = 1e9, 0.0, 1.0
    monkeypatch.setattr(jitted_program, "PATIENCE", 1e6)
    count = len(program.known.traces)
    with torch.no_grad():
        net(torch.cat([X, X]).to("jax"))
    assert count + 1 == len(program.known.traces)


def test_of_many_shapes_the_latest_half_stays_compiled(net, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jitted_program, "MOST_KINDS", 4)
    with torch.no_grad():
        for size in range(1, 8):
            x = torch.ones(size, 3).to("jax")
            net(x), net(x)
    program = vars(net)[reachable_modules.EVALUATED].by_module[id(net)]
    assert len(program.seconds) <= 4


def test_module_within_what_jax_traces_is_called_as_it_is(net) -> None:
    found = torch.func.vmap(lambda row: net(row[None])[0])(X.to("jax"))
    assert_equal(net.inner(X.to("jax")) * 2, found)


def test_what_is_compiled_is_not_copied_and_pickled(net) -> None:
    with torch.no_grad():
        for _ in range(3):
            net(X.to("jax"))
    assert isinstance(vars(net)[reachable_modules.EVALUATED], active_programs.Programs)
    assert isinstance(pickle.loads(pickle.dumps(vars(net)[reachable_modules.EVALUATED])), bool)
    other = copy.deepcopy(net)
    with torch.no_grad():
        assert_equal(net(X.to("jax")), other(X.to("jax")))


def test_module_that_cannot_be_compiled_is_tried_for_few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Needing(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (2 if x.sum() > 0 else 3)

    net = Needing(3, 2).to("jax").eval()
    with torch.no_grad():
        for size in (1, 2, 3, 4, 4):
            x = torch.ones(size, 3).to("jax")
            assert_equal(torch.nn.functional.linear(x, net.weight, net.bias) * 2, net(x))
            net(x)
    program = vars(net)[reachable_modules.EVALUATED].by_module[id(net)]
    assert len(program.refused) >= 3


def test_noise_of_an_evaluated_module_is_that_of_torch() -> None:
    class Noisy(nn.Linear):
        def forward(self, x):
            return super().forward(x) + torch.rand_like(x[:, :2])

    net = Noisy(3, 2).to("jax").eval()
    host = copy.deepcopy(net).cpu()
    with torch.no_grad():
        for seed in range(4):
            torch.manual_seed(seed)
            due = host(X)
            torch.manual_seed(seed)
            assert_equal(due, net(X.to("jax")))


def test_global_that_a_lambda_of_the_module_knows_is_beyond_it() -> None:
    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleDict({"first": nn.Linear(3, 4), "second": nn.Linear(4, 3)})
            layers = self.layers
            self.through = lambda x: layers["second"](torch.tanh(layers["first"](x)))

        def forward(self, x):
            return TABLE(x) + self.through(x)

    global TABLE
    TABLE = nn.Linear(3, 3).to("jax")
    net = Block().to("jax").eval()
    first = copy.deepcopy(net)  # whose lambda is that of the model
    with torch.no_grad():
        for _ in range(3):
            found = first(X.to("jax"))
        net.layers["first"].weight.mul_(2)
        TABLE.weight.mul_(0.5)
        assert_equal(net(X.to("jax")), first(X.to("jax")))
    assert not torch.equal(found, first(X.to("jax")))
    assert TABLE in reachable_modules.modules_used_by(net)


TABLE: Any = None


def test_attribute_of_an_evaluated_module_that_keeps_changing() -> None:
    class Weighed(nn.Linear):
        factor = 1.0

        def forward(self, x):
            return super().forward(x) * self.factor

    net = Weighed(3, 2).to("jax").eval()
    with torch.no_grad():
        for step in range(8):
            net.factor = 1.0 + step
            assert_equal(
                nn.functional.linear(X.to("jax"), net.weight, net.bias) * net.factor, net(X.to("jax"))
            )
