"""Tensors that a traced function makes on the host, and then writes into what is traced."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# ruff: noqa: N812

from __future__ import annotations

import warnings

import torch
from torch import nn
from torch.nn import functional as F

from ..comparison import assert_same_as_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)
Y = torch.tensor([0, 1, 1, 0])


def same(function, net=None, *, is_compiled=True, steps=3):
    with warnings.catch_warnings():
        warnings.filterwarnings("error" if is_compiled else "ignore", "`.*` runs call by call")
        assert_same_as_torch(
            function, net or nn.Linear(3, 2), X, Y, batches=[()] * steps, is_compiled=is_compiled
        )


def test_targets_that_are_scattered_on_the_host() -> None:
    def compute_loss(net, x, y):
        logs = F.log_softmax(net(x), 1)
        targets = torch.zeros(logs.size()).scatter_(1, y.unsqueeze(1).data.cpu(), 1).to(x.device)
        return (-(0.9 * targets + 0.1 / 3) * logs).mean(0).sum()

    same(compute_loss)


def test_elements_that_are_assigned_on_the_host() -> None:
    def compute_loss(net, x, y):
        chosen = torch.zeros(y.size(0), 2)
        chosen[torch.arange(4), y.cpu()] = 1.0
        weights = torch.ones(4)
        weights.copy_(net(x).detach().cpu().softmax(1).amax(1))
        weights += 1
        return ((net(x) - chosen.to(x.device)).square().sum(1) * weights.to(x.device)).mean(), weights.mean()

    same(compute_loss)


def test_table_of_the_host_that_is_kept_and_given_back() -> None:
    class Net(nn.Linear):
        def forward(self, x):
            out = super().forward(x)
            table = torch.zeros(4, 2)
            self.by_name = {"table": table}
            table[:, 0] = out.detach()[:, 1].cpu()
            table[1] *= 2
            self.kept = table
            return (out - table.to(x.device)).square().mean(), table.sum()

    def compute_loss(net, x, y):
        loss, total = net(x)
        return loss, total, net.kept.sum().item(), net.by_name["table"].shape

    same(compute_loss, Net(3, 2))


def test_view_of_the_host_that_was_taken_first_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x, y):
        out = net(x)
        table = torch.zeros(4, 2)
        first = table[0]
        table[:, 0] = out.detach()[:, 1].cpu()
        return (out - table.to(x.device)).square().mean(), first.sum()

    same(compute_loss, is_compiled=False)


def test_attributes_of_what_was_written_are_those_of_the_device() -> None:
    def compute_loss(net, x, y):
        table = torch.zeros(4, 2)
        table.copy_(net(x).detach().cpu())
        turned = table.T if table.dim() == 2 else table
        return net(x).square().mean(), turned.sum(), table.shape, torch.zeros(table.size()).sum()

    same(compute_loss)


def test_losses_that_are_joined_on_the_host() -> None:
    def compute_loss(net, x, y):
        meter = torch.zeros(2)
        meter[0] = net(x).detach().mean().cpu()
        return net(x).square().mean(), meter.to("cpu"), [meter[0].cpu()]

    same(compute_loss)
