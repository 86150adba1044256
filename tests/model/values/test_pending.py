"""Tensors that a function has begun to compute and not waited for."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.pending import pending, statements

Parse = Callable[[str], Module]
FindFunction = Callable[[Module, str], Scope]


def waits(statement: ast.stmt) -> bool:
    return ast.unparse(statement).startswith("wait")


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = x + 1\nend()", ["y"]),
        ("y = x + 1\nz = y * 2\nend()", ["y", "z"]),
        ("y = x + 1\nwait()\nz = y * 2\nend()", ["z"]),
        ("end()\ny = x + 1", []),
        ("y: torch.Tensor = x + 1\nend()", ["y"]),
        ("y: torch.Tensor\nend()", []),
        ("x *= x\nend()", ["x"]),
        ("a, (b, c) = model(x)\nend()", ["a", "b", "c"]),
        ("for i in range(3):\n    y = x + i\nend()", ["y"]),
        ("try:\n    pass\nfinally:\n    y = x + 1\nend()", ["y"]),
        ("def g():\n    y = x + 1\nend()", []),
        ("self.y = x + 1\nend()", []),
        ("y = model(x)\nend()", ["y"]),
        ("y = model @ x\nend()", ["y"]),
        ("y = model + n\nend()", []),
        ("y = x.item()\nend()", []),
        ("y = model.item()\nend()", []),
        ("y = model.forward(x)\nend()", ["y"]),
        ("y = torch.load('a')\nend()", []),
        ("y = torch.compile(x)\nend()", ["y"]),
        ("y = helper(x)\nend()", ["y"]),
        ("y = time.time()\nend()", []),
        ("y = models[0](x)\nend()", []),
        ("y = 3\nend()", []),
        ("y = model(x)\ny.save()\nend()", []),
        ("y = model(x)\ny()\nend()", []),
        ("y = model(x)\ny.sum()\nend()", ["y"]),
        ("y = [x, x]\nend()", []),
    ],
)
def test_names_that_get_a_tensor_since_the_last_wait(
    parse: Parse, find_function: FindFunction, body: str, expected: list[str]
) -> None:
    lines = body.replace("\n", "\n    ")
    module = parse(
        "import time\nimport torch\ndef helper(x): return load(x)\n"
        f"def f(self, x: torch.Tensor, model, models, n: int):\n    {lines}\n"
    )
    scope = find_function(module, "f")
    assert isinstance(scope.node, ast.FunctionDef)
    end = next(one for one in scope.node.body if ast.unparse(one) == "end()")
    assert expected == pending(module, scope.node.body, end, scope, waits)


def test_names_of_a_script(parse: Parse) -> None:
    module = parse("import torch\ny = model(1)\nz = model(2)\nz.save()\nend()\n")
    body = module.source.tree.body
    assert ["y"] == pending(module, body, body[-1], module.index.module, waits)


def test_statements_in_the_order_of_the_text_without_those_of_inner_functions() -> None:
    text = (
        "a = 1\nif a:\n    b = 2\nelse:\n    c = 3\ndef f():\n"
        "    d = 4\nclass A:\n    e = 5\nwhile a:\n    g = 6\n"
    )
    found = [ast.unparse(one).partition("\n")[0] for one in statements(ast.parse(text).body)]
    assert ["a = 1", "if a:", "b = 2", "c = 3", "def f():", "class A:", "while a:", "g = 6"] == found
