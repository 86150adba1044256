"""Continuation lines stay under the contents of their bracket when a fix moves it."""

from __future__ import annotations

import pytest

from tpulint.tidy.alignment import aligned

CALL = "optimizer = Adam(model.parameters(),\n                 lr=rate,\n                 betas=betas)\n"
NESTED = "y = f(a,\n      g(b,\n        c),\n      [\n          d,\n      ])\n"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            CALL,
            CALL.replace("Adam(", "compiled(Adam(").replace("betas)", "betas))"),
            "optimizer = compiled(Adam(model.parameters(),\n                          lr=rate,\n"
            "                          betas=betas))\n",
            id="wrapped call",
        ),
        pytest.param(
            CALL,
            CALL.replace("optimizer = Adam(", "o = Adam("),
            "o = Adam(model.parameters(),\n         lr=rate,\n         betas=betas)\n",
            id="to the left",
        ),
        pytest.param(
            NESTED,
            NESTED.replace("f(a", "long(a"),
            "y = long(a,\n         g(b,\n           c),\n         [\n             d,\n         ])\n",
            id="brackets in brackets",
        ),
        pytest.param(
            "x = f(a,\n      '''s\n      t''',  # one\n      # two\n      b)\n",
            "x = ff(a,\n      '''s\n      t''',  # one\n      # two\n      b)\n",
            "x = ff(a,\n       '''s\n      t''',  # one\n       # two\n       b)\n",
            id="strings of several rows keep their contents",
        ),
    ],
)
def test_rows_follow_their_bracket(before: str, after: str, expected: str) -> None:
    assert expected == aligned(before, after, 88)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("f(a,\n    b)\n", "ff(a,\n    b)\n", id="not aligned before"),
        pytest.param("f(a,\n  b)\n", "f(a,\n  c)\n", id="only the last row is new"),
        pytest.param(
            "f(\n    a,\n    b,\n)\n", "ff(\n    a,\n    b,\n)\n", id="contents from the next row on"
        ),
        pytest.param(CALL, CALL.replace("Adam(", f"{'compiled' * 9}("), id="too long"),
        pytest.param(CALL, CALL.replace("Adam(", "Adam(("), id="does not parse"),
    ],
)
def test_other_rows_stay(before: str, after: str) -> None:
    assert after == aligned(before, after, 88)


def test_aligned_text_stays() -> None:
    text = CALL + NESTED
    assert text == aligned(text, text, 88)
