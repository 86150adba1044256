"""Statements that can stand in a function of their own, and statements that need not."""

from __future__ import annotations

import ast

import pytest

from tpulint.model.training.movable import begins, ending, going_on, only_computes, only_scales, unfit

ENDS = "may leave the function before the loss is computed"
GOES_ON = "may leave the loop iteration before the loss is computed"


def statement(text: str) -> ast.stmt:
    return ast.parse(text).body[0]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss /= steps", True),
        ("loss *= 0.5", True),
        ("loss += other", False),
        ("loss /= norm(x)", False),
        ("loss = losses['total']", True),
        ("loss = losses[0]", True),
        ("loss = a + 0.1 * b", True),
        ("loss = loss.mean()", True),
        ("loss = criterion(out, y)", False),
        ("a, b = c", False),
        ("self.loss = loss", False),
        ("loss.backward()", False),
    ],
)
def test_a_statement_that_only_scales_a_loss(text: str, expected: bool) -> None:
    assert expected == only_scales(statement(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x + 1", True),
        ("y: int = 1", True),
        ("y += f(x)", True),
        ("if a:\n    y = 1", True),
        ("if a:\n    return y", False),
        ("y = x.item()", False),
        ("y = x.cpu()", False),
        ("y = float(x)", False),
        ("y = next(loader)", False),
        ("if a:\n    print(y)", False),
        ("y = opt.step()", False),
        ("f(x)", False),
        ("for a in x:\n    y = a", False),
    ],
)
def test_a_statement_that_only_computes(text: str, expected: bool) -> None:
    assert expected == only_computes(statement(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss = 0", True),
        ("loss = -1.0", True),
        ("losses = []", True),
        ("a, b = 0, []", True),
        ("a = b = {'x': 0}", True),
        ("loss: float = 0.0", True),
        ("loss: float", False),
        ("loss = x", False),
        ("loss = torch.zeros(1)", False),
        ("self.loss = 0", False),
        ("loss += 0", False),
    ],
)
def test_a_statement_that_begins_a_sum_or_a_list(text: str, expected: bool) -> None:
    assert expected == begins(statement(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = x", None),
        ("return x", ENDS),
        ("if a:\n    return x", ENDS),
        ("yield x", ENDS),
        ("x = await y", ENDS),
        ("if a:\n    break", GOES_ON),
        ("if a:\n    continue", GOES_ON),
        ("for a in x:\n    break", None),
        ("while a:\n    if b:\n        continue", None),
    ],
)
def test_how_a_statement_may_end_its_function_or_loop(text: str, expected: str | None) -> None:
    assert expected == ending(statement(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("try:\n    y = x\nexcept E:\n    pass", "is a `try` statement"),
        ("def g():\n    pass", "is a function or class definition"),
        ("class A:\n    pass", "is a function or class definition"),
        ("return x", ENDS),
        ("with a:\n    y = x", None),
    ],
)
def test_why_a_statement_cannot_stand_in_a_function_of_its_own(text: str, expected: str | None) -> None:
    assert expected == unfit(statement(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("if a:\n    y = 1\nelse:\n    return", ["y = 1"]),
        ("if a:\n    continue\nelse:\n    y = 1", ["y = 1"]),
        ("if a:\n    y = 1\nelse:\n    y = 2", None),
        ("if a:\n    return\nelse:\n    return", None),
        ("if a:\n    return", None),
        ("while a:\n    y = 1\nelse:\n    return", None),
    ],
)
def test_the_branch_that_goes_on_where_the_other_one_ends(text: str, expected: list[str] | None) -> None:
    found = going_on(statement(text))
    assert expected == (None if found is None else [ast.unparse(one) for one in found])
