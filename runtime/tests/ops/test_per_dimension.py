"""A setting of an operator has one value for each dimension."""

from __future__ import annotations

import pytest
from torchax_compat.ops.per_dimension import each


@pytest.mark.parametrize(
    ("setting", "expected"), [(3, [3, 3]), ([3], [3, 3]), ((3, 4), [3, 4]), (None, [None, None])]
)
def test_one_setting_applies_to_each_dimension(setting: object, expected: list[object]) -> None:
    assert expected == each(setting, 2)
