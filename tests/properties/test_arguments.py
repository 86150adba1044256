"""A change to the arguments of a call leaves the others as they are written, however that is."""

from __future__ import annotations

import ast

from hypothesis import given
from hypothesis import strategies as st

from tpulint.arguments import Arguments, arguments, in_order
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


def read(text: str) -> tuple[str, list[str], Arguments]:
    """The callee of a call as it is written, what the arguments mean, and the arguments as written."""
    source = Source.decode("file.py", f"({text}\n)".encode())
    call = source.tree.body[0].value  # type: ignore[attr-defined]
    start, end = source.span(call).start, source.span(call.func).end
    return source.text[start:end], [ast.dump(node) for node in in_order(call)], arguments(call, source)


def meaning(callee: str, written: Arguments) -> list[str]:
    """What changed arguments mean."""
    return read(f"{callee}{written}")[1]


@given(calls())
def test_unchanged_arguments_are_written_as_before(text: str) -> None:
    callee, _, written = read(text)
    assert f"{callee}{written}" == text


@given(calls(), st.data())
def test_dropping_arguments_keeps_the_others(text: str, data: st.DataObject) -> None:
    callee, given_, written = read(text)
    dropped = data.draw(st.sets(st.sampled_from(range(len(given_)))) if given_ else st.just(set()))
    kept = [node for number, node in enumerate(given_) if number not in dropped]
    assert meaning(callee, written.without(dropped)) == kept


@given(calls())
def test_an_argument_can_be_added_first_or_last(text: str) -> None:
    callee, given_, written = read(text)
    assert meaning(callee, written.before("new=0"))[:-1] == given_
    assert meaning(callee, written.after("0")) == [ast.dump(ast.Constant(0)), *given_]


def test_a_generator_argument_gets_its_own_parentheses() -> None:
    callee, given_, written = read("f(x for x in y)")
    assert f"{callee}{written.before('new=0')}" == "f((x for x in y), new=0)"
    assert meaning(callee, written) == given_


def test_an_added_argument_gets_its_own_line_like_the_others() -> None:
    callee, _, written = read("f(\n    a,  # first\n    b,  # second\n)")
    assert f"{callee}{written.before('c=0')}" == "f(\n    a,  # first\n    b,  # second\n    c=0,\n)"
