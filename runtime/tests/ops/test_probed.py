"""Each operator of the tables of TPU631 runs with the runtime exactly if `IMPLEMENTED` has it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import _disable_current_modes
from torchax_compat import differentiable

from tpulint.dev import probe_operators
from tpulint.knowledge.implemented import IMPLEMENTED
from tpulint.knowledge.operators import FAILS_ON_TPU, RAISES, RAISES_UNDER_JIT

KNOWN = {**RAISES, **RAISES_UNDER_JIT, **FAILS_ON_TPU}
SAMPLES = {one.name: one.code for one in probe_operators.samples() if one.name in KNOWN}


def _runs(name: str) -> bool:
    """Whether the sample of an operator has torch's result by itself, and in a decorated function."""
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        values = probe_operators._values()
        code = f"lambda {', '.join(values)}: {SAMPLES[name]}"
        function: Any = eval(code, {"torch": torch, "F": torch.nn.functional})
        expected = function(*values.values())
        if isinstance(expected, torch.Tensor) and expected.layout is not torch.strided:
            expected = expected.to_dense()
    given = [value.to("jax") for value in values.values()]
    try:
        found = function(*given), differentiable(function)(*given)
    except Exception:
        return False
    return all(probe_operators._same(expected, one) for one in found)


@pytest.mark.parametrize("name", SAMPLES)
def test_operator_is_in_the_table_of_the_runtime_if_it_runs_there(name: str) -> None:
    assert (name in IMPLEMENTED) == _runs(name)


def test_all_operators_of_the_table_are_tried() -> None:
    assert SAMPLES.keys() >= IMPLEMENTED
