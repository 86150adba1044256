"""Generators of random numbers that statements draw from."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.drawing import draws, may_draw
from tpulint.model.training.learned import Learned

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]

HEAD = """
import random
import numpy as np
import torch
from torch import nn
from torch.nn import functional as F
class Block(nn.Module):
    def __init__(self):
        self.drop = nn.Dropout(0.1)
    def forward(self, x):
        return self.drop(x)
class Net(nn.Module):
    def __init__(self):
        self.blocks = nn.ModuleList([Block() for _ in range(3)])
    def forward(self, x):
        return x
class Plain(nn.Module):
    def forward(self, x):
        return x * random.random()
    def sample(self, x):
        return torch.rand_like(x)
def noise(x):
    return add(x)
def add(x):
    return noise(x) + torch.randn(3)
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch.randn(3)", {"torch"}),
        ("torch.randn(3, generator=g)", set()),
        ("F.dropout(x)", {"torch"}),
        ("x.normal_()", {"torch"}),
        ("dist.rsample()", {"torch"}),
        ("dist.sample()", set()),
        ("random.random()", {"random"}),
        ("np.random.rand(3)", {"numpy.random"}),
        ("random.choice([torch.rand(1)])", {"random", "torch"}),
        ("nn.LSTM(3, 3)(x)", {"torch"}),
        ("nn.Linear(3, 3)(x)", set()),
        ("Net()(x)", {"torch"}),
        ("Plain()(x)", {"random"}),
        ("Plain().sample(x)", {"torch"}),
        ("noise(x)", {"torch"}),
        ("unknown(x)", set()),
        ("x.sum()", set()),
    ],
)
def test_generators_that_a_statement_draws_from(
    parse: Parse, find_statement: FindStatement, value: str, expected: set[str]
) -> None:
    module = parse(f"{HEAD}def f(x, g, dist):\n    y = {value}\n")
    statement, scope = find_statement(module, "y = ")
    assert expected == draws(module, [statement], scope)


def test_a_module_that_a_caller_passes(parse: Parse, find_statement: FindStatement) -> None:
    module = parse(f"{HEAD}def f(net, x):\n    y = net(x)\ndef main(x):\n    f(Net(), x)\n")
    statement, scope = find_statement(module, "y = ")
    assert {"torch"} == draws(module, [statement], scope)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("model(x)", {"torch"}),  # whatever it is
        ("linear(x)", set()),
        ("plain(x)", {"random"}),
        ("other(x)", {"torch"}),  # another file says what it computes
        ("x.sum()", set()),
    ],
)
def test_a_module_of_an_unknown_class_may_draw(
    parse_project: ParseProject, find_statement: FindStatement, value: str, expected: set[str]
) -> None:
    text = (
        f"from nets import Other\n{HEAD}def f(model, x):\n    linear = nn.Linear(3, 3)\n    plain = Plain()\n"
        f"    other = Other()\n    y = {value}\n"
    )
    nets = "from torch import nn\nclass Other(nn.Module):\n    def forward(self, x): return x\n"
    module = parse_project({"nets.py": nets, "app.py": text})["app.py"]
    statement, scope = find_statement(module, "y = ")
    assert expected == may_draw(module, Learned(module), [statement], scope)
