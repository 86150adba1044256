"""The examples in the docstrings of the public functions."""

from __future__ import annotations

import doctest

import pytest
import torchax_compat

NAMES = [
    "compile_optimizer",
    "compile_update",
    "differentiable",
    "enable",
    "higher_order",
    "single_process",
    "status",
]


@pytest.mark.parametrize("name", NAMES)
def test_example_of_a_public_function(name: str) -> None:
    (found,) = (
        one
        for one in doctest.DocTestFinder(recurse=False).find(getattr(torchax_compat, name), name, globs={})
        if one.examples
    )
    report: list[str] = []
    results = doctest.DocTestRunner().run(found, out=report.append)
    assert results.attempted > 0
    assert results.failed == 0, "".join(report)
