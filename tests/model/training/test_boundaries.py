"""Where gradients are used, asked for and not taken."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.boundaries import (
    asks,
    blocks_around,
    is_boundary,
    is_without_gradient,
    keeps_graph,
)

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss.backward(retain_graph=True)", True),
        ("loss.backward(create_graph=True)", True),
        ("loss.backward()", False),
        ("loss.backward(gradient=g)", False),
        ("x = loss.backward(retain_graph=True)", False),
        ("backward(loss, retain_graph=True)", False),
        ("loss.sum()", False),
    ],
)
def test_a_backward_that_keeps_the_graph(text: str, expected: bool) -> None:
    assert expected == keeps_graph(ast.parse(text).body[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss.backward()", True),
        ("optimizer.step()", True),
        ("self.opt_G.step()", True),
        ("scaler.step(optimizer)", True),
        ("if i % 4 == 0:\n    optimizer.step()", True),
        ("for loss in losses:\n    loss.backward()", True),
        ("env.step(action)", False),
        ("scheduler.step()", False),
        ("optimizer.zero_grad()", False),
        ("backward(loss)", False),
    ],
)
def test_a_statement_that_uses_gradients(text: str, expected: bool) -> None:
    assert expected == is_boundary(ast.parse(text).body[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ndef f(y, x):\n    g = torch.autograd.grad(y, x)\n", True),
        ("from torch.autograd import grad\ndef f(y, x):\n    g = grad(y, x)\n", True),
        (
            (
                "import torch\ndef penalty(y, x): return torch.autograd.grad(y, x)\n"
                "def f(y, x):\n    g = penalty(y, x)\n"
            ),
            True,
        ),
        ("import torch\ndef other(y, x): return torch.autograd.grad(y, x)\ndef f():\n    g = 1\n", False),
        ("import jax\ndef f(y, x):\n    g = jax.grad(y)\n", False),
        ("def f(y):\n    g = y.sum()\n", False),
    ],
)
def test_statements_that_ask_for_gradients(
    parse: Parse, find_statement: FindStatement, text: str, expected: bool
) -> None:
    module = parse(text)
    statement, scope = find_statement(module, "g = ")
    assert expected == asks(module, [statement], scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("with torch.no_grad():\n    y = net(x)\n", True),
        ("with torch.inference_mode(), open(p):\n    if a:\n        y = net(x)\n", True),
        ("@torch.no_grad()\ndef f(x):\n    y = net(x)\n", True),
        ("@torch.no_grad\ndef f(x):\n    y = net(x)\n", True),
        ("with torch.enable_grad():\n    y = net(x)\n", False),
        ("with torch.no_grad():\n    z = 1\ny = net(x)\n", False),
        ("y = net(x)\n", False),
    ],
)
def test_a_statement_without_gradients(
    parse: Parse, find_statement: FindStatement, text: str, expected: bool
) -> None:
    module = parse(f"import torch\n{text}")
    assert expected == is_without_gradient(module, *find_statement(module, "y = "))


def test_blocks_around_a_statement_end_with_its_function(parse: Parse, find_statement: FindStatement) -> None:
    module = parse(
        "a = 1\ndef f():\n    b = 2\n    try:\n        c = 3\n    except E:\n        d = 4\n        e = 5\n"
    )
    statement, _ = find_statement(module, "e = 5")
    found = [(len(block), index) for block, index in blocks_around(module, statement)]
    assert [(2, 1), (1, 0), (2, 1)] == found


@pytest.mark.parametrize("header", ["else", "finally"])
def test_blocks_of_else_and_finally_are_around_a_statement(
    parse: Parse, find_statement: FindStatement, header: str
) -> None:
    module = parse(f"try:\n    a = 1\nexcept E:\n    b = 2\n{header}:\n    c = 3\n    d = 4\n")
    statement, _ = find_statement(module, "d = 4")
    assert [(2, 1), (1, 0)] == [(len(block), index) for block, index in blocks_around(module, statement)]
