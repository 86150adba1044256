"""Statements that compute the inputs of a loss computation and carry gradients to it."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.training.carriers import carriers
from tpulint.model.training.losses import backward_calls
from tpulint.model.training.regions import Region

Parse = Callable[[str], Module]

HEAD = """
import torch
from torch import nn
from torchax_compat import differentiable
@differentiable
def compute(x): return x
@torch.no_grad()
def predict(x): return x
"""


def found(module: Module) -> list[str]:
    """The statements that carry gradients to the computation of the last loss, with their functions."""
    loss, scope = list(backward_calls(module))[-1]
    steps = module.training_steps
    region = steps.of(loss, scope).region
    assert isinstance(region, Region)
    taken = {id(statement) for statement in region.statements}
    return [
        f"{function.name}: {ast.unparse(statement)}"
        for one, function in carriers(module, steps.learned, region, taken, scope)
        for statement in one.statements
    ]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.out = self.model(x)", ["keep: self.out = self.model(x)"]),
        ("if x is None:\n            self.out = self.model(x)", ["keep: self.out = self.model(x)"]),
        (
            "self.mid = self.model(x)\n        self.out = self.mid.exp()",
            [],  # followed within one function alone
        ),
        (
            "mid = self.model(x)\n        self.out = stft(mid)",
            [],
        ),
        ("self.out: torch.Tensor = self.model(x)", ["keep: self.out: torch.Tensor = self.model(x)"]),
        ("self.out = self.model(x).detach()", []),
        ("self.out = predict(x)", []),
        ("self.out = compute(x)", []),
        ("self.out = x", []),
        ("self.out = torch.optim.Adam(x)", []),
        ("with torch.no_grad():\n            self.out = self.model(x)", []),
        ("out = self.model(x)", []),
        ("self.net = self.model.clone()", []),
    ],
)
def test_another_method_that_writes_an_input(parse: Parse, body: str, expected: list[str]) -> None:
    module = parse(
        f"{HEAD}class T:\n    def keep(self, x):\n        {body}\n"
        "    def step(self, y):\n        loss = self.net(self.out).exp()\n        loss.backward()\n"
    )
    assert expected == found(module)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        # The hidden state of the previous iteration.
        (
            "h = None\nfor x in xs:\n    loss = model(x, h).exp()\n    loss.backward()\n    h = model(x)",
            ["f: h = model(x)"],
        ),
        # A hidden state that is assigned at the start of each iteration.
        (
            "for x in xs:\n    h = x\n    loss = model(x, h).exp()\n    loss.backward()\n    h = stft(h)",
            [],
        ),
        # The graph of an output from before the loop can be used only once.
        ("h = model(xs)\nfor x in xs:\n    loss = model(x, h).exp()\n    loss.backward()", []),
        (
            (
                "out = model(xs)\nspec = stft(out)\nif spec is None:\n"
                "    loss = model(spec).exp()\n    loss.backward()"
            ),
            ["f: spec = stft(out)", "f: out = model(xs)"],
        ),
    ],
)
def test_a_statement_of_the_same_function_that_writes_an_input(
    parse: Parse, body: str, expected: list[str]
) -> None:
    lines = body.replace("\n", "\n    ")
    assert expected == found(parse(f"{HEAD}def f(model, xs, stft):\n    {lines}\n"))


def test_the_input_of_a_script(parse: Parse) -> None:
    module = parse(
        f"{HEAD}model = nn.Linear(2, 2)\nout = model(torch.ones(2))\nfor i in range(3):\n"
        "    loss = model(out).exp()\n    loss.backward()\n"
    )
    assert [] == found(module)
