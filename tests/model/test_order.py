"""What the model believes does not depend on which function it is asked about first."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from tpulint.engine.run import as_units
from tpulint.model.module import Module
from tpulint.model.tracing.reach import link
from tpulint.model.values.kinds import Kind
from tpulint.source import Source

#: Functions that tell each other what they know, in circles and through what they keep.
CIRCLES = """
import torch
from torch import nn


class Scheduler(nn.Module):
    def __init__(self, steps):
        super().__init__()
        self.steps = torch.arange(steps)
        self.index = None

    def reset(self, device):
        self.steps = self.times(self.steps).to(device)
        self.ndim = self.steps.dim()

    def times(self, steps):
        return self.scaled(steps, self.ndim)

    def scaled(self, value, by):
        return value * by if self.index is None else self.steps + value

    def forward(self, x, t):
        self.index = self.scaled(x.mean(), 2)

        def mixed(a, b):
            return a * b + self.steps

        return either(mixed(x, t), self.times(x))


def either(x, y):
    return x if x.sum() > 0 else again(y, 3)


def again(x, depth):
    return either(x, x) if depth else x


class Layer(nn.Module):
    def with_position(self, tensor, position: torch.Tensor | None):
        return tensor if position is None else tensor + position

    def after(self, x, position: torch.Tensor | None = None):
        q = k = self.with_position(x, position)
        return self.attention(q, k, value=x)[0]

    def before(self, x, position: torch.Tensor | None = None):
        y = self.norm(x)
        q = k = self.with_position(y, position)
        return x + self.attention(q, k, value=y)[0]

    def forward(self, x, position: torch.Tensor | None = None):
        return self.before(x, position) if self.first else self.after(x, position)


class Sampler:
    def __init__(self, steps):
        self.sigmas = torch.linspace(0, 1, steps)

    def set_steps(self, count):
        shifted = self.shifted(count)
        if self.sigmas is not None:
            shifted = shifted / self.sigmas
        self.sigmas = torch.cat([shifted, self.sigmas])

    def shifted(self, count):
        return (1 - self.sigmas) / self.sigmas * count


model = Scheduler(10)
out = model(torch.rand(3), torch.ones(3))
"""
TEXTS = {
    "circles": CIRCLES,
    **{path.stem: path.read_text() for path in sorted((Path(__file__).parent / "data").glob("*.txt"))},
}


def believed(module: Module, seed: int | None) -> list[dict[int, Kind]]:
    """The kinds of all expressions of traced functions, when asked in the file's order or in another."""
    module.enter(link([module.facts()]))
    scopes = [scope for scope in module.index.functions if module.trace_path(scope) is not None]
    shuffled = [module.index.module, *module.index.functions]
    if seed is None:
        shuffled.reverse()
    else:
        random.Random(seed).shuffle(shuffled)
    for scope in shuffled:
        module.flow(scope)
    flows = [module.flow(scope) for scope in scopes]
    return [dict(flow.kinds) if flow is not None else {} for flow in flows]


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_inferred_types_do_not_depend_on_the_order_of_queries(text: str) -> None:
    (unit,) = as_units({"package/module.py": text.encode()}).values()
    module = Module(Source.decode(unit.path, unit.data), unit.module_path)
    assert all(believed(module, None) == believed(module, seed) for seed in range(4))
