"""Blank lines go only where a fix has taken out what stood between them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tpulint.tidy.blank_lines import without_gaps

_LINES = st.sampled_from(("x = 1", "if x:", "    y = 2", "'''", "", "", "  ", "\f", "z"))
_ENDS = st.sampled_from(("\n", "\r\n", "\r"))
texts = st.lists(st.tuples(_LINES, _ENDS), max_size=14).map(lambda lines: "".join(map("".join, lines)))


@given(texts)
def test_an_unchanged_text_keeps_its_blank_lines(text: str) -> None:
    assert without_gaps(text, text) == text


@given(texts, texts)
def test_only_blank_lines_are_removed(before: str, after: str) -> None:
    kept = without_gaps(before, after)
    assert [line for line in kept.splitlines() if line.strip()] == [
        line for line in after.splitlines() if line.strip()
    ]


@given(st.lists(st.sampled_from(("a", "b", "", "")), max_size=8), st.data())
def test_blank_lines_between_changed_lines_are_kept(lines: list[str], data: st.DataObject) -> None:
    changed = [
        f"{line}!" if line and data.draw(st.booleans()) else line  # no line is taken out
        for line in lines
    ]
    before, after = ("".join(f"{line}\n" for line in one) for one in (lines, changed))
    assert without_gaps(before, after) == after


def test_a_function_keeps_the_blank_lines_above_a_decorator_that_goes() -> None:
    before = "import a\nimport b\n\n\n@b.compile\ndef f(x):\n    return x\n"
    after = "import a\n\n\ndef f(x):\n    return x\n"
    assert after == without_gaps(before, after)
