"""Statements that share a row, and statements at the end of an autocast block."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tests.rewriting import applied
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.behind import kept_behind
from tpulint.model.training.sharing import put_apart

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("a = 1; loss = f(a)\n", "a = 1\nloss = f(a)\n"),
        ("a = 1 ;  loss = f(a); b = 2\n", "a = 1\nloss = f(a)\nb = 2\n"),
        ("if a: loss = f(a)\n", "if a:\n    loss = f(a)\n"),
        ("if a: b = 1; loss = f(a)\n", "if a:\n    b = 1\n    loss = f(a)\n"),
        ("for b in a:\n    b = 1; loss = f(b)\n", "for b in a:\n    b = 1\n    loss = f(b)\n"),
        ("a = 1; loss = f(\n    a)\n", "a = 1\nloss = f(\n    a)\n"),
        ("try: b = 1\nfinally: loss = f(a)\n", "try: b = 1\nfinally:\n    loss = f(a)\n"),
        ("a = 1; \\\n  loss = f(a)\n", "a = 1\nloss = f(a)\n"),
        ("loss = f(a); \\\n  a = 1\n", "loss = f(a)\na = 1\n"),
        ("a = 1; \\\n  loss = f(a); \\\n  b = 2\n", "a = 1\nloss = f(a)\nb = 2\n"),
        ("if a: \\\n  loss = f(a)\n", "if a:\n    loss = f(a)\n"),
        ("if a: b = 1; \\\n  loss = f(a)\n", "if a:\n    b = 1\n    loss = f(a)\n"),
    ],
)
def test_statements_get_rows_of_their_own(
    parse: Parse, find_statement: FindStatement, before: str, after: str
) -> None:
    module = parse(before)
    rewrites = put_apart(module, [find_statement(module, "loss")[0]])
    assert rewrites is not None
    assert after == applied(module.source, *rewrites)


@pytest.mark.parametrize("text", ["loss = f(a)\n", "a = 1\nloss = f(a)\n", "a = 1; b = 2\nloss = f(a)\n"])
def test_statements_that_share_no_row_stay(parse: Parse, find_statement: FindStatement, text: str) -> None:
    module = parse(text)
    assert put_apart(module, [find_statement(module, "loss")[0]]) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (
            "with autocast():\n    loss = f(x)\n    total += loss.item()\n",
            "with autocast():\n    loss = f(x)\ntotal += loss.item()\n",
        ),
        (
            (
                "with torch.cuda.amp.autocast():\n    loss = f(x)\n"
                "\n    # the sum\n    log.append(loss.item())\n"
            ),
            "with torch.cuda.amp.autocast():\n    loss = f(x)\n\n# the sum\nlog.append(loss.item())\n",
        ),
        (
            (
                "if a:\n    with autocast():\n        loss = f(x)\n"
                "        n += len(x)\n        s += loss.detach().item()\n"
            ),
            (
                "if a:\n    with autocast():\n        loss = f(x)\n"
                "        n += len(x)\n    s += loss.detach().item()\n"
            ),
        ),
    ],
)
def test_a_statement_that_only_keeps_a_number_leaves_its_autocast_block(
    parse: Parse, before: str, after: str
) -> None:
    module = parse(before)
    blocks = [node for node in ast.walk(module.source.tree) if isinstance(node, ast.With)]
    assert after == applied(module.source, *kept_behind(module, blocks, {"loss"}))


@pytest.mark.parametrize(
    "text",
    [
        "with autocast():\n    total += loss.item()\n",  # nothing would be left
        "with torch.no_grad():\n    loss = f(x)\n    total += loss.item()\n",
        "with autocast(), open(p):\n    loss = f(x)\n    total += loss.item()\n",
        "with lock:\n    loss = f(x)\n    total += loss.item()\n",
        "with autocast():\n    loss = f(x)\n    loss += x.item()\n",
        "with autocast():\n    loss = f(x)\n    total += g(loss.item())\n",
        "with autocast():\n    loss = f(x)\n    total += loss\n",
        "with autocast():\n    loss = f(x)\n    total = loss.item()\n",
        "with autocast():\n    loss = f(x); total += loss.item()\n",
        "with autocast():\n    loss = f(x)\n    total += (\n        loss.item())\n",
        "if autocast():\n    loss = f(x)\n    total += loss.item()\n",
    ],
)
def test_other_statements_stay_in_their_block(parse: Parse, text: str) -> None:
    module = parse(text)
    assert [] == kept_behind(module, module.source.tree.body, {"loss"})
