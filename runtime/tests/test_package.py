"""The names that programs import, and the effect of the runtime on logging."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import logging

import pytest
import torch
import torchax_compat
from torch import nn
from torchax_compat import compile_optimizer, compile_update, differentiable


def test_names_that_programs_import() -> None:
    assert {*torchax_compat.__all__} <= {*dir(torchax_compat)}
    assert all(hasattr(torchax_compat, name) for name in torchax_compat.__all__)
    assert not hasattr(torchax_compat, "no_such_name")


def test_optimizers_and_updates_are_compiled() -> None:
    net = nn.Linear(2, 1).to("jax")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    assert compile_optimizer(optimizer) is optimizer

    @compile_update
    def double(net):
        for p in net.parameters():
            p.mul_(2)

    before = net.weight.detach().clone()
    double(net)
    assert torch.allclose(2 * before, net.weight.detach())


def test_program_that_logs_all_libraries_logs_no_compilation_of_jax(monkeypatch: pytest.MonkeyPatch) -> None:
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    assert logging.WARNING == logging.getLogger("jax").level
    monkeypatch.setattr(logging.root, "handlers", [Kept()])
    monkeypatch.setattr(logging.root, "level", logging.DEBUG)
    net = nn.Linear(3, 7).to("jax")
    differentiable(lambda net, x: net(x).sum())(net, torch.ones(5, 3).to("jax")).backward()
    logging.debug("of the program")
    assert ["of the program"] == [record.getMessage() for record in records]
