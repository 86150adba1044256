"""Objects of the program that hold tensors, as arguments and as results of a traced function."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="arg-type, attr-defined, func-returns-value, type-arg"

from __future__ import annotations

from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import torch
from torch import nn
from torch.distributions import Normal
from torchax_compat import differentiable

from ..comparison import assert_equal, copied, moved, plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)
Pair = namedtuple("Pair", ["first", "second"])


class Named(dict):
    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None


class ModelOutput(OrderedDict):
    def to_tuple(self):
        return tuple(self.values())


@dataclass(slots=True)
class Inner:
    hidden: Any
    name: str = "inner"


@dataclass(frozen=True)
class Output:
    logits: Any
    inner: Inner
    loss: Any = None


class Meter:
    def __init__(self):
        self.count, self.seen = 0, set()

    def update(self, n):
        self.count += n
        self.seen.add(n)
        return self


class Node:
    """One of a graph that leads back to itself."""

    def __init__(self, value):
        self.value, self.meter, self.twice, self.me = value, Meter().update(3), None, self


@dataclass
class Batch:
    x: Any
    rows: Any
    name: str = "train"

    @property
    def size(self):
        return self.x.shape[0]


def shown(compute, notes, *, steps=4, make_batch=lambda step: X + step, check=None) -> Any:
    """Losses, gradients and what `notes` says of each result are those of torch."""
    found, decorated = [], differentiable(compute)
    for device in ("cpu", "jax"):
        torch.manual_seed(0)
        net = nn.Linear(3, 2).to(device)
        for step in range(steps):
            net.zero_grad()
            batch = make_batch(step)
            if isinstance(batch, torch.Tensor):
                batch = batch.to(device)
            else:
                vars(batch).update({k: moved(v, device) for k, v in vars(batch).items()})
            if device == "cpu":
                with plain_torch():
                    result = compute(net, batch)
                    result.loss.backward()
            else:
                result = decorated(net, batch)
                result.loss.backward()
            found.append(copied((notes(result), net.weight.grad)))
    assert_equal(found[:steps], found[steps:])
    return decorated


def test_data_classes_are_made_anew_around_their_tensors() -> None:
    def compute(net, x):
        hidden = net(x)
        return Output(hidden, Inner(hidden.tanh()), hidden.square().mean())

    def notes(out):
        return out.logits, out.inner.hidden, out.inner.name, type(out).__name__, type(out.inner).__name__

    assert shown(compute, notes).compiled_function.is_compiled


def test_dictionaries_with_attributes_are_made_anew() -> None:
    def compute(net, x):
        out = net(x)
        return Named(
            loss=out.square().mean(), out=ModelOutput(logits=out), sizes=SimpleNamespace(many=len(out))
        )

    shown(compute, lambda result: (result.loss, result.out.to_tuple(), list(result)))


def test_distribution_is_made_anew() -> None:
    def compute(net, x):
        out = net(x)
        dist = Normal(out, torch.ones_like(out), validate_args=False)
        return Named(loss=-dist.log_prob(x[:, :2]).mean(), dist=dist)

    shown(compute, lambda result: (result.dist.loc, result.dist.entropy().mean()))


def test_objects_that_are_in_a_result_twice_are_one() -> None:
    def compute(net, x):
        node = Node(net(x).mean())
        node.twice = (Node(node.value * 2),) * 2
        return Named(loss=node.value, node=node)

    def notes(result):
        node = result.node
        same = node.me is node, node.twice[0] is node.twice[1]
        return same, node.value, node.twice[1].value, node.meter.update(4).count, sorted(node.meter.seen)

    shown(compute, notes)


def test_named_tuples_and_objects_without_tensors_in_results() -> None:
    meter = Meter()

    def compute(net, x):
        out = net(x)
        return Named(loss=out.sum(), pair=Pair(out.mean(), Inner(out.max())), meter=meter)

    shown(compute, lambda result: (result.pair.first, result.pair.second.hidden, result.meter is meter))


def test_objects_that_are_left_in_attributes() -> None:
    class Keeping(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.last, self.outputs = None, []

        def forward(self, x):
            out = super().forward(x)
            self.last = Inner(out.detach(), "last")
            self.outputs.append(ModelOutput(logits=out.detach()))
            return out

    net = Keeping().to("jax")
    compute_loss = differentiable(lambda net, x: net(x).sum())
    for step in range(4):
        compute_loss(net, (X + step).to("jax"))
        expected = net(X.to("jax") + step).detach()
        net.outputs.pop()
        assert_equal((expected, expected), (net.last.hidden, net.outputs[-1].to_tuple()[0]))
    assert 4 == len(net.outputs) and compute_loss.compiled_function.is_compiled


def test_batches_that_are_objects_are_inputs() -> None:
    def compute(net, batch):
        out = net(batch.x)[batch.rows] / batch.size
        return Named(loss=out.square().sum())

    decorated = shown(
        compute,
        lambda result: result.loss,
        steps=6,
        make_batch=lambda step: Batch(X + step, torch.arange(4).roll(step)),
    )
    assert decorated.compiled_function.is_compiled and len(decorated.compiled_function.known.traces) <= 3


def test_batch_that_is_written_to_is_given_itself() -> None:
    def compute(net, batch):
        batch.out = net(batch.x)
        return Named(loss=batch.out.square().sum(), batch=batch)

    def make_batch(step):
        return Batch(X + step, torch.arange(4))

    batches = []
    decorated = shown(
        compute, lambda result: batches.append(result.batch) or result.batch.out, make_batch=make_batch
    )
    assert all(hasattr(batch, "out") for batch in batches)
    assert not decorated.compiled_function.records.is_on


def test_batch_that_is_given_back_is_itself() -> None:
    def compute(net, batch):
        return net(batch.x).sum(), batch

    net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute)
    for step in range(3):
        batch = Batch(X.to("jax") + step, torch.arange(4).to("jax"))
        assert decorated(net, batch)[1] is batch


def test_batch_that_holds_other_objects_is_no_record() -> None:
    def compute(net, batch):
        return Named(loss=net(batch.x).sum() * len(batch.name))

    net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute)
    for step in range(3):
        batch = Batch(X.to("jax") + step, torch.arange(4).to("jax"), name=(Meter(), "ab"))
        decorated(net, batch).loss.backward()
    assert decorated.compiled_function.is_compiled and not decorated.compiled_function.records.are_taken


def test_batch_of_dictionaries_and_by_keyword() -> None:
    def compute(net, *, batch):
        return net(batch["x"]).sum() * batch["scale"] + batch.extra["y"].sum()

    net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute)
    for step in range(4):
        batch = Named(x=X.to("jax") + step, scale=2.0, extra={"y": [X.to("jax")][0], "n": [1, (2.5,)]})
        expected = net(X.to("jax") + step).sum() * 2 + X.to("jax").sum()
        assert_equal(expected.detach(), decorated(net, batch=batch).detach())
    assert decorated.compiled_function.is_compiled


def test_error_with_a_batch_that_is_taken_apart_is_raised_for_the_batch_itself() -> None:
    def compute(net, batch):
        if batch.name == "broken" and not isinstance(batch.marker, list):
            raise KeyError("broken")
        return net(batch.x).sum()

    net, decorated = nn.Linear(3, 2).to("jax"), differentiable(compute)
    for _ in range(3):
        decorated(net, Batch(X.to("jax"), X.to("jax"), name="fine"))
    broken = Batch(X[:2].to("jax"), X.to("jax"), name="broken")
    broken.marker = 1
    try:
        decorated(net, broken)
    except KeyError as error:
        assert "broken" in str(error)  # noqa: PT017
    assert not decorated.compiled_function.records.is_on
