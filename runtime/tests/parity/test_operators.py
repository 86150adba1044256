"""Operators on the device give what torch gives on the host: values, dtypes, shapes and gradients."""

from __future__ import annotations

from typing import Any

import pytest

from . import comparison
from .differences import DIFFERENCES
from .samples import SPECIAL, Operator
from .tables.creation import CREATION
from .tables.matrices import LINALG, MATRICES
from .tables.networks import ATTENTION, CONVOLUTIONS, LOSSES, NORMALIZATIONS, RECURRENT
from .tables.overloads import OVERLOADS
from .tables.pointwise import ACTIVATIONS, POINTWISE
from .tables.reductions import REDUCTIONS
from .tables.shapes import INDEXING, SHAPES

TABLES = {
    "pointwise": POINTWISE,
    "activations": ACTIVATIONS,
    "reductions": REDUCTIONS,
    "shapes": SHAPES,
    "indexing": INDEXING,
    "matrices": MATRICES,
    "linalg": LINALG,
    "convolutions": CONVOLUTIONS,
    "normalizations": NORMALIZATIONS,
    "losses": LOSSES,
    "attention": ATTENTION,
    "recurrent": RECURRENT,
    "creation": CREATION,
    "overloads": OVERLOADS,
}
#: How often an operator is called one by one, and compiled: JAX compiles a function anew at its fifth call.
EAGER_RUNS, COMPILED_RUNS = 6, 3
#: The number of operators that are compiled as one function.
BATCH = 8


def _batches() -> dict[Operator, comparison.Batch]:
    """For each operator, those that are compiled with it, without those that are known to fail."""
    batches = {}
    for table in TABLES.values():
        for is_special in (False, True):
            group = [operator for operator in table if operator.has_special == is_special]
            failing = [operator for operator in group if (operator.name, "compiled") in DIFFERENCES]
            others = [operator for operator in group if operator not in failing]
            parts = [tuple(others[at : at + BATCH]) for at in range(0, len(others), BATCH)]
            batches |= {operator: part for part in parts for operator in part}
            batches |= {operator: (operator,) for operator in failing}
    return batches


BATCHES = _batches()


def _cases(check: str) -> list[Any]:
    cases = []
    for group, table in TABLES.items():
        for operator in table:
            is_left_out = {
                "eager": operator.is_composite,
                "gradients": check == "gradients" and not comparison.is_differentiable(operator),
            }
            if is_left_out.get(check):
                continue
            reason = DIFFERENCES.get((operator.name, check))
            marks = [] if reason is None else [pytest.mark.xfail(reason=reason, strict=True)]
            cases.append(pytest.param(operator, id=f"{group}-{operator.name}", marks=marks))
    return cases


@pytest.fixture(autouse=True)
def _device_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute all on the device: after calls with other shapes, the host may compute an operation."""
    from torchax_compat.tensor import dynamic_shapes

    monkeypatch.setattr(dynamic_shapes, "few_numbers", lambda: 0)


def _draws(operator: Operator, runs: int) -> list[tuple[int, str]]:
    """Seeds, and how the elements of tensors are drawn."""
    ways = operator.ways()
    return [(seed, ways[seed % len(ways)]) for seed in range(runs)]


@pytest.mark.parametrize("operator", _cases("eager"))
def test_values_are_those_of_torch(operator: Operator) -> None:
    for seed, how in _draws(operator, EAGER_RUNS):
        due = comparison.expected(operator, seed, how).values
        found = comparison.eager(operator, seed, how)
        comparison.assert_same_calls(due[: len(found)], found, how)


@pytest.mark.parametrize("operator", _cases("compiled"))
def test_compiled_values_are_those_of_torch(operator: Operator) -> None:
    for seed, how in _draws(operator, COMPILED_RUNS):
        due = comparison.expected(operator, seed, how)
        found = comparison.compiled_results(operator, BATCHES[operator], seed, how)
        comparison.assert_same_calls(due.values, found.values, how)
        assert found.is_compiled


@pytest.mark.parametrize("operator", _cases("gradients"))
def test_gradients_are_those_of_torch(operator: Operator) -> None:
    for seed, how in _draws(operator, COMPILED_RUNS):
        if how != SPECIAL:
            due = comparison.expected(operator, seed, how)
            found = comparison.compiled_results(operator, BATCHES[operator], seed, how)
            comparison.assert_same_gradients(due.gradients, found.gradients, how)


def test_differences_are_those_of_operators_in_the_tables() -> None:
    names = [operator.name for table in TABLES.values() for operator in table]
    assert len(names) == len(set(names))
    assert set() == {name for name, _ in DIFFERENCES} - set(names)
    assert {"eager", "compiled", "gradients"} >= {check for _, check in DIFFERENCES}
