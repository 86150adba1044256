"""Packed sequences while a function is traced whose lengths are an input."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from ..comparison import assert_same_as_torch


class Reader(nn.Module):
    def __init__(self, cell, batch_first=True):
        super().__init__()
        self.embedding, self.batch_first = nn.Embedding(9, 4), batch_first
        self.cell = cell(4, 3, batch_first=batch_first, bidirectional=True)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(
            self.embedding(x), lengths.cpu(), batch_first=self.batch_first, enforce_sorted=False
        )
        states, last = self.cell(packed)
        last = last[0] if isinstance(last, tuple) else last
        states, lengths = pad_packed_sequence(
            states, batch_first=self.batch_first, padding_value=-1.0, total_length=7
        )
        return states.square().mean() + last.sum(), states, lengths


def batches(count=4, size=4):
    for number in range(count):
        lengths = (torch.arange(size) * 3 + number) % 4 + 2
        x = torch.randint(1, 9, (size, 5), generator=torch.Generator().manual_seed(number))
        yield x * (torch.arange(5) < lengths[:, None]), lengths


def compute_loss(net, x, lengths):
    return net(x, lengths)


@pytest.mark.parametrize(("cell", "is_compiled"), [(nn.LSTM, True), (nn.GRU, False)])
def test_states_and_lengths_of_packed_sequences(cell, is_compiled: bool) -> None:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        assert_same_as_torch(compute_loss, Reader(cell), batches=list(batches(3)), is_compiled=is_compiled)


def test_steps_ahead_of_sequences() -> None:
    net = Reader(nn.LSTM, batch_first=False)
    given = [(x.t().contiguous(), lengths) for x, lengths in batches(3)]
    assert_same_as_torch(compute_loss, net, batches=given)


def test_elements_of_packed_sequences_are_as_many_as_there_are() -> None:
    class Tagger(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding, self.cell, self.out = (
                nn.Embedding(9, 4),
                nn.LSTM(4, 3, batch_first=True),
                nn.Linear(3, 2),
            )

        def forward(self, x, lengths):
            packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True)
            states = self.cell(packed)[0]
            return PackedSequence(self.out(states.data), states.batch_sizes).data

    def compute_loss(net, x, lengths):
        data = net(x, lengths)
        return data.square().mean() + torch.cat([data, data]).sum()

    given = [(x, lengths.sort(descending=True)[0]) for x, lengths in batches()]
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        assert_same_as_torch(
            compute_loss, Tagger(), batches=given, is_compiled=_is_compiled(compute_loss, Tagger, given)
        )


def _is_compiled(function, make, given):
    from torchax_compat import differentiable

    decorated, net = differentiable(function), make().to("jax")
    for batch in given:
        decorated(net, *(one.to("jax") for one in batch))
    return decorated.compiled_function.is_compiled
