"""Names that are bound on every way through code, and those that may not be."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.bound import binders, surely_read, surely_written

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1\nself.y = 2", {"x", "self.y"}),
        ("if a:\n    x = 1\nelse:\n    x = 2", {"x"}),
        ("if a:\n    x = 1\nelse:\n    y = 2", set()),
        ("if a:\n    x = 1", set()),
        ("if a:\n    x = 1\nelse:\n    raise E", {"x"}),
        ("for i in r:\n    if a:\n        continue\n    x = 1", set()),
        ("if a:\n    return\nelse:\n    return", set()),
        ("while a:\n    x = 1", set()),
        ("try:\n    x = 1\nexcept E:\n    pass", set()),
        ("match a:\n    case 1:\n        x = 1", set()),
        ("with open(p) as f:\n    x = 1", {"f", "x"}),
        ("with ctx:\n    if a:\n        x = 1", set()),
    ],
)
def test_names_written_on_every_way_through_a_block(text: str, expected: set[str]) -> None:
    assert expected == surely_written(ast.parse(text).body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x * w", {"x", "w"}),
        ("x = 1\ny = x", set()),
        ("y = x if a else b", set()),
        ("y = a and b", set()),
        ("y = [x for x in xs]", set()),
        ("f(x)", {"f", "x"}),
        ("for x in xs:\n    y = x\nz = y + w", {"w"}),
        ("if a:\n    y = x", set()),
        ("y += 1", {"y"} - {"y"}),
    ],
)
def test_names_that_plain_statements_read_in_any_case(text: str, expected: set[str]) -> None:
    assert expected == surely_read(ast.parse(text).body)


@pytest.fixture
def unbound(parse: Parse, find_statement: FindStatement) -> Callable[..., dict[str, str]]:
    """The names that may not be bound at `use(...)`, with the statements that bind them first."""

    def unbound(text: str, *names: str) -> dict[str, str]:
        module = parse(text)
        statement, scope = find_statement(module, "use")
        found = binders(names, statement, scope, module.answers)
        return {name: ast.unparse(binding).partition("\n")[0] for name, binding in found}

    return unbound


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("if a:\n    x = 1\nuse(x)", {"x": "if a:"}),
        ("if a:\n    x = 1\nelse:\n    x = 2\nuse(x)", {}),
        ("x = 1\nuse(x)", {}),
        ("use(x)", {}),
        ("use(x)\nx = 1", {"x": "x = 1"}),
        ("for x in a:\n    use(x)", {}),
        ("for i in a:\n    use(x)\n    x = 1", {"x": "for i in a:"}),
        ("for i in a:\n    x = 1\n    use(x)", {}),
        ("with a as x:\n    use(x)", {}),
        ("with a:\n    if b:\n        x = 1\n    use(x)", {"x": "if b:"}),
        ("if a:\n    if b:\n        x = 1\n    use(x)", {"x": "if b:"}),
        ("try:\n    x = 1\nexcept E:\n    use(x)", {"x": "try:"}),
        ("try:\n    pass\nexcept E as x:\n    use(x)", {}),
        ("if a:\n    pass\nelse:\n    x = 1\n    use(x)", {}),
    ],
)
def test_a_name_that_may_not_be_bound_in_its_function(
    unbound: Callable[..., dict[str, str]], body: str, expected: dict[str, str]
) -> None:
    lines = body.replace("\n", "\n    ")
    assert expected == unbound(f"def f(a, b):\n    {lines}\n", "x")


def test_parameters_and_declared_names_are_bound(unbound: Callable[..., dict[str, str]]) -> None:
    text = (
        "def f(x):\n    global y\n    if x:\n        x = 2\n        y = 1\n        z = 3\n    use(x, y, z)\n"
    )
    assert {"z": "if x:"} == unbound(text, "x", "y", "z")


def test_an_attribute_has_no_binding_of_its_own(unbound: Callable[..., dict[str, str]]) -> None:
    assert {} == unbound("def f(self):\n    if self.a:\n        self.x = 1\n    use(self.x)\n", "self.x")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    x = 1\ndef f():\n    use(x)\n", {"x": "if a:"}),
        ("x = 1\ndef f():\n    use(x)\n", {}),
        ("if __name__ == '__main__':\n    x = 1\ndef f():\n    use(x)\n", {}),
        ("def g(a):\n    if a:\n        x = 1\n    def f():\n        use(x)\n", {"x": "if a:"}),
        ("def g(x):\n    if x:\n        x = 1\n    def f():\n        use(x)\n", {}),
        ("if a:\n    x = 1\ndef f():\n    x = 2\n    use(x)\n", {}),
        ("if a:\n    x = 1\nuse(x)\n", {"x": "if a:"}),
        ("g = lambda x: x\ndef f():\n    use(x)\n", {}),
        ("class A:\n    if a:\n        x = 1\n    use(x)\n", {}),
        ("if a:\n    x = 1\nclass A:\n    use(x)\n", {"x": "if a:"}),
    ],
)
def test_a_name_that_may_not_be_bound_around_its_function(
    unbound: Callable[..., dict[str, str]], text: str, expected: dict[str, str]
) -> None:
    assert expected == unbound(text, "x")
