"""`torch.utils.checkpoint` in a decorated function: the backward pass computes the function again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import pytest
import torch
from torch import nn
from torch.utils import checkpoint
from torchax_compat import differentiable

from ..comparison import assert_same_as_torch

X = torch.linspace(-1, 1, 16 * 8).reshape(16, 8)


class Block(nn.Module):
    """A residual block, which keeps what a program may want to look at."""

    def __init__(self, *, dropout: float = 0.0) -> None:
        super().__init__()
        self.norm: nn.Module = nn.LayerNorm(8)
        self.layers = nn.Sequential(nn.Linear(8, 64), nn.Tanh(), nn.Dropout(dropout), nn.Linear(64, 8))
        self.calls = 0
        self.sizes: list[torch.Tensor] = []

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x + self.layers(self.norm(x)) * scale


class Counting(Block):
    """A block that writes to its attributes."""

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        made = super().forward(x, scale)
        self.calls += 1
        self.sizes.append(made.detach().square().mean())
        return made


class Net(nn.Module):
    """Some blocks, called in one way."""

    def __init__(self, call: Callable[..., torch.Tensor], *blocks: Block) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.blocks, self.call = nn.ModuleList(blocks or [Block() for _ in range(3)]), call

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = self.call(block, x)
        return x


def plain(block: Block, x: torch.Tensor) -> torch.Tensor:
    return block(x)


def module(block: Block, x: torch.Tensor) -> torch.Tensor:
    return checkpoint.checkpoint(block, x, use_reentrant=False)


def with_keywords(block: Block, x: torch.Tensor) -> torch.Tensor:
    return checkpoint.checkpoint(block, x, scale=0.5, use_reentrant=False, preserve_rng_state=False)


def method(block: Block, x: torch.Tensor) -> torch.Tensor:
    return checkpoint.checkpoint(block.forward, x, use_reentrant=False)


def closure(block: Block, x: torch.Tensor) -> torch.Tensor:
    scale = x.square().mean()
    return checkpoint.checkpoint(lambda given: block(given) * scale, x, use_reentrant=False)


def reentrant(block: Block, x: torch.Tensor) -> torch.Tensor:
    return checkpoint.checkpoint(block, x, use_reentrant=True)


def several_results(block: Block, x: torch.Tensor) -> torch.Tensor:
    def both(given: torch.Tensor) -> dict[str, Any]:
        made = block(given)
        return {"made": made, "others": [made * 2, 3]}

    found = checkpoint.checkpoint(both, x, use_reentrant=False)
    return (found["made"] + found["others"][0] * found["others"][1]) / 7


def nested(block: Block, x: torch.Tensor) -> torch.Tensor:
    def outer(given: torch.Tensor) -> torch.Tensor:
        return checkpoint.checkpoint(block, given, use_reentrant=False).tanh()

    return checkpoint.checkpoint(outer, x, use_reentrant=False)


def written_argument(block: Block, x: torch.Tensor) -> torch.Tensor:
    def write(given: torch.Tensor) -> torch.Tensor:
        made = block(given)
        total.add_(made.detach().mean())
        return made

    total = torch.zeros((), device=x.device)
    return checkpoint.checkpoint(write, x, use_reentrant=False) + total


def sequential(block: Block, x: torch.Tensor) -> torch.Tensor:
    return checkpoint.checkpoint_sequential(block.layers, 2, x, use_reentrant=False)


def without_gradients(block: Block, x: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        made = checkpoint.checkpoint(block, x, use_reentrant=False)
    return (x + made + block(x)) / 3


def compute_loss(net: Net, x: torch.Tensor) -> torch.Tensor:
    return net(x).square().mean()


WAYS = [module, with_keywords, method, closure, reentrant, several_results, nested, written_argument]


@pytest.mark.parametrize("call", [*WAYS, sequential, without_gradients], ids=lambda call: call.__name__)
def test_checkpointed_function_gives_what_pytorch_gives(call: Callable[..., torch.Tensor]) -> None:
    assert_same_as_torch(compute_loss, Net(call), X.clone().requires_grad_())


def kept_bytes(call: Callable[..., torch.Tensor]) -> int:
    """The sizes of what the forward pass keeps for the backward pass."""
    net = Net(call).to("jax")
    loss = differentiable(compute_loss)(net, X.clone().to("jax").requires_grad_())
    return sum(value.nbytes for value in jax.tree.leaves(loss.grad_fn.pullback))  # type: ignore[union-attr]


@pytest.mark.parametrize("call", WAYS, ids=lambda call: call.__name__)
def test_checkpointed_function_keeps_only_its_inputs(call: Callable[..., torch.Tensor]) -> None:
    assert kept_bytes(call) < 0.6 * kept_bytes(plain)


def test_attributes_that_a_checkpointed_module_writes_are_written_once() -> None:
    net = Net(module, *[Counting() for _ in range(2)]).to("jax")
    loss = differentiable(compute_loss)(net, X.to("jax"))
    loss.backward()
    assert [block.calls for block in net.blocks] == [1, 1]
    assert [len(block.sizes) for block in net.blocks] == [1, 1]
    last = net.blocks[-1].sizes[0].item()
    assert last == pytest.approx(loss.item(), rel=1e-5)


def test_dropout_in_a_checkpointed_module_is_that_of_the_module_itself() -> None:
    losses = []
    for call in (plain, module):
        torch.manual_seed(0)
        net = Net(call, *[Block(dropout=0.5) for _ in range(2)]).to("jax")
        torch.manual_seed(3)
        loss = differentiable(compute_loss)(net, X.to("jax"))
        loss.backward()
        gradients = [p.grad.square().sum().item() for p in net.parameters()]
        losses.append([loss.item(), *gradients, torch.rand(1, device="jax").item()])
    assert losses[1] == pytest.approx(losses[0], rel=1e-4)


def test_statistics_of_batch_norm_are_updated_once() -> None:
    means = []
    for call in (plain, module):
        torch.manual_seed(0)
        block = Block()
        block.norm = nn.BatchNorm1d(8)
        net = Net(call, block).to("jax")
        differentiable(compute_loss)(net, X.to("jax") + 1).backward()
        means.append(block.norm.running_mean.tolist())
    assert means[1] == pytest.approx(means[0])
    assert means[1] != [0.0] * 8


def prints(block: Block, x: torch.Tensor) -> torch.Tensor:
    def printing(given: torch.Tensor) -> torch.Tensor:
        print("rows", given.shape[0])
        return block(given)

    return checkpoint.checkpoint(printing, x, use_reentrant=False)


def reads_number(block: Block, x: torch.Tensor) -> torch.Tensor:
    def reading(given: torch.Tensor) -> torch.Tensor:
        block.calls = given.detach().abs().max().item()
        return block(given)

    return checkpoint.checkpoint(reading, x, use_reentrant=False)


@pytest.mark.parametrize("call", [prints, reads_number], ids=lambda call: call.__name__)
def test_function_that_cannot_be_computed_again_keeps_its_results(
    call: Callable[..., torch.Tensor], capsys: pytest.CaptureFixture[str]
) -> None:
    net = Net(call)
    assert_same_as_torch(compute_loss, net, X.clone().requires_grad_())
    # In three steps, each of three blocks prints twice in PyTorch, and once on torchax.
    assert capsys.readouterr().out.count("rows") == (0 if call is reads_number else 3 * 3 * (2 + 1))


def fills_containers(block: Block, x: torch.Tensor) -> torch.Tensor:
    def fill(given: torch.Tensor, log: dict[str, Any], items: list[torch.Tensor]) -> torch.Tensor:
        log["made"] = block(given)
        items.append(log["made"] * 2)
        return given

    log: dict[str, Any] = {}
    items: list[torch.Tensor] = []
    made = checkpoint.checkpoint(fill, x, log, items, use_reentrant=False)
    return (made + log["made"] + items[0]) / 7


def writes_to_a_view(block: Block, x: torch.Tensor) -> torch.Tensor:
    whole = block(x) * 1
    made = checkpoint.checkpoint(lambda part: part.mul_(2) + 1, whole[:, :4], use_reentrant=False)
    return (torch.cat([made, whole[:, 4:]], 1) + whole) / 7


def writes_to_a_captured_view(block: Block, x: torch.Tensor) -> torch.Tensor:
    whole = block(x) * 1
    part = whole[:, :4]
    made = checkpoint.checkpoint(lambda given: given + part.mul_(2).mean(), x, use_reentrant=False)
    return (made + whole) / 7


class Kept:
    """An object without a dictionary."""

    __slots__ = ("value",)
    value: torch.Tensor


def writes_to_slots(block: Block, x: torch.Tensor) -> torch.Tensor:
    def keep(given: torch.Tensor) -> torch.Tensor:
        kept.value = block(given)
        return kept.value * 2

    kept = Kept()
    return checkpoint.checkpoint(keep, x, use_reentrant=False) / 7 + kept.value / 7


@pytest.mark.parametrize(
    "call",
    [writes_to_slots, fills_containers, writes_to_a_view, writes_to_a_captured_view],
    ids=lambda call: call.__name__,
)
def test_writes_of_a_checkpointed_function_to_what_it_gets_stay(call: Callable[..., torch.Tensor]) -> None:
    assert_same_as_torch(compute_loss, Net(call), X.clone().requires_grad_())


def test_an_iterator_of_a_function_that_keeps_its_results_is_advanced_once() -> None:
    scales = iter([2.0, 5.0])

    def scaled(_block: Block, x: torch.Tensor) -> torch.Tensor:
        def fill(given: torch.Tensor, log: dict[str, Any]) -> torch.Tensor:
            log["made"] = given * next(scales)
            return given

        log: dict[str, Any] = {}
        checkpoint.checkpoint(fill, x, log, use_reentrant=False)
        made: torch.Tensor = log["made"]
        return made

    loss = differentiable(compute_loss)(Net(scaled, Block()).to("jax"), X.to("jax"))
    assert (X * 2).square().mean().item() == pytest.approx(loss.item())
    assert 5.0 == next(scales)


def test_error_of_a_checkpointed_function_is_raised() -> None:
    def failing(_block: Block, x: torch.Tensor) -> torch.Tensor:
        return checkpoint.checkpoint(lambda given: given.reshape(7), x, use_reentrant=False)

    net = Net(failing).to("jax")
    with pytest.raises((RuntimeError, TypeError), match="7"):
        differentiable(compute_loss)(net, X.to("jax"))
