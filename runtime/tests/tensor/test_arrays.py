"""Helpers of the runtime for arrays and errors."""

from __future__ import annotations

import pytest
from torchax_compat.tensor import arrays


@pytest.mark.parametrize(
    ("error", "expected"),
    [(ValueError("one\ntwo"), "one"), (TypeError(), "TypeError"), (KeyError(""), "''")],
)
def test_first_line_of_an_error_is_its_message_or_else_its_type(error: Exception, expected: str) -> None:
    assert expected == arrays.first_line(error)
