"""A change to the arguments of a call leaves the others as they are written, however that is."""

from __future__ import annotations

import ast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.rewriting import applied, planned
from tpulint.plan import Kind, Rewrite
from tpulint.rewrite.apply import File
from tpulint.source import Source

_VALUES = (
    "x",
    "1",
    "'a, (b'",
    "g(1, h(2))",
    "(y)",
    "((y), )",
    "lambda a, b=1: (a, b)",
    "[0][0]",
    "(z\n)",
    "é",
)
_GAPS = ("", " ", "\n    ", "  # of (the, gap\n", "\n  # one\n\n  # ) two\n ")


@st.composite
def calls(draw: st.DrawFn) -> str:
    """The text of a call, with all that may stand between its arguments."""
    gap = st.sampled_from(_GAPS)
    value = st.sampled_from(_VALUES)
    words = draw(st.lists(st.sampled_from(("", "*", "a=", "b = ", "c=", "**")), max_size=4, unique=True))
    order = [word for kind in ("", "*", "=", "**") for word in words if word.strip("abc ") == kind]
    texts = [f"{word}{draw(value)}" for word in order]
    written = "".join(f"{draw(gap)}{text}{draw(gap)}," for text in texts)
    is_bare = draw(st.booleans())
    if texts and is_bare:
        written = written[:-1]
    callee = draw(st.sampled_from(("f", "torch.zeros", "(f)", "f()", "(f # (\n)")))
    return f"{callee}{draw(st.sampled_from(('', ' ')))}({written}{draw(gap)})"


def of(text: str) -> tuple[Source, ast.Call]:
    """A file with a call in parentheses, and the call."""
    source = Source("file.py", f"({text}\n)\n")
    (statement,) = source.tree.body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return source, statement.value


def in_order(call: ast.Call) -> list[ast.expr | ast.keyword]:
    """The arguments of a call as they are written."""
    return sorted([*call.args, *call.keywords], key=lambda node: (node.lineno, node.col_offset))


def meaning(text: str) -> list[str]:
    """What the arguments of the call of a file mean."""
    (statement,) = ast.parse(text).body
    assert isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call)
    return [ast.dump(node) for node in in_order(statement.value)]


CALL = (("body", 0), ("value", -1))


def path_in(call: ast.Call, node: ast.expr | ast.keyword) -> tuple[tuple[str, int], ...]:
    if isinstance(node, ast.keyword):
        return (*CALL, ("keywords", call.keywords.index(node)))
    return (*CALL, ("args", call.args.index(node)))


@given(calls())
def test_unchanged_arguments_are_written_as_before(text: str) -> None:
    source, _ = of(text)
    assert (source.text, ()) == File(source, []).apply([])


@given(calls(), st.data())
def test_dropping_arguments_keeps_the_others(text: str, data: st.DataObject) -> None:
    source, call = of(text)
    given_ = in_order(call)
    numbers = st.sets(st.sampled_from(range(len(given_)))) if given_ else st.just(set())
    dropped = data.draw(numbers)
    kept = [ast.dump(node) for number, node in enumerate(given_) if number not in dropped]
    rewrites = [Rewrite(path_in(call, given_[number]), Kind.REMOVE_ARGUMENT) for number in sorted(dropped)]
    assert kept == meaning(applied(source, *rewrites))


@given(calls())
def test_an_argument_can_be_added_first_or_last(text: str) -> None:
    source, _ = of(text)
    given_ = meaning(source.text)
    last = applied(source, Rewrite(CALL, Kind.ADD_ARGUMENT, ("new=0",)))
    assert [*given_, ast.dump(ast.keyword("new", ast.Constant(0)))] == meaning(last)
    first = applied(source, Rewrite(CALL, Kind.ADD_ARGUMENT, ("0", "0")))
    assert [ast.dump(ast.Constant(0)), *given_] == meaning(first)


@pytest.mark.parametrize(
    ("text", "dropped", "expected"),
    [
        ("f(\n    a,  # first\n    b,  # second\n)\n", "b", "f(\n    a,  # first\n    # second\n)\n"),
        ("f(\n    a,  # first\n    b,\n)\n", "b", "f(\n    a,  # first\n)\n"),
        ("f(a,  # first\n  b)\n", "b", "f(a  # first\n  )\n"),
        ("f(\n    a,  # first\n    b  # second\n)\n", "a", "f(\n    b  # second\n)\n"),
        ("f(\n    # of a\n    a,\n    # of b\n    b,\n)\n", "b", "f(\n    # of a\n    a,\n    # of b\n)\n"),
        ("f(\n    a,\n    b,  # why\n    # of c\n    c,\n)\n", "b", "f(\n    a,\n    # of c\n    c,\n)\n"),
        ("f(\n    # of a\n    a,\n    # of b\n    b,\n)\n", "a", "f(\n    # of b\n    b,\n)\n"),
        ("f(a, *b, **c)\n", "*b", "f(a, **c)\n"),
        ("f(a , b , c)\n", "b", "f(a , c)\n"),
        ("f(a, g(h(x)), b)\n", "g(h(x))", "f(a, b)\n"),
        ("f(a, b = 1, )\n", "b = 1", "f(a, )\n"),
        ("class A(B, metaclass=M, x=1): pass\n", "x=1", "class A(B, metaclass=M): pass\n"),
        ("class A(B, metaclass=M): pass\n", "metaclass=M", "class A(B): pass\n"),
        ("class A(B, metaclass=M): pass\n", "B", "class A(metaclass=M): pass\n"),
        ("class A(B): pass\n", "B", "class A(): pass\n"),
    ],
)
def test_an_argument_goes_and_comments_of_others_stay(text: str, dropped: str, expected: str) -> None:
    source = Source("file.py", text)
    assert expected == applied(source, planned(source, dropped, Kind.REMOVE_ARGUMENT))


def test_a_generator_argument_gets_its_own_parentheses() -> None:
    source = Source("file.py", "f(x for x in y)\n")
    added = Rewrite(CALL, Kind.ADD_ARGUMENT, ("new=0",))
    assert "f((x for x in y), new=0)\n" == applied(source, added)
    first = Rewrite(CALL, Kind.ADD_ARGUMENT, ("0", "0"))
    assert "f(0, (x for x in y))\n" == applied(source, first)


@pytest.mark.parametrize(
    ("text", "place", "expected"),
    [
        (
            "f(\n    a,  # first\n    b,  # second\n)\n",
            [],
            "f(\n    a,  # first\n    b,  # second\n    c=0,\n)\n",
        ),
        ("f(\n    a,\n    b\n)\n", [], "f(\n    a,\n    b,\n    c=0\n)\n"),
        ("f(\n    a,\n)\n", [], "f(\n    a,\n    c=0,\n)\n"),
        ("f(\n    a,\n    b  # second\n)\n", [], "f(\n    a,\n    b,  # second\n    c=0\n)\n"),
        ("f(\n    a,\n    b=1,\n)\n", ["1"], "f(\n    a,\n    c=0,\n    b=1,\n)\n"),
        ("f(\n    a=1,  # a\n    b=2,\n)\n", ["0"], "f(\n    c=0,\n    a=1,  # a\n    b=2,\n)\n"),
        ("f(a=1, b=2)\n", ["1"], "f(a=1, c=0, b=2)\n"),
        ("f(a,\n  b)\n", [], "f(a,\n  b, c=0)\n"),
        ("f(a, b,)\n", [], "f(a, b, c=0,)\n"),
        ("f( )\n", [], "f( c=0)\n"),
        ("f()\n", [], "f(c=0)\n"),
    ],
)
def test_an_added_argument_gets_its_own_line_like_the_others(
    text: str, place: list[str], expected: str
) -> None:
    source = Source("file.py", text)
    assert expected == applied(source, Rewrite(CALL, Kind.ADD_ARGUMENT, ("c=0", *place)))
