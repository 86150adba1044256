"""Functions that are registered compute operations from there on."""

from __future__ import annotations

import pytest
import torch
import torchax
from torchax.ops import ops_registry
from torchax_compat.ops.per_dimension import each
from torchax_compat.ops.registry import register


def test_a_function_that_is_registered_computes_an_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    operation = torch.ops.aten.erfinv.default
    known = torchax.default_env()._ops
    for table in (known, ops_registry.all_aten_ops):
        monkeypatch.setitem(table, operation, known[torch.ops.aten.erfinv])
    register(lambda x: x + 41, operation)
    assert 42 == torch.erfinv(torch.tensor(1.0, device="jax")).item()


@pytest.mark.parametrize(
    ("setting", "expected"), [(3, [3, 3]), ([3], [3, 3]), ((3, 4), [3, 4]), (None, [None, None])]
)
def test_one_setting_stands_for_each_dimension(setting: object, expected: list[object]) -> None:
    assert expected == each(setting, 2)
