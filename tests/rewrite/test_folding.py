"""What is folded away while a file is rewritten, and what stays."""

from __future__ import annotations

import pytest

from tests.rewriting import applied, planned
from tpulint.plan import Kind, NodePath
from tpulint.rewrite.fold import Folded
from tpulint.source import Source


def folded(text: str, *paths: NodePath) -> str:
    return Folded(Source("file.py", text), paths, [(("body", 0),)]).text


@pytest.mark.parametrize(
    ("text", "path", "expected"),
    [
        pytest.param(
            "def f(x):\n    a = x\n    for b in x:\n        a += b\n    return a\n",
            (("body", 0), ("body", 2)),
            "def f(x):\n    folded0\n    folded1\n    return a\n",
            id="statements of a function",
        ),
        pytest.param("a = 1\nb = 2\n", (("body", 1),), "a = 1\nb = 2\n", id="statements of a file"),
        pytest.param(
            'def f(x):\n    "doc"\n    import math\n    return x\n',
            (("body", 0), ("body", 2)),
            'def f(x):\n    "doc"\n    import math\n    return x\n',
            id="strings and imports",
        ),
        pytest.param(
            "def f(x):\n    a = 1; b = 2\n    return x\n",
            (("body", 0), ("body", 2)),
            "def f(x):\n    a = 1; b = 2\n    return x\n",
            id="statements that share a line",
        ),
        pytest.param(
            "def f(x):\n    if x:\n        a = 1\n    elif b:\n        a = 2\n",
            (("body", 0), ("body", 0), ("body", 0)),
            "def f(x):\n    if x:\n        a = 1\n    elif b:\n        folded0\n",
            id="elif",
        ),
        pytest.param(
            "def f(x):\n    for a in x:\n        b = a\n        # end\n    return x\n",
            (("body", 0), ("body", 1)),
            "def f(x):\n    for a in x:\n        folded0\n        # end\n    return x\n",
            id="a block with a comment at its end",
        ),
    ],
)
def test_statements_that_no_rewrite_is_about_are_folded(text: str, path: NodePath, expected: str) -> None:
    assert expected == folded(text, path)


def test_all_is_there_again_after_a_rewrite() -> None:
    text = "def f(x):\n    a = [\n        x,  # first\n    ]\n    b = g(a)\n    return b\n"
    source = Source("file.py", text)
    assert text.replace("g(a)", "h(a)") == applied(source, planned(source, "g(a)", Kind.REPLACE, "h(a)"))


def test_blocks_of_a_try_are_folded_in_the_order_of_the_text() -> None:
    text = (
        "def f(x):\n    try:\n        a = g(x)\n        b = a\n    except ValueError:\n        a = 1\n"
        "    else:\n        a = 2\n    finally:\n        b = 3\n    return a\n"
    )
    source = Source("file.py", text)
    assert text.replace("g(x)", "h(x)") == applied(source, planned(source, "g(x)", Kind.REPLACE, "h(x)"))


def test_comments_at_the_end_of_the_last_function_stay() -> None:
    text = (
        "x = g(1)\n\ndef f(x):\n    a = x\n    b = a\n    if b:\n        a = b\n"
        "        # one\n        # two\n"
    )
    source = Source("file.py", text)
    assert text.replace("g(1)", "h(1)") == applied(source, planned(source, "g(1)", Kind.REPLACE, "h(1)"))
