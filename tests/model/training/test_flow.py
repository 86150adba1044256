"""Inputs of statements, and the names that other code reads from them."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.flow import around, handed_on, taken_in

Parse = Callable[[str], Module]
FindFunction = Callable[[Module, str], Scope]


def body(scope: Scope) -> list[ast.stmt]:
    assert isinstance(scope.node, ast.FunctionDef)
    return scope.node.body


@pytest.fixture
def inputs(parse: Parse, find_function: FindFunction) -> Callable[..., list[str]]:
    """The names that the body of `f` takes in."""

    def inputs(text: str, head: str = "") -> list[str]:
        lines = text.replace("\n", "\n    ")
        module = parse(f"{head}\ndef f(self, x, y, xs):\n    {lines}\n")
        scope = find_function(module, "f")
        return list(taken_in(module, body(scope), scope))

    return inputs


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out = x + y", ["x", "y"]),
        ("out = y + x", ["y", "x"]),
        ("out = x\nloss = out + y", ["x", "y"]),
        ("x = x + 1\nout = x", ["x"]),
        ("out = self.net(x)", ["self.net", "x"]),
        ("x[0] = 1", ["x"]),
        ("xs.append(1)", ["xs"]),
        ("x += 1", ["x"]),
        ("for a in xs:\n    out = a + y", ["xs", "y"]),
        ("for a in xs:\n    out = a\n    b = out", ["xs"]),
        ("if x:\n    out = y\nelse:\n    out = xs", ["x", "y", "xs"]),
        ("if x:\n    out = 1\nloss = out", ["x"]),
        ("if x:\n    out = y\n    z = out", ["x", "y"]),
        ("with x as g:\n    out = g + y", ["x", "y"]),
        ("out = [a + x for a in xs]", ["x", "xs"]),
        ("out = lambda a: a + x", ["x"]),
        ("while x:\n    y = x\n    z = y", ["x"]),
        ("while x:\n    z = y\n    y = x", ["x", "y"]),
        ("for a in xs:\n    with x:\n        out = a\n    y = y + out", ["xs", "x", "y"]),
        ("for a in xs:\n    if x:\n        o = a\n    else:\n        o = y\n    b = o", ["xs", "x", "y"]),
        ("for a in xs:\n    if x:\n        out = a\n    b = out", ["xs", "x", "out"]),
        ("for a in xs:\n    b = a\nelse:\n    out = y", ["xs", "y"]),
    ],
)
def test_names_read_before_they_are_written(
    inputs: Callable[..., list[str]], text: str, expected: list[str]
) -> None:
    assert expected == inputs(text)


@pytest.mark.parametrize(
    ("head", "expected"),
    [
        ("import torch as g", []),
        ("def g(): pass", []),
        ("class g: pass", []),
        ("g = 3", []),
        ("g = build()", ["g"]),
        ("g = 3\ng = 4", ["g"]),
        ("", ["g"]),
        ("from other import *", []),
    ],
)
def test_a_name_with_one_meaning_in_the_whole_file_is_no_input(
    inputs: Callable[..., list[str]], head: str, expected: list[str]
) -> None:
    assert expected == inputs("out = g", head)


def test_constants_and_builtins_are_no_inputs(inputs: Callable[..., list[str]]) -> None:
    assert ["x"] == inputs("out = len(x) * SCALE", "SCALE = compute()")
    assert ["LR"] == inputs("out = LR", "LR = compute()")


@pytest.fixture
def outputs(parse: Parse, find_function: FindFunction) -> Callable[..., list[str]]:
    """The names that statements of `f` between `start()` and `end()` give to other code."""

    def outputs(text: str, *wanted: str) -> list[str]:
        lines = text.replace("\n", "\n    ")
        module = parse(f"def f(self, x):\n    {lines}\n")
        scope = find_function(module, "f")
        statements = body(scope)
        end = next(i for i, one in enumerate(statements) if ast.unparse(one) == "end()")
        return list(handed_on(module, statements[:end], set(wanted), scope))

    return outputs


@pytest.mark.parametrize(
    ("text", "wanted", "expected"),
    [
        ("a = x\nb = a\nend()\nuse(b)", [], ["b"]),
        ("a = x\nb = a\nend()\nuse(a)", ["b"], ["a", "b"]),
        ("b = x\na = x\nend()\nuse(a, b)", [], ["b", "a"]),
        ("a = x\nend()", [], []),
        ("self.loss = x\nend()", [], ["self.loss"]),
        ("x.add_(1)\nend()\nuse(x)", [], ["x"]),
        ("self.add_(1)\nend()\nuse(self)", [], []),
        ("a = x\nend()\ng = lambda a: a", [], []),
        ("a = x\nend()\ng = lambda b: a", [], ["a"]),
        ("a = x\nend()\ndef g():\n    a = 1\n    return a", [], []),
        ("a = x\nend()\ng = [a for a in x]", [], ["a"]),
        ("global a\na = x\nend()", [], ["a"]),
        ("a = x\nend()\na = 2", [], []),
    ],
)
def test_names_that_other_code_may_read(
    outputs: Callable[..., list[str]], text: str, wanted: list[str], expected: list[str]
) -> None:
    assert expected == outputs(text, *wanted)


def test_the_function_or_the_file_around_a_scope(parse: Parse, find_function: FindFunction) -> None:
    module = parse("class A:\n    def f(self, xs):\n        return [x for x in xs]\n")
    method = find_function(module, "A.f")
    assert method.node is around(method.children[0])
    assert module.source.tree is around(module.index.classes[0])
