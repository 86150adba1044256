"""Modules that `torchax.compile` compiles keep what they write to their buffers."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls, allow-subclassing-any

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchax
from torch import nn

from ..comparison import assert_equal, plain_torch


class Cached(nn.Module):
    """Writes to elements of a buffer that is not saved."""

    def __init__(self):
        super().__init__()
        self.register_buffer("kept", torch.zeros(4, 2), persistent=False)

    def forward(self, x, at):
        self.kept[at] = x
        return self.kept.sum(0)


class Counting(nn.Module):
    """Assigns buffers anew, of modules within it, too."""

    def __init__(self):
        super().__init__()
        self.cached, self.lin = Cached(), nn.Linear(2, 2)
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.register_buffer("average", torch.zeros(2))

    def forward(self, x, at):
        self.steps += 1
        self.average: Any = self.average * 0.5 + x.mean(0)
        made = self.lin(self.cached(x, at))
        self.cached.kept.view(-1)[0].add_(1)
        return made * self.average / self.steps


class Normalised(nn.Module):
    """Updates running statistics."""

    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(2)

    def forward(self, x, at):
        return self.norm(torch.cat([x, x * 2, x - at]))


class Key(nn.Module):
    """Grows a window of keys, as a cache of attention does, by a method of its own."""

    def __init__(self):
        super().__init__()
        self.register_buffer("keys", torch.zeros(4, 2))

    def forward(self, x, at):
        self.keys.copy_(torch.roll(self.keys, -1, 0))
        self.keys[-1:].copy_(x + at)
        return self.keys.cumsum(0)[-1]

    def cleared(self, x):
        self.keys.zero_()
        return x + self.keys.sum()


@pytest.mark.parametrize("kind", [Cached, Counting, Normalised, Key])
def test_buffers_persist_from_call_to_call(kind: Callable[[], nn.Module]) -> None:
    module = kind()

    def run(module: Any, device: str) -> Any:
        seen = []
        with torch.no_grad():
            for i in range(4):
                x, at = torch.full((1, 2), i + 1.0), torch.tensor([i])
                seen.append(module(x.to(device), at.to(device)).cpu())
        return seen

    with plain_torch():
        plain = copy.deepcopy(module)
        due = run(plain, "cpu")
        expected = dict(plain.named_buffers())
    moved = module.to("jax")
    compiled = torchax.compile(moved)
    assert_equal(due, run(compiled, "jax"))
    found = {name: buffer.cpu() for name, buffer in moved.named_buffers()}
    assert_equal({k: v.float() for k, v in expected.items()}, {k: v.float() for k, v in found.items()})


def test_methods_that_are_compiled_keep_buffers() -> None:
    module = Key().to("jax")
    options = torchax.CompileOptions(methods_to_compile=["forward", "cleared"])
    compiled = torchax.compile(module, options)
    with torch.no_grad():
        compiled(torch.ones(1, 2, device="jax"), torch.tensor([0], device="jax"))
        assert 2.0 == module.keys.sum().item()
        compiled.cleared(torch.ones(1, device="jax"))
    assert 0.0 == module.keys.sum().item()
