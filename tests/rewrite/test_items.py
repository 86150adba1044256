"""An item of a `with` that goes leaves the others with their comments."""

from __future__ import annotations

import pytest

from tests.rewriting import applied, planned
from tpulint.model.syntax.rewritten import text_lost
from tpulint.plan import Kind
from tpulint.source import Source


def block(*items: str) -> str:
    """A `with` with an item, or a comment, on each of some lines."""
    return "\n".join(["with (", *(f"    {item}" for item in items), "):", "    c", ""])


@pytest.mark.parametrize(
    ("text", "item", "expected"),
    [
        (block("a,  # first", "b,  # second"), "a", block("b,  # second")),
        (block("a,  # first", "b  # second"), "a", block("b  # second")),
        (block("a,  # first", "b,  # second"), "b", block("a,  # first", "# second")),
        (block("a,  # first", "b  # second"), "b", block("a  # first", "# second")),
        (block("a,  # first", "b,"), "b", block("a,  # first")),
        (block("a,  # first", "b"), "b", block("a  # first")),
        (block("# of a", "a,", "# of b", "b,"), "a", block("# of b", "b,")),
        (block("# of a", "a,", "# of b", "b,"), "b", block("# of a", "a,", "# of b")),
        (block("a,", "b,  # why", "# of d", "d,"), "b", block("a,", "# of d", "d,")),
        (block("a as x,  # first", "b,  # second", "d,"), "b", block("a as x,  # first", "d,")),
        ("with (a, b): c\n", "a", "with (b): c\n"),
        ("with (a, b, ): c\n", "b", "with (a, ): c\n"),
        ("with a, b, d: c\n", "b", "with a, d: c\n"),
        ("with a, \\\n    b: c  # why\n", "b", "with a: c  # why\n"),
    ],
)
def test_comments_stay_with_their_items(text: str, item: str, expected: str) -> None:
    source = Source("file.py", text)
    assert expected == applied(source, planned(source, item, Kind.UNWRAP))


@pytest.mark.parametrize(
    ("text", "item", "expected"),
    [
        (block("a,  # first", "b,"), "a", "a,  # first"),
        (block("a,", "# of b", "b,"), "b", "# of b\n    b"),
        (block("a,  # first", "b,"), "b", "b"),
        ("with a, b: c  # why\n", "b", "b"),
    ],
)
def test_comments_of_an_item_count_as_lost_with_it(text: str, item: str, expected: str) -> None:
    source = Source("file.py", text)
    assert expected == text_lost(source, planned(source, item, Kind.UNWRAP)).strip()
