"""Averages of weights that are computed together with the step of the optimizer are those of PyTorch."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
from torch import nn
from torchax_compat import compile_optimizer, compile_update, differentiable
from torchax_compat.autograd import deferred_step, weight_updates
from torchax_compat.tensor import deferral

STEPS = 12


class Shadow:
    """Averages of weights in an attribute."""

    def __init__(self, net: nn.Module) -> None:
        self.values = {name: p.detach().clone() for name, p in net.named_parameters()}

    def update(self, net: nn.Module) -> None:
        for name, p in net.named_parameters():
            self.values[name] = (0.9 * self.values[name] + 0.1 * p.data).clone()


class Loop:
    """A training loop with averages, on the host with PyTorch or on torchax."""

    def __init__(self, device: str) -> None:
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Tanh(), nn.Linear(8, 2)).to(device)
        self.average = copy.deepcopy(self.net)
        self.shadow = Shadow(self.net)
        self.device = device
        self.optimizer: torch.optim.Optimizer = torch.optim.SGD(
            self.net.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01
        )
        generator = torch.Generator().manual_seed(1)
        self.batches = [
            (torch.randn(6, 4, generator=generator), torch.randn(6, 2, generator=generator)) for _ in range(3)
        ]

        def compute_loss(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.mse_loss(net(x), y)

        def update(average: nn.Module, net: nn.Module, decay: float) -> None:
            with torch.no_grad():
                for mean, p in zip(average.parameters(), net.parameters(), strict=True):
                    mean.mul_(decay).add_(p, alpha=1 - decay)

        def follow(average: nn.Module, net: nn.Module) -> None:
            with torch.no_grad():
                for mean, p in zip(average.parameters(), net.parameters(), strict=True):
                    mean.lerp_(p, 0.1)
                for mean, buffer in zip(average.buffers(), net.buffers(), strict=True):
                    mean.copy_(buffer)

        def keep_small(net: nn.Module) -> None:
            with torch.no_grad():
                for p in net.parameters():
                    p.clamp_(-0.3, 0.3)

        self.compute_loss: Callable[..., torch.Tensor] = compute_loss
        self.update, self.follow, self.keep_small = update, follow, keep_small
        self.update_shadow: Callable[..., None] = self.shadow.update
        if device == "jax":
            self.optimizer = compile_optimizer(self.optimizer)
            self.compute_loss = differentiable(compute_loss)
            self.update, self.follow, self.keep_small, self.update_shadow = map(
                compile_update, (update, follow, keep_small, self.shadow.update)
            )
        self.log: list[Any] = []

    def note(self, value: torch.Tensor) -> None:
        self.log.append(value.tolist())

    def step(self, number: int) -> torch.Tensor:
        self.optimizer.zero_grad()
        loss = self.compute_loss(self.net, *[one.to(self.device) for one in self.batches[number % 3]])
        loss.backward()
        self.optimizer.step()
        return loss


def averages(loop: Loop, number: int) -> None:
    loss = loop.step(number)
    loop.update(loop.average, loop.net, 0.9)
    loop.note(loss)


def copies_buffers(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.follow(loop.average, loop.net)


def averages_in_an_attribute(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.update_shadow(loop.net)


def changes_the_weights_themselves(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.keep_small(loop.net)


def averages_twice(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.update(loop.average, loop.net, 0.9)
    loop.follow(loop.average, loop.net)


def changes_the_decay(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.update(loop.average, loop.net, 1 - 1 / (number + 2))


def drops_gradients_first(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.optimizer.zero_grad()
    loop.update(loop.average, loop.net, 0.9)


def changes_settings_first(loop: Loop, number: int) -> None:
    loop.step(number)
    for group in loop.optimizer.param_groups:
        group["lr"] *= 0.9
        if number == 7:
            group["weight_decay"], group["nesterov"] = 0.0, True
    loop.update(loop.average, loop.net, 0.9)


def averages_sometimes(loop: Loop, number: int) -> None:
    loop.step(number)
    if number % 4 != 3:
        loop.update(loop.average, loop.net, 0.9)


def averages_rarely(loop: Loop, number: int) -> None:
    loop.step(number)
    if number < 6 or number % 3 == 0:
        loop.update(loop.average, loop.net, 0.9)


def reads_a_weight_first(loop: Loop, number: int) -> None:
    loop.step(number)
    if number % 2:
        loop.note(loop.net[0].weight)
    loop.update(loop.average, loop.net, 0.9)


def reads_a_copy_first(loop: Loop, number: int) -> None:
    loop.step(number)
    before = [p.detach().clone() for p in loop.average.parameters()]
    kept = copy.deepcopy(loop.average) if number % 2 else loop.average
    loop.update(loop.average, loop.net, 0.9)
    for one in (*before, *kept.parameters()):
        loop.note(one)


def reads_the_optimizer_first(loop: Loop, number: int) -> None:
    loop.step(number)
    for entry in loop.optimizer.state_dict()["state"].values():
        loop.note(entry["momentum_buffer"])
    loop.update(loop.average, loop.net, 0.9)


def reads_gradients_first(loop: Loop, number: int) -> None:
    loop.step(number)
    if number % 2:
        loop.note(loop.net[0].weight.grad)
    loop.update(loop.average, loop.net, 0.9)


def clips_after_the_step(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.note(nn.utils.clip_grad_norm_(loop.net.parameters(), 0.01))
    loop.update(loop.average, loop.net, 0.9)
    loop.note(loop.net[0].weight.grad)


def writes_a_weight_first(loop: Loop, number: int) -> None:
    loop.step(number)
    if number % 2:
        with torch.no_grad():
            loop.net[0].weight.mul_(0.9)
    else:
        loop.net[3].bias.data = torch.ones(2).to(loop.device)
    loop.update(loop.average, loop.net, 0.9)


def loads_weights_first(loop: Loop, number: int) -> None:
    state = {name: value.clone() for name, value in loop.net.state_dict().items()}
    loop.step(number)
    if number > 6:
        loop.net.load_state_dict(state)
    loop.update(loop.average, loop.net, 0.9)


def evaluates_first(loop: Loop, number: int) -> None:
    loop.step(number)
    with torch.no_grad():
        loop.note(loop.average(loop.batches[0][0].to(loop.device)))
        if number % 2:
            loop.note(loop.net(loop.batches[0][0].to(loop.device)))
    loop.update(loop.average, loop.net, 0.9)


def steps_twice(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.optimizer.step()
    loop.update(loop.average, loop.net, 0.9)


def averages_the_averages(loop: Loop, number: int) -> None:
    loop.step(number)
    loop.update(loop.net, loop.average, 0.9)


LOOPS = [
    averages,
    copies_buffers,
    averages_in_an_attribute,
    changes_the_weights_themselves,
    averages_twice,
    changes_the_decay,
    drops_gradients_first,
    changes_settings_first,
    averages_sometimes,
    averages_rarely,
    reads_a_weight_first,
    reads_a_copy_first,
    reads_the_optimizer_first,
    reads_gradients_first,
    clips_after_the_step,
    writes_a_weight_first,
    loads_weights_first,
    evaluates_first,
    steps_twice,
    averages_the_averages,
]


def logged(run: Callable[[Loop, int], None], device: str) -> list[Any]:
    loop = Loop(device)
    for number in range(STEPS):
        run(loop, number)
    for value in (*loop.average.state_dict().values(), *loop.net.state_dict().values()):
        loop.note(value)
    for value in loop.shadow.values.values():
        loop.note(value)
    return loop.log


@pytest.mark.parametrize("run", LOOPS)
def test_a_loop_gives_what_pytorch_gives(run: Callable[[Loop, int], None]) -> None:
    expected, found = logged(run, "cpu"), logged(run, "jax")
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(
            torch.tensor(other), torch.tensor(one), rtol=2e-3, atol=2e-5, check_dtype=False
        )


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """For each program that ran: the class of the update that it included."""
    ran: list[str] = []
    plain_run = deferred_step.DeferredStep.run

    def run(self: Any, update: Any) -> bool:
        ran.append(type(update).__name__)
        return plain_run(self, update)

    monkeypatch.setattr(deferred_step.DeferredStep, "run", run)
    return ran


@pytest.mark.parametrize(
    "run",
    [
        averages,
        copies_buffers,
        averages_in_an_attribute,
        changes_the_weights_themselves,
        averages_twice,
        drops_gradients_first,
    ],
)
def test_step_and_averages_are_one_program_from_the_fifth_step_on_a_cpu(
    run: Callable[[Loop, int], None], programs: list[str]
) -> None:
    logged(run, "jax")
    assert ["_Call"] * (STEPS - 4) == programs


def test_a_step_without_averages_does_not_wait(programs: list[str]) -> None:
    loop = Loop("jax")
    for number in range(STEPS):
        loop.step(number)
        assert deferral.current is None
    assert ["_Update"] * (STEPS - 4) == programs


def test_steps_stop_waiting_if_averages_do_not_follow(programs: list[str]) -> None:
    loop = Loop("jax")
    waited = []
    for number in range(20):
        loop.step(number)
        if number < 6:
            loop.update(loop.average, loop.net, 0.9)
        waited.append(deferral.current is not None)
    assert [False] * 6 + [True] * 3 + [False] * 11 == waited
    assert ["_Call"] * 2 + ["_Update"] * 14 == programs


def test_averages_that_cannot_be_traced_in_the_program_are_computed_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def compute(*_given: Any) -> None:
        raise TypeError

    expected = logged(averages, "cpu")
    monkeypatch.setattr(weight_updates._Call, "compute", compute)
    found = logged(averages, "jax")
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(torch.tensor(other), torch.tensor(one), check_dtype=False)


def test_no_array_of_earlier_steps_is_kept() -> None:
    loop, counts = Loop("jax"), []
    for number in range(STEPS):
        averages(loop, number)
        gc.collect()
        counts.append(sum(one.shape == (8, 4) for one in jax.live_arrays()))
    assert counts[2:] == [counts[2]] * (STEPS - 2)
