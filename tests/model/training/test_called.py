"""The function of a file that a call means, and its decorators."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.knowledge.runtime import HIGHER_ORDER
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.called import is_decorated, is_differentiated, own_function

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]
FindFunction = Callable[[Module, str], Scope]


@pytest.mark.parametrize(
    ("text", "callee", "expected"),
    [
        ("def g(): pass\ndef f():\n    g()\n", "g", "g"),
        ("def f():\n    def g(): pass\n    g()\n", "g", "f.g"),
        ("def g(): pass\ndef f(g):\n    g()\n", "g", None),
        ("def g(): pass\ng = wrap(g)\ndef f():\n    g()\n", "g", None),
        ("from other import g\ndef f():\n    g()\n", "g", None),
        ("def f():\n    g()\n", "g", None),
        ("class A:\n    def g(self): pass\n    def f(self):\n        self.g()\n", "self.g", "A.g"),
        (
            "class B:\n    def g(self): pass\nclass A(B):\n    def f(self):\n        self.g()\n",
            "self.g",
            "B.g",
        ),
        ("class A:\n    def f(self):\n        self.g()\n", "self.g", None),
        ("def f(self):\n    self.g()\n", "self.g", None),
        ("class A:\n    def g(self): pass\ndef f(a):\n    a.g()\n", "a.g", None),
        ("def f(fs):\n    fs[0]()\n", "fs[0]", None),
    ],
)
def test_the_function_that_a_call_means(
    parse: Parse, find: Find, text: str, callee: str, expected: str | None
) -> None:
    module = parse(text)
    found = own_function(module, *find(module, callee, -1))
    assert expected == (found.qualname if found is not None else None)


@pytest.mark.parametrize(
    ("decorator", "expected"),
    [
        ("@differentiable", True),
        ("@differentiable(compiled=False)", True),
        ("@torchax_compat.differentiable", True),
        ("@pkg.torchax_compat.differentiable", True),
        ("@torchax_training.differentiable", True),
        ("@pkg.torchax_training.differentiable", True),
        ("@torch.no_grad()\n@differentiable", True),
        ("@torchax_compat.higher_order", False),
        ("@torchax_training.recorded", False),
        ("@other.differentiable", False),
        ("", False),
    ],
)
def test_a_function_that_jax_differentiates(
    parse: Parse, find_function: FindFunction, decorator: str, expected: bool
) -> None:
    head = "import torch, torchax_compat, pkg.torchax_compat, torchax_training, pkg.torchax_training, other\n"
    head += "from torchax_compat import differentiable\n"
    module = parse(f"{head}{decorator}\ndef loss(x): return x\n")
    function = find_function(module, "loss")
    assert expected == is_differentiated(module, function)
    is_recorded = "recorded" in decorator or "higher_order" in decorator
    assert is_recorded == is_decorated(module, function, HIGHER_ORDER)
