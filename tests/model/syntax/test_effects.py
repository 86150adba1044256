"""Names and attributes of `self` that statements read, write and change in place."""

from __future__ import annotations

import ast

import pytest

from tpulint.model.syntax.effects import effects, is_unconditional, place, root


@pytest.mark.parametrize(
    ("text", "reads", "writes", "changes"),
    [
        ("y = x + 1", {"x"}, {"y"}, set()),
        ("x += y", {"x", "y"}, {"x"}, set()),
        ("self.total += loss", {"self.total", "loss"}, {"self.total"}, set()),
        ("self.h = self.cell(x)", {"self.cell", "x"}, {"self.h"}, set()),
        ("a, (b, *c) = x", {"x"}, {"a", "b", "c"}, set()),
        ("y: int = x", {"x"}, {"y"}, set()),
        ("x[0] = y", {"x", "y"}, set(), {"x"}),
        ("x.grad = None", {"x"}, set(), {"x"}),
        ("self.net.weight.data = w", {"self.net", "w"}, set(), {"self.net"}),
        ("x[i] += 1", {"x", "i"}, set(), {"x"}),
        ("losses.append(x)", {"losses", "x"}, set(), {"losses"}),
        ("x.add_(y)", {"x", "y"}, set(), {"x"}),
        ("torch.nn.init.normal_(w)", {"torch", "w"}, set(), {"torch"}),
        ("y = w.requires_grad_()", {"w"}, {"y"}, set()),
        ("y = w.__len__()", {"w"}, {"y"}, set()),
        ("w.requires_grad_()", {"w"}, set(), {"w"}),
        ("opt.zero_grad()", {"opt"}, set(), set()),
        ("x.sum()", {"x"}, set(), {"x"}),
        ("del x", {"x"}, set(), set()),
        ("for x in xs: y = x", {"xs", "x"}, {"x", "y"}, set()),
        ("with open(p) as f: f.read()", {"open", "p", "f"}, {"f"}, {"f"}),
        ("if (n := len(x)) > 1: pass", {"len", "x"}, {"n"}, set()),
        ("try:\n    a = x\nexcept E as e:\n    pass", {"x", "E"}, {"a"}, set()),
        ("try:\n    pass\nexcept E as e:\n    print(e)", {"E", "print"}, set(), set()),
        ("y: int", set(), set(), set()),
        ("global x", set(), set(), set()),
    ],
)
def test_effects_of_a_statement(text: str, reads: set[str], writes: set[str], changes: set[str]) -> None:
    found = effects(ast.parse(text).body)
    assert (reads, writes, changes) == (set(found.reads), set(found.writes), found.changes)


@pytest.mark.parametrize(
    ("text", "reads", "writes"),
    [
        ("y = [a * x for a in xs]", {"x", "xs"}, {"y"}),
        ("y = {k: v for k, v in d.items() if k != s}", {"d", "s"}, {"y"}),
        ("f = lambda a: a + x", {"x"}, {"f"}),
        ("def f(a):\n    b = a * x\n    return b", {"x"}, {"f"}),
        ("class A:\n    b = x", {"x"}, set()),
    ],
)
def test_names_bound_by_a_comprehension_or_an_inner_function_are_none_of_the_statement(
    text: str, reads: set[str], writes: set[str]
) -> None:
    found = effects(ast.parse(text).body)
    assert (reads, writes) == (set(found.reads), set(found.writes))


def test_touched_are_the_names_that_are_written_or_changed() -> None:
    assert {"y", "x"} == effects(ast.parse("y = 1\nx[0] = 2\nz.shape").body).touched


def test_the_nodes_of_a_name_are_in_the_order_of_the_text() -> None:
    found = effects(ast.parse("y = x + x\nz = x").body)
    assert [(1, 4), (1, 8), (2, 4)] == [(node.lineno, node.col_offset) for node in found.reads["x"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x", "x"), ("self.x", "self.x"), ("self.x.y", None), ("a.x", None), ("x[0]", None)],
)
def test_a_name_or_an_attribute_of_self(text: str, expected: str | None) -> None:
    assert expected == place(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [("x[0].y", "x"), ("self.a.b[1]", "self.a"), ("f(x).y", None), ("1", None), ("x", "x")],
)
def test_the_name_that_an_expression_is_a_part_of(text: str, expected: str | None) -> None:
    assert expected == root(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = 1", True),
        ("x: int = 1", True),
        ("x: int", False),
        ("x += 1", False),
        ("if a: x = 1", False),
        ("x.add_(1)", False),
    ],
)
def test_only_plain_assignments_give_new_values_whatever_was_there(text: str, expected: bool) -> None:
    assert expected == is_unconditional(ast.parse(text).body[0])


def test_statements_taken_together_leave_each_its_own() -> None:
    first, second = ast.parse("y = x\ny = z").body
    assert {"x", "z"} == set(effects([first, second]).reads)
    assert {"x"} == set(effects([first]).reads)
    assert 1 == len(effects([first]).writes["y"])
