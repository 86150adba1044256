"""Steps whose passes and optimizer are computed as one program give what PyTorch gives, whatever is read."""

from __future__ import annotations

import copy
import functools
import gc
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.autograd import deferred_step
from torchax_compat.tensor import deferral

STEPS = 9

Log = list[Any]


class Loop:
    """A training loop, on the host with PyTorch or on torchax."""

    def __init__(
        self, device: str, kind: Callable[..., torch.optim.Optimizer], *, norm: bool = False
    ) -> None:
        torch.manual_seed(0)
        layers = [nn.Linear(4, 8), *([nn.BatchNorm1d(8)] if norm else []), nn.Tanh(), nn.Linear(8, 2)]
        self.net = nn.Sequential(*layers).to(device)
        self.optimizer = kind(self.net.parameters())
        self.device = device
        if device == "jax":
            self.optimizer = compile_optimizer(self.optimizer)
        generator = torch.Generator().manual_seed(1)
        self.batches = [
            (torch.randn(6, 4, generator=generator), torch.randn(6, 2, generator=generator)) for _ in range(3)
        ]

        def compute_loss(net: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            return nn.functional.mse_loss(net(x), y)

        self.compute_loss = differentiable(compute_loss) if device == "jax" else compute_loss
        self.log: Log = []

    def batch(self, step: int) -> list[torch.Tensor]:
        return [one.to(self.device) for one in self.batches[step % 3]]

    def loss(self, step: int) -> torch.Tensor:
        return self.compute_loss(self.net, *self.batch(step))

    def note(self, value: Any) -> None:
        self.log.append(value.tolist() if isinstance(value, torch.Tensor) else value)


def plain(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    loss.backward()
    loop.optimizer.step()
    loop.note(loss)


def reads_loss_first(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    loop.note(loss)
    loss.backward()
    loop.optimizer.step()


def reads_loss_before_step(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    loss.backward()
    loop.note(loss)
    loop.optimizer.step()


def reads_gradients_before_step(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    if step % 3 == 2:
        loop.note(loop.net[0].weight.grad)
    loop.optimizer.step()


def reads_gradients_after_step(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    loop.optimizer.step()
    if step % 3 == 2:
        loop.note(loop.net[0].weight.grad)


def changes_gradients(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    if step % 2:
        for p in loop.net.parameters():
            p.grad.mul_(0.5)
    loop.optimizer.step()


def replaces_a_gradient(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    if step % 4 == 3:
        loop.net[0].bias.grad = torch.ones_like(loop.net[0].bias)
    loop.optimizer.step()


def changes_a_parameter_before_step(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    if step % 3 == 1:
        with torch.no_grad():
            loop.net[0].weight.mul_(0.9)
    loop.optimizer.step()


def changes_a_parameter_before_backward(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    if step % 3 == 1:
        with torch.no_grad():
            loop.net[2].bias.add_(0.1)
    loss.backward()
    loop.optimizer.step()
    loop.note(loss)


def accumulates(loop: Loop, step: int) -> None:
    loss = loop.loss(step)
    loss.backward()
    loop.note(loss)
    if step % 3 == 2:
        loop.optimizer.step()
        loop.optimizer.zero_grad()


def accumulates_unread(loop: Loop, step: int) -> None:
    for number in range(2):
        loop.loss(step + number).backward()
    loop.optimizer.step()
    loop.optimizer.zero_grad()


def keeps_the_first_gradients(loop: Loop, step: int) -> None:
    loop.loss(step).backward()
    first = [p.grad.clone() for p in loop.net.parameters()]
    loop.loss(step + 1).backward()
    loop.optimizer.step()
    for one in first:
        loop.note(one)
    loop.optimizer.zero_grad()


def zeroes_by_module(loop: Loop, step: int) -> None:
    loop.net.zero_grad()
    loop.loss(step).backward()
    loop.optimizer.step()
    loop.note(all(p.grad is not None for p in loop.net.parameters()))


def zeroes_in_place(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad(set_to_none=False)
    loop.loss(step).backward()
    loop.optimizer.step()


def zeroes_between(loop: Loop, step: int) -> None:
    loss = loop.loss(step)
    loop.optimizer.zero_grad()
    loss.backward()
    loop.optimizer.step()
    loop.note(loss)


def clips(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    norm = nn.utils.clip_grad_norm_(loop.net.parameters(), 0.1)
    loop.optimizer.step()
    if step % 2:
        loop.note(norm)


def clips_and_reads(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    loop.note(nn.utils.clip_grad_norm_(loop.net.parameters(), 0.1))
    loop.note(loop.net[0].weight.grad)
    loop.optimizer.step()


def clips_some(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    nn.utils.clip_grad_norm_(loop.net[0].parameters(), 0.05, norm_type=1.0)
    nn.utils.clip_grad_norm_(loop.net[2].parameters(), 0.05)
    loop.optimizer.step()


def clips_values(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    nn.utils.clip_grad_value_(loop.net.parameters(), 0.01)
    loop.optimizer.step()


def scales_the_loss(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    (loop.loss(step) * 0.5).backward()
    loop.optimizer.step()


def keeps_the_graph(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    loss.backward(retain_graph=True)
    loss.backward()
    loop.optimizer.step()


def calls_torch_autograd(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    torch.autograd.backward(loss)
    loop.optimizer.step()


def asks_for_gradients(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loop.loss(step).backward()
    loop.optimizer.step()
    if step % 3 == 2:
        loop.note(torch.autograd.grad(loop.loss(step), loop.net[0].weight)[0])


def schedules(loop: Loop, step: int) -> None:
    plain(loop, step)
    for group in loop.optimizer.param_groups:
        group["lr"] *= 0.8


def has_a_hook_later(loop: Loop, step: int) -> None:
    if step == 6:
        loop.net[0].weight.register_hook(lambda gradient: gradient * 0.1)
    plain(loop, step)


def freezes_later(loop: Loop, step: int) -> None:
    if step == 6:
        loop.net[0].requires_grad_(requires_grad=False)
    plain(loop, step)


def evaluates(loop: Loop, step: int) -> None:
    plain(loop, step)
    if step % 3 == 2:
        loop.net.eval()
        with torch.no_grad():
            loop.note(loop.net(loop.batch(step)[0]))
        loop.net.train()


def forgets_a_backward_pass(loop: Loop, step: int) -> None:
    loop.loss(step).backward()
    loop.optimizer.zero_grad()
    plain(loop, step)


def only_computes_sometimes(loop: Loop, step: int) -> None:
    loop.optimizer.zero_grad()
    loss = loop.loss(step)
    if step % 3 != 1:
        loss.backward()
        loop.optimizer.step()
    loop.note(loss)


LOOPS = [
    plain,
    reads_loss_first,
    reads_loss_before_step,
    reads_gradients_before_step,
    reads_gradients_after_step,
    changes_gradients,
    replaces_a_gradient,
    changes_a_parameter_before_step,
    changes_a_parameter_before_backward,
    accumulates,
    accumulates_unread,
    keeps_the_first_gradients,
    zeroes_by_module,
    zeroes_in_place,
    zeroes_between,
    clips,
    clips_and_reads,
    clips_some,
    clips_values,
    scales_the_loss,
    keeps_the_graph,
    calls_torch_autograd,
    asks_for_gradients,
    schedules,
    has_a_hook_later,
    freezes_later,
    evaluates,
    forgets_a_backward_pass,
    only_computes_sometimes,
]
ADAM = functools.partial(torch.optim.Adam, lr=0.05)
SGD = functools.partial(torch.optim.SGD, lr=0.05, momentum=0.9)


def logged(run: Callable[[Loop, int], None], device: str, kind: Any, *, norm: bool) -> Log:
    loop = Loop(device, kind, norm=norm)
    for step in range(STEPS):
        run(loop, step)
    for value in loop.net.state_dict().values():
        loop.note(value)
    for entry in loop.optimizer.state_dict()["state"].values():
        for _, one in sorted(entry.items()):
            loop.note(one)
    return loop.log


def assert_close(expected: Log, found: Log) -> None:
    assert len(expected) == len(found)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(
            torch.tensor(other), torch.tensor(one), rtol=2e-3, atol=2e-5, check_dtype=False
        )


@pytest.mark.parametrize("norm", [False, True], ids=["", "batch norm"])
@pytest.mark.parametrize("run", LOOPS)
def test_a_loop_gives_what_pytorch_gives(run: Callable[[Loop, int], None], norm: bool) -> None:
    if norm and run in (clips_some, changes_a_parameter_before_backward):
        pytest.skip("the layers have other numbers")
    kind = SGD if norm else ADAM
    assert_close(logged(run, "cpu", kind, norm=norm), logged(run, "jax", kind, norm=norm))


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each program that ran: whether it included the optimizer."""
    ran: list[bool] = []
    plain_run = deferred_step.DeferredStep.run

    def run(self: Any, update: Any) -> bool:
        ran.append(update is not None)
        return plain_run(self, update)

    monkeypatch.setattr(deferred_step.DeferredStep, "run", run)
    return ran


def test_a_step_is_one_program_from_the_fifth_call_on_a_cpu(programs: list[bool]) -> None:
    logged(plain, "jax", ADAM, norm=True)
    assert [True] * (STEPS - 4) == programs


def test_clipping_is_part_of_the_program(programs: list[bool]) -> None:
    logged(clips, "jax", ADAM, norm=False)
    assert [True] * (STEPS - 4) == programs


def test_both_passes_are_one_program_if_the_loss_is_read_before_the_step(programs: list[bool]) -> None:
    logged(reads_loss_before_step, "jax", ADAM, norm=False)
    assert [False] * (STEPS - 4) == programs


def test_a_function_whose_loss_is_read_first_is_not_recorded_for_long() -> None:
    loop = Loop("jax", ADAM)
    for step in range(STEPS):
        reads_loss_first(loop, step)
    (version,) = [
        one for traces in loop.compute_loss.compiled_function.known.traces.values() for one in traces
    ]
    assert deferred_step.MOST_MISSES == version.plan.misses


def test_copies_of_weights_keep_their_values() -> None:
    loop = Loop("jax", ADAM)
    kept: list[tuple[Any, Any, Any]] = []
    for step in range(STEPS):
        plain(loop, step)
        weight = loop.net[0].weight
        best = copy.deepcopy(loop.net)
        kept.append((weight.detach().clone(), best[0].weight, weight.detach().cpu().numpy().copy()))
        shown = weight.detach().numpy()
        state = copy.deepcopy(loop.optimizer.state_dict())
    for clone, other, values in kept:
        assert values.tolist() == clone.tolist() == other.tolist()
    assert shown.tolist() == loop.net[0].weight.tolist()
    assert 4 == len(state["state"])


def test_arrays_that_the_program_holds_are_not_given_away() -> None:
    loop = Loop("jax", SGD)
    for step in range(STEPS):
        before = loop.net[0].weight.jax()
        plain(loop, step)
    assert (4, 8)[::-1] == before.shape
    assert all(map(bool, (before == before).ravel()))


def test_views_of_weights_follow_them() -> None:
    loop = Loop("jax", SGD)
    row = loop.net[0].weight.detach()[0]
    for step in range(STEPS):
        plain(loop, step)
    assert row.tolist() == loop.net[0].weight[0].tolist()


def test_a_second_backward_pass_is_refused_as_by_pytorch() -> None:
    loop = Loop("jax", SGD)
    for step in range(STEPS):
        plain(loop, step)
    loss = loop.loss(0)
    loss.backward()
    loop.optimizer.step()
    with pytest.raises(RuntimeError, match="second time"):
        loss.backward()


def test_results_are_freed_with_their_last_reference() -> None:
    loop = Loop("jax", SGD)
    for step in range(STEPS):
        plain(loop, step)
    loss = loop.loss(0)
    x = weakref.ref(loop.batch(0)[0])
    loss.backward()
    loop.optimizer.step()
    gc.collect()
    assert x() is None
    assert deferral.current is None


def test_the_random_key_goes_on_after_a_recorded_call() -> None:
    draws = []
    for reads in (False, True):
        torch.manual_seed(0)
        torchax_compat_environment = torch.device("jax")
        net = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).to(torchax_compat_environment)
        optimizer = compile_optimizer(torch.optim.SGD(net.parameters(), lr=0.1))

        @differentiable
        def compute_loss(net: nn.Module, x: torch.Tensor) -> torch.Tensor:
            return net(x).square().mean()

        x = torch.ones(3, 4).to("jax")
        found = []
        for _ in range(STEPS):
            optimizer.zero_grad()
            loss = compute_loss(net, x)
            if reads:
                loss.item()
            loss.backward()
            optimizer.step()
            found.append(torch.rand(2, device="jax").tolist())
        draws.append((found, net[0].weight.tolist()))
    torch.testing.assert_close(draws[0], draws[1])


def test_hooks_on_several_gradients_are_called(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deferred_step.Plan, "is_possible", True)
    loop = Loop("jax", SGD)
    for step in range(STEPS):
        plain(loop, step)
    seen: list[int] = []
    weights = (loop.net[0].weight, loop.net[2].weight)
    torch.autograd.graph.register_multi_grad_hook(weights, lambda gradients: seen.append(len(gradients)))
    plain(loop, 0)
    assert [2] == seen
