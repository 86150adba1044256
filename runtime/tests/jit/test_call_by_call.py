"""Functions that cannot be compiled as a whole: their modules, and functions of torch, are compiled each."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="var-annotated"
# ruff: noqa: ARG005, N812

from __future__ import annotations

import copy
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchax_compat import differentiable, higher_order
from torchax_compat.jit import host_fallback, trace
from torchax_compat.tensor import dynamic_shapes

from ..comparison import assert_equal, assert_same_as_torch, copied, moved, plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def same(function, net, batches=((X,),) * 4) -> Any:
    decorated = lambda f: differentiable(f, compiled=False)  # noqa: E731
    return assert_same_as_torch(function, net, batches=list(batches), is_compiled=False, decorate=decorated)


def programs(decorated, net):
    return decorated.compiled_function.programs.by_module[id(net)]


def loss_of(net, x):
    return net(x).square().mean()


def test_module_is_compiled_by_itself() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).to("jax")
    decorated = differentiable(loss_of, compiled=False)
    for _ in range(2):
        decorated(net, X.to("jax"))
    assert 1 == len(programs(decorated, net).known.traces)


def test_buffers_and_modes_of_modules() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5))

    def compute_loss(net, x, step):
        net.train(step != 2)
        return net(x).square().mean()

    same(compute_loss, net, [(X, step) for step in range(4)])


class Scaled(nn.Module):
    """Changes its argument, and gives it back."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.full((3,), 0.5))

    def forward(self, x):
        x.mul_(self.scale)
        return x


def test_argument_that_a_module_writes_and_gives_back() -> None:
    def compute_loss(net, x):
        narrow = x * 2
        net(narrow[:, :3])
        whole = net(narrow)
        whole += 1
        return narrow.square().mean()

    same(compute_loss, Scaled())


def test_list_that_a_module_fills_and_gives_back() -> None:
    class Collecting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x, found, *, options=None):
            found.append(self.layer(x) * options["weight"])
            return found

    def compute_loss(net, x):
        results = net(x, [], options={"weight": x.mean()})
        results = net(x, results, options={"weight": 2.0})
        return sum(one.square().mean() for one in results)

    same(compute_loss, Collecting())


def test_state_and_results_that_share_memory() -> None:
    class Recurrent(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.hidden = nn.Linear(3, 3), None

        def forward(self, x):
            self.hidden = torch.tanh(self.layer(x)) + (0 if self.hidden is None else self.hidden)
            return {"all": self.hidden, "first": self.hidden[0]}

    def compute_loss(net, x):
        net.hidden = None
        net(x)
        states = net(x)
        states["first"].add_(1)
        return states["all"].square().mean()

    same(compute_loss, Recurrent())


def test_buffer_that_a_module_gives_back() -> None:
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("mean", torch.zeros(3))

        def forward(self, x):
            with torch.no_grad():
                self.mean.mul_(0.9).add_(x.mean(0), alpha=0.1)
            return self.layer(x - self.mean), self.mean

    def compute_loss(net, x):
        counted, mean = net(x)
        with torch.no_grad():
            mean *= 2
        return (counted * net.mean).square().mean()

    same(compute_loss, Counting())


def test_module_that_prints_is_called_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    class Telling(nn.Linear):
        def forward(self, x):
            print("called")
            return super().forward(x)

    same(loss_of, Telling(3, 2))
    assert 8 == capsys.readouterr().out.count("called")


def test_module_that_needs_values_is_called_as_it_is() -> None:
    class Needing(nn.Linear):
        def forward(self, x):
            return super().forward(x) * (2 if x.sum() > 0 else 3)

    same(loss_of, Needing(3, 2))


def test_module_that_draws_on_the_host_is_called_as_it_is() -> None:
    class Drawing(nn.Linear):
        def forward(self, x):
            return super().forward(x) * torch.rand(1).item()

    same(loss_of, Drawing(3, 2))


def test_module_that_is_made_for_one_call_is_compiled_at_its_second_one() -> None:
    def compute_loss(net, x):
        return nn.MSELoss()(net(x), x[:, :2]) + nn.Flatten()(net(x)).sum()

    same(compute_loss, nn.Linear(3, 2))


def test_hooks_of_modules_that_are_compiled_each() -> None:
    class Hooked(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers, self.found = nn.Sequential(nn.Linear(3, 4), nn.ReLU()), {}
            self.layers[1].register_forward_hook(lambda m, i, o: self.found.update(relu=o))

        def forward(self, x):
            return self.layers(x).sum() + self.found["relu"].square().sum()

    torch.manual_seed(0)
    net = Hooked().to("jax")
    decorated = differentiable(lambda net, x: net(x), compiled=False)
    first = [decorated(net, X.to("jax") + k).item() for k in range(3)]
    assert_equal([net(X.to("jax") + k).item() for k in range(3)], first)


def test_functions_of_torch_are_compiled_with_their_plain_arguments() -> None:
    def compute_loss(net, x, step):
        h = torch.cat([net(x), net(x).softmax(dim=1)], dim=1)[:, 1:]
        h[:, 0].mul_(2)
        return F.cross_entropy(h, torch.tensor([0, 1, 2, 0], device=x.device)) * (1 + 0.1 * step) + h.std()

    same(compute_loss, nn.Linear(3, 2), [(X, step) for step in range(6)])


def test_host_tensors_and_copies_to_the_host_within() -> None:
    def compute_loss(net, x):
        h = net(x)
        weight = torch.tensor([1.0, 2.0])
        return (h * weight).sum() + torch.mul(weight, h.cpu()).sum() + h.to("cpu").sum()

    net = nn.Linear(3, 2)
    compute_loss(net, X).backward()
    expected = net.weight.grad.clone()
    net.zero_grad()
    differentiable(compute_loss, compiled=False)(net.to("jax"), X.to("jax")).backward()
    assert_equal(expected, net.weight.grad)


def test_error_of_a_module_is_raised_as_it_is() -> None:
    class Breaking(nn.Linear):
        def forward(self, x):
            raise KeyError("broken")

    with pytest.raises(KeyError, match="broken"):
        differentiable(loss_of, compiled=False)(Breaking(3, 2).to("jax"), X.to("jax"))


def test_plain_argument_of_a_module_that_keeps_changing() -> None:
    class Weighed(nn.Linear):
        def forward(self, x, weight, name="a"):
            return super().forward(x) * weight * len(name)

    def compute_loss(net, x, weight):
        return net(x, weight).square().mean()

    same(compute_loss, Weighed(3, 2), [(X, 1 + step / 10) for step in range(7)])


def test_plain_argument_of_a_module_that_is_needed() -> None:
    class Repeated(nn.Linear):
        def forward(self, x, count):
            for _ in range(count):
                x = super().forward(x)
            return x

    def compute_loss(net, x, count):
        return net(x, count).square().mean()

    same(compute_loss, Repeated(3, 3), [(X, count) for count in (1, 2, 3, 2, 1)])


def test_arguments_of_many_shapes_are_no_longer_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trace, "MOST_VERSIONS", 2)
    monkeypatch.setattr(host_fallback, "keeps_changing", lambda call, program: False)
    net = nn.Linear(3, 2).to("jax")
    decorated = differentiable(loss_of, compiled=False)
    for size in (1, 2, 3, 4):
        decorated(net, X[:size].to("jax"))
    assert 2 == len(programs(decorated, net).known.traces)


def lengths(count=9):
    generator = torch.Generator().manual_seed(0)
    for size in range(5, 5 + count):
        yield torch.rand(size, 3, generator=generator), torch.randperm(size, generator=generator)[1:]


@pytest.fixture
def few_shapes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the host compute what is called with a second shape."""
    monkeypatch.setattr(dynamic_shapes, "MANY", 1)


@pytest.mark.usefixtures("few_shapes")
def test_host_computes_functions_whose_shapes_keep_changing() -> None:
    def compute_loss(net, x, order):
        hidden = torch.tanh(net(x))[order]
        if hidden.sum() > 100:
            hidden = hidden / 2
        both = torch.cat([hidden, 2 * hidden])
        ranked = both.sort(dim=0)[0].cumsum(0)
        least, most = ranked.aminmax(dim=1)
        noisy = F.dropout(ranked, 0.25)
        shown = torch.view_as_real(torch.complex(ranked, ranked)).sum()
        with torch.no_grad():
            fixed = ranked.cumsum(0)
        return (
            ranked[ranked > 0].clamp(max=2).mean()
            + (most - least).square().mean()
            + noisy.sum()
            + shown
            + (fixed * ranked).sum() * 0.01
        )

    same(compute_loss, nn.Linear(3, 2), list(lengths(4)))


@pytest.mark.usefixtures("few_shapes")
def test_host_computes_what_is_differentiated_twice() -> None:
    def forces(net, x, order):
        x = x.detach().requires_grad_()
        apart = (x[order] - x[order.flip(0)]).square().sum(1)
        energy = (net(x).square().sum() + torch.exp(-apart).sum()) * (1 if float(apart.sum()) < 1e6 else 2)
        (slope,) = torch.autograd.grad(energy, x, create_graph=True)
        return slope.square().mean()

    decorate = lambda f: differentiable(higher_order(f))  # noqa: E731
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        net, decorated = nn.Linear(3, 2), decorate(forces)
        there = moved(copy.deepcopy(net), "jax")
        for x, order in lengths(4):
            net.zero_grad(), there.zero_grad()
            with plain_torch():
                expected = forces(net, x, order)
                expected.backward()
            found = decorated(there, x.to("jax"), order.to("jax"))
            found.backward()
            assert_equal(copied((expected, net.weight.grad)), copied((found, there.weight.grad)))


@pytest.mark.usefixtures("few_shapes")
def test_way_back_through_the_host_is_not_compiled() -> None:
    def compute_loss(x, order):
        y = x[order].sort(dim=0)[0]
        return (y * y.detach().cumsum(0)).sum() * float(y.sum() > -99)

    decorated = differentiable(compute_loss, compiled=False)
    for x, order in lengths(4):
        there = x.to("jax").requires_grad_()
        decorated(there, order.to("jax")).backward()
        host = x.clone().requires_grad_()
        with plain_torch():
            compute_loss(host, order).backward()
        assert_equal(host.grad, there.grad)


def test_what_the_host_may_not_compute_is_refused_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dynamic_shapes, "MANY", 0)
    monkeypatch.setattr(host_fallback, "_refused", set())

    def compute_loss(net, x, order):
        h = net(x)
        return (
            torch.rand_like(h).sum() + h.t().sum() + torch.relu_(h * 2).sum() + torch.fft.rfft(h).abs().sum()
        )

    same(compute_loss, nn.Linear(3, 2), list(lengths(3)))
    assert len(host_fallback._refused) > 0


@pytest.mark.usefixtures("few_shapes")
def test_packed_sequences_whose_lengths_keep_changing() -> None:
    class Encoder(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn = nn.GRU(3, 2, bidirectional=True)

        def forward(self, src, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(src, lengths.to("cpu"))
            outputs, _ = self.rnn(packed)
            return nn.utils.rnn.pad_packed_sequence(outputs)[0]

    def compute_loss(net, src, lengths):
        outputs = net(src, lengths)
        return outputs.square().mean() * (2 if float(outputs.sum()) > 99 else 1)

    given = [
        (
            torch.rand(size, 3, 3, generator=torch.Generator().manual_seed(size)),
            torch.tensor([size, size - 1, 2]),
        )
        for size in range(4, 7)
    ]
    same(compute_loss, Encoder(), given)
