"""What Python asks of tensors while a function is traced: branches, sizes and counts."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: ARG004, FBT003, N812

from __future__ import annotations

import warnings
from array import array

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torchax_compat import differentiable
from torchax_compat.jit import concrete_values

from ..comparison import assert_equal, assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)


def same(function, net, batches, *, is_compiled=True):
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore" if not is_compiled else "error", "`.*` runs call by call")
        return assert_same_as_torch(function, net, batches=batches, is_compiled=is_compiled)


def test_branches_by_the_truth_of_tensors() -> None:
    def compute_loss(net, x):
        hidden = net(x)
        if torch.isnan(hidden).any() or not torch.isfinite(hidden).all():
            raise ValueError
        rounds = 0
        while hidden.abs().max() > 2.0:
            hidden = hidden * 0.5
            rounds += 1
        return hidden.square().mean() * (1.5 if hidden.sum() > 0 else 1.0), rounds

    batches = [(X * (4.0 if step % 4 > 2 else 1.0),) for step in range(9)]
    same(compute_loss, nn.Linear(3, 2), batches)


def test_buffer_that_says_whether_a_module_has_started() -> None:
    class Normed(nn.Module):
        def __init__(self):
            super().__init__()
            self.loc = nn.Parameter(torch.zeros(1, 3))
            self.register_buffer("started", torch.tensor(0, dtype=torch.uint8))

        def forward(self, x):
            if self.started.item() == 0:
                with torch.no_grad():
                    self.loc.data.copy_(-x.mean(0, keepdim=True))
                    self.started.fill_(1)
            return x + self.loc

    same(lambda net, x: net(x).square().sum(), Normed(), [(X,)] * 4)


def test_part_of_a_buffer_that_counts() -> None:
    class Counting(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.register_buffer("counts", torch.zeros(2, dtype=torch.long))

        def forward(self, x):
            self.counts[0] += 1
            return super().forward(x) * (2 if int(self.counts[0]) > 3 else 1)

    same(lambda net, x: net(x).square().sum(), Counting(), [(X,)] * 6)


@pytest.mark.parametrize("keys", ["hidden", "detached"])
def test_place_in_a_queue_that_moves_on_at_each_call_is_compiled_once(keys: str) -> None:
    traced = array("q")  # which is not watched

    class Queue(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.register_buffer("queue", torch.zeros(8, 2))
            self.register_buffer("place", torch.zeros(1, dtype=torch.long))

        def forward(self, x):
            traced.append(len(x))
            hidden = self.layer(x)
            place = int(self.place)
            with torch.no_grad():
                self.queue[place : place + 2] = hidden if keys == "hidden" else hidden.detach()
            self.place[0] = (place + 2) % 8
            return (hidden @ self.queue.detach().t()).sum()

    model = Queue().to("jax")
    compute_loss = differentiable(lambda model, x: model(x))
    for step in range(12):
        compute_loss(model, torch.ones(2, 3).to("jax"))
        if step == 4:
            del traced[:]
    assert compute_loss.compiled_function.is_compiled and [] == list(traced)
    assert 0 == model.place.item() and not (model.queue == 0).any()


def test_size_that_is_read_and_stays_the_same_is_a_constant() -> None:
    model = nn.Linear(3, 4).to("jax")

    @differentiable
    def compute_loss(x, graph):
        hidden = model(x)
        count = int(graph.max().item() + 1)
        pooled = hidden.new_zeros((count, *hidden.shape[1:])).index_add_(0, graph, hidden)
        return (pooled**2).mean(), hidden.argmax(1).eq(graph).sum().item()

    graph = torch.tensor([0, 0, 1, 2, 2]).to("jax")
    for step in range(5):
        compute_loss(torch.full((5, 3), step / 4).to("jax"), graph)[0].backward()
    assert compute_loss.compiled_function.is_compiled
    loss, _ = compute_loss(torch.ones(5, 3, device="jax"), graph + 1)
    hidden = model(torch.ones(1, 3, device="jax"))
    assert_equal((hidden**2).mean() * (4 + 1 + 4) / 4, loss)


def test_size_that_is_another_each_time_is_no_longer_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(concrete_values, "MOST_MISSES", 4)
    model = nn.Linear(3, 4).to("jax")

    @differentiable
    def compute_loss(x, graph):
        hidden = model(x)
        count = int(graph.max().item() + 1)
        return (hidden.new_zeros((count, 4)).index_add_(0, graph, hidden) ** 2).mean()

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for step in range(20):
            graph = torch.tensor([0, 1, 2 + step]).to("jax")
            compute_loss(torch.ones(3, 3, device="jax"), graph).backward()
            if not compute_loss.compiled_function.is_compiled:
                break
    assert 6 == step
    assert any("sizes that are read from tensors, keep changing" in str(one.message) for one in caught)


def test_numbers_of_elements_of_masks_are_asked() -> None:
    def compute_loss(net, x, mask):
        out = net(x)
        filled = torch.zeros(4, 2, device=x.device)
        filled[mask] = out[mask] * 2
        rows = mask.nonzero(as_tuple=True)[0]
        picked = torch.masked_select(out, mask.unsqueeze(1))
        return out[mask].square().mean() + filled[rows].sum() + picked.mean()

    steady = [(X, torch.arange(4) % 2 == i % 2) for i in (0, 0, 0, 1, 1, 1, 0)]
    same(compute_loss, nn.Linear(3, 2), steady)


def test_lengths_that_are_copied_to_the_host_are_asked_there() -> None:
    def compute_loss(net, x, lengths):
        lengths = lengths.cpu().int() // 2
        x = net(x)
        mask = torch.zeros(x.shape, dtype=torch.bool, device=x.device)
        for row, length in enumerate(lengths):
            length = length.item()
            if mask.shape[1] - length > 0:
                mask[row].narrow(0, length, mask.shape[1] - length).fill_(True)
        x = x.masked_fill(mask, 0)
        return (x if bool((x < 0).any()) else 2 * x).square().mean()

    lengths = ((9, 5, 3), (9, 5, 3), (12, 7, 2), (12, 7, 2), (4, 3, 2))
    same(compute_loss, nn.Linear(6, 6), [(torch.rand(3, 6) - 0.2, torch.tensor(one)) for one in lengths])


def test_index_of_a_tensor_by_another_one() -> None:
    def compute_loss(net, x, k):
        names = ["a", "b", "c"]
        return net(x)[:, k.item() % 2].sum(), names[k]

    same(compute_loss, nn.Linear(3, 2), [(X, torch.tensor(k)) for k in (0, 0, 0)])


def test_question_within_a_custom_gradient_lets_calls_be_compiled_one_by_one() -> None:
    class Clipped(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * (2 if x.sum() > 0 else 3)

        @staticmethod
        def backward(ctx, grad):
            return grad * 2

    same(lambda net, x: Clipped.apply(net(x)).sum(), nn.Linear(3, 2), [(X,)] * 4)


def test_answers_of_one_shape_are_tried_with_another() -> None:
    def compute_loss(net, x):
        hidden = net(x)
        return (hidden * 2 if hidden.square().sum() >= 0 else hidden).sum()

    decorated = same(compute_loss, nn.Linear(3, 2), [(torch.ones(size, 3),) for size in (2, 3, 4, 5)])
    assert any(answers.hits for answers in decorated.compiled_function.told.values())


def test_answers_that_do_not_fit_another_shape_are_learned_anew() -> None:
    def compute_loss(net, x):
        hidden = net(x)
        if len(x) > 2 and hidden.sum() > 1000:
            hidden = hidden * 2
        return hidden.sum() * (2 if hidden.square().sum() > 0 else 1)

    same(compute_loss, nn.Linear(3, 2), [(torch.ones(size, 3),) for size in (2, 2, 3, 3, 4, 2)])


def test_comparison_of_a_number_by_its_length_is_another_question() -> None:
    def compute_loss(net, x, limit):
        hidden = net(x)
        value = hidden.square().mean().item()
        if value > limit:
            return hidden.sum()
        return hidden.sum() * (3 if (hidden > 0).any() else 2)

    same(compute_loss, nn.Linear(3, 2), [(X, limit) for limit in (0.0, 0.0, 99.0, 99.0, 0.0, 99.0)])


def test_plain_conversions_outside_of_decorated_functions() -> None:
    one = torch.tensor([2.5]).to("jax")
    table = torch.arange(4).to("jax")
    assert (2, 2.5, True, 3) == (int(one), float(one), bool(one), [0, 1, 2, 3][table[3]])
    assert 1 == table[1].item()
    with pytest.raises((RuntimeError, ValueError)):
        bool(table)


def test_integer_of_a_tensor_of_floats_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        loss = net(x).square().mean()
        return loss * [1.0, 2.0][int(loss > 99)] * len("a" * (1 + loss.__int__() // 100))

    same(compute_loss, nn.Linear(3, 2), [(X,)] * 3, is_compiled=False)


def test_queue_that_is_cut_where_a_number_says() -> None:
    class Bank(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 2)
            self.register_buffer("queue", torch.arange(12.0).reshape(6, 2) / 12)
            self.register_buffer("place", torch.zeros(1, dtype=torch.long))
            self.register_buffer("is_full", torch.zeros((), dtype=torch.long))

        def forward(self, x):
            keys = F.normalize(self.layer(x), dim=1)
            place = self.place.item()
            queue = self.queue.clone()
            if int(self.is_full):
                queue = torch.cat([self.queue[place:], self.queue[:place]])
            scores = keys @ queue.t()
            with torch.no_grad():
                self.queue[place : place + 2] = keys.detach()
                if place + 2 >= 6:
                    self.is_full.fill_(1)
                self.place.fill_((place + 2) % 6)
            return scores.logsumexp(1).sum()

    same(lambda net, x: net(x), Bank(), [(torch.rand(2, 3),) for _ in range(7)])


def test_question_of_another_type_is_another_question() -> None:
    def compute_loss(net, x, way):
        hidden = net(x)
        if way.sum() > 0:
            return hidden.sum() * (2 if hidden.square().sum() > 0 else 1)
        return hidden[hidden > -99].sum() + hidden[x[:, 0] > -99].sum()

    batches = [(X, torch.tensor([k])) for k in (1, 1, 0, 0, 1, 0)]
    same(compute_loss, nn.Linear(3, 2), batches)


def test_questions_of_tensors_that_are_not_traced_are_answered() -> None:
    def compute_loss(net, x):
        steps = torch.arange(3)
        factor = 2.0 if bool(steps.sum() > 2) and steps[1].item() == 1 else 1.0
        there = torch.ones(2, device=x.device)
        return net(x).sum() * factor * float(there.sum()) * there[0].item() * (3 if there.sum() > 1 else 4)

    same(compute_loss, nn.Linear(3, 2), [(X,)] * 3)


def test_number_that_is_asked_of_a_view_of_a_buffer() -> None:
    class Steps(nn.Linear):
        def __init__(self):
            super().__init__(3, 2)
            self.register_buffer("counts", torch.zeros(2, 2, dtype=torch.long))

        def forward(self, x):
            with torch.no_grad():
                self.counts[1][0] += 1
            return (
                super().forward(x) * (1 + (int(self.counts[1, 0]) > 2)) * (2 if float(x.sum()) > -99 else 1)
            )

    same(lambda net, x: net(x).sum(), Steps(), [(X,)] * 5)


def test_answers_are_borrowed_only_where_there_are_some() -> None:
    answers = concrete_values.Answers()
    assert answers.borrowed() is None
    answers.keep((True,), [], [])
    borrowed = answers.borrowed()
    assert (True,) == borrowed.fitting() and borrowed.is_borrowed
