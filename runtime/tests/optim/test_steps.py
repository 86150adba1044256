"""Optimizers whose step is compiled give the numbers of torch's."""

# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
from torch import nn
from torchax_compat import compile_optimizer, compile_update, differentiable
from torchax_compat.optim import steps

START = torch.tensor([[0.5, -1.0, 2.0], [1.5, 0.25, -0.75]])
#: What is stepped, by its gradients, which are chosen.
Made = Callable[[Any], torch.optim.Optimizer]

MADE: dict[str, Made] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD with momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.1),
    "Adam with amsgrad": lambda p: torch.optim.Adam(
        p, lr=0.1, amsgrad=True, betas=(0.8, 0.99), maximize=True
    ),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.1, weight_decay=0.1),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.1, momentum=0.5, centered=True),
    "Adadelta": lambda p: torch.optim.Adadelta(p),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.1),
    "Adamax": lambda p: torch.optim.Adamax(p, lr=0.1),
    "Rprop": lambda p: torch.optim.Rprop(p, lr=0.1),
    "ASGD": lambda p: torch.optim.ASGD(p, lr=0.1),
    "RAdam": lambda p: torch.optim.RAdam(p, lr=0.1),
}


def _gradient(step: int) -> torch.Tensor:
    return torch.sin(torch.arange(6.0).reshape(2, 3) + step)


def _stepped(
    make: Made, device: str, count: int = 4, change: Callable[[Any, int], Any] | None = None
) -> tuple[Any, list[list[float]]]:
    p = nn.Parameter(START.clone().to(device))
    optimizer = make([p])
    optimizer = compile_optimizer(optimizer) if device == "jax" else optimizer
    seen = []
    for step in range(count):
        if change is not None:
            change(optimizer, step)
        p.grad = _gradient(step).to(device)
        optimizer.step()
        seen.append(p.detach().flatten().tolist())
    return optimizer, seen


@pytest.mark.parametrize("name", MADE)
def test_steps_are_those_of_torch(name: str) -> None:
    host, due = _stepped(MADE[name], "cpu")
    made, got = _stepped(MADE[name], "jax")
    for one, other in zip(due, got, strict=True):
        assert pytest.approx(one, abs=2e-5) == other
    kept: dict[str, Any] = next(iter(host.state.values()), {})
    found: dict[str, Any] = next(iter(made.state.values()), {})
    assert {k: v for k, v in kept.items() if v is not None}.keys() <= found.keys()
    for key, value in kept.items():
        if isinstance(value, torch.Tensor):
            assert torch.allclose(value, torch.as_tensor(found[key]).cpu().to(value.dtype), atol=1e-4), key


def _schedule(optimizer: Any, step: int) -> None:
    for group in optimizer.param_groups:
        group["lr"] = 0.1 * step
        if "betas" in group:
            group["betas"] = (0.9 - step / 50, 0.99)
        if step > 2 and "weight_decay" in group:
            group["weight_decay"] = 0.01 * step


@pytest.mark.parametrize("name", ["SGD with momentum", "Adam", "AdamW", "RMSprop", "Rprop", "ASGD"])
def test_numbers_of_a_group_may_change_from_step_to_step(name: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _, due = _stepped(MADE[name], "cpu", 8, _schedule)
        _, got = _stepped(MADE[name], "jax", 8, _schedule)
    for one, other in zip(due, got, strict=True):
        assert pytest.approx(one, abs=5e-5) == other


def test_numbers_that_change_are_inputs_of_one_compiled_step() -> None:
    traced = []

    def counted(self: Any, closure: Any = None) -> Any:
        traced.append(self.param_groups[0]["momentum"])
        return torch.optim.SGD.step(self, closure)

    counting = type("SGD", (torch.optim.SGD,), {"__module__": "torch.optim.sgd", "step": counted})

    def change(optimizer: Any, step: int) -> None:
        optimizer.param_groups[0].update(lr=0.1 + step, momentum=0.1 * step)

    _stepped(lambda p: counting(p, lr=0.1, momentum=0.1), "jax", 8, change)
    assert len(traced) <= 6
    assert isinstance(traced[-1], steps._Changing)


def test_a_rate_of_zero_changes_nothing() -> None:
    _, got = _stepped(lambda p: torch.optim.Adam(p, lr=0.0), "jax", 2)
    assert pytest.approx(START.flatten().tolist()) == got[-1]


def test_groups_have_numbers_of_their_own() -> None:
    def make(device: str) -> list[Any]:
        one, other = (nn.Parameter(START.clone().to(device)) for _ in range(2))
        optimizer: Any = torch.optim.Adam(
            [{"params": [one]}, {"params": [other], "lr": 0.5, "betas": (0.5, 0.9)}], lr=0.1
        )
        optimizer = compile_optimizer(optimizer) if device == "jax" else optimizer
        for step in range(3):
            one.grad = _gradient(step).to(device)
            other.grad = None if step == 1 else _gradient(-step).to(device)
            optimizer.step()
        return [one.tolist(), other.tolist()]

    for due, got in zip(make("cpu"), make("jax"), strict=True):
        for row, found in zip(due, got, strict=True):
            assert pytest.approx(row, abs=2e-5) == found


def test_double_precision_and_complex_parameters() -> None:
    results = []
    for device in ("cpu", "jax"):
        p = nn.Parameter(torch.tensor([1.0 + 0.5j, -0.5j]).to(device))
        optimizer: Any = torch.optim.Adam([p], lr=0.1)
        optimizer = compile_optimizer(optimizer) if device == "jax" else optimizer
        for step in range(3):
            p.grad = torch.tensor([0.5 + step, 1.0 - 1j * step], dtype=torch.complex64).to(device)
            optimizer.step()
        results.append(torch.view_as_real(p.detach()).cpu())
    assert torch.allclose(*results, atol=1e-5)


def test_states_are_saved_and_loaded() -> None:
    optimizer, _ = _stepped(MADE["Adam"], "jax")
    saved = copy.deepcopy(optimizer.state_dict())
    p = nn.Parameter(optimizer.param_groups[0]["params"][0].detach().clone())
    other = compile_optimizer(torch.optim.Adam([p], lr=0.1))
    other.load_state_dict(saved)
    _, due = _stepped(MADE["Adam"], "cpu", 5)
    p.grad = _gradient(4).to("jax")
    other.step()
    assert pytest.approx(due[-1], abs=1e-5) == p.detach().flatten().tolist()
    assert 5 == float(other.state[p]["step"])


def test_what_the_compiled_step_cannot_do_is_left_to_torch() -> None:
    p = nn.Parameter(START.clone().to("jax"))
    optimizer = compile_optimizer(torch.optim.SGD([p], lr=0.1))
    loss = differentiable(lambda p: p.square().sum())

    def closure() -> Any:
        optimizer.zero_grad()
        made = loss(p)
        made.backward()
        return made

    assert pytest.approx(START.square().sum().item()) == optimizer.step(closure).item()
    hooked = []
    optimizer.register_step_post_hook(lambda *_: hooked.append(1))
    p.grad = _gradient(0).to("jax")
    optimizer.step()
    assert [1] == hooked
    host = nn.Parameter(START.clone())
    plain = compile_optimizer(torch.optim.SGD([host], lr=0.1))
    host.grad = _gradient(0)
    plain.step()
    assert torch.allclose(START - 0.1 * _gradient(0), host)


def test_gradients_are_zeroed_as_in_torch() -> None:
    p = nn.Parameter(START.clone().to("jax"))
    optimizer = compile_optimizer(torch.optim.SGD([p], lr=0.1))
    p.grad = _gradient(0).to("jax")
    optimizer.zero_grad(set_to_none=False)
    assert 0 == p.grad.abs().sum().item()
    optimizer.zero_grad()
    assert p.grad is None

    def zero_grad(self: Any, set_to_none: bool = True) -> None:
        self.zeroed = set_to_none

    entries = {"__module__": "torch.optim.sgd", "zero_grad": zero_grad}
    own = compile_optimizer(type("SGD", (torch.optim.SGD,), entries)([p], lr=0.1))
    own.zero_grad()
    assert own.zeroed


def test_optimizers_of_the_program_are_left_as_they_are() -> None:
    class Own(torch.optim.SGD):
        pass

    p = nn.Parameter(START.clone().to("jax"))
    for optimizer in (Own([p], lr=0.1), torch.optim.RAdam([p]), torch.optim.SparseAdam([p])):
        assert compile_optimizer(optimizer) is optimizer
        assert "step" not in vars(optimizer)
    assert compile_optimizer(1) == 1


def test_functions_are_compiled_without_gradients() -> None:
    p = nn.Parameter(START.clone().to("jax"))

    @compile_update
    def average(p: Any, q: Any) -> None:
        q.mul_(0.5).add_(p * 0.5)

    q = torch.zeros(2, 3, device="jax")
    for _ in range(2):
        average(p, q)
    assert torch.allclose(START * 0.75, q.cpu())
    assert not q.requires_grad


def _failing(error: type[Exception], fails_at: int) -> Made:
    """An optimizer whose step cannot be traced once it took so many steps."""

    def step(self: Any, closure: Any = None) -> Any:
        p = self.param_groups[0]["params"][0]
        if isinstance(p.jax(), jax.core.Tracer) and self.steps >= fails_at:
            raise error("it asks for a value")
        self.steps += 1
        self.state[p].setdefault("buffer", torch.zeros_like(p))
        return torch.optim.SGD.step(self, closure)

    entries = {"__module__": "torch.optim.sgd", "step": step, "steps": 0}
    made = type("SGD", (torch.optim.SGD,), entries)
    return lambda p: made(p, lr=0.1)


def _decay(optimizer: Any, step: int) -> None:
    optimizer.param_groups[0]["weight_decay"] = step / 10


@pytest.mark.parametrize("fails_at", [0, 1])
def test_a_step_that_cannot_be_compiled_runs_as_it_is(fails_at: int) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        _, got = _stepped(_failing(TypeError, fails_at), "jax", 3, _decay)
    _, due = _stepped(MADE["SGD"], "cpu", 3, _decay)
    assert pytest.approx(due[-1], abs=1e-5) == got[-1]
    said = [str(one.message) for one in caught if "is not compiled" in str(one.message)]
    assert ["`SGD.step` is not compiled (slower, same results): it asks for a value"] == said


def test_errors_of_a_step_are_raised() -> None:
    with pytest.raises(KeyError):
        _stepped(_failing(KeyError, 1), "jax", 3, _decay)


def test_a_step_that_wants_another_rate_as_a_number_each_time_is_compiled_for_few_of_them() -> None:
    def change(optimizer: Any, step: int) -> None:
        optimizer.param_groups[0]["lr"] = 0.1 + step / 100

    _, due = _stepped(MADE["Rprop"], "cpu", 9, change)
    _, got = _stepped(MADE["Rprop"], "jax", 9, change)
    assert pytest.approx(due[-1], abs=1e-5) == got[-1]
