"""The runtime as a package: what it exports, and that copies of it are itself."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators
# mypy: disable-error-code="call-arg"

from __future__ import annotations

import importlib
import logging
import sys
from pathlib import Path

import pytest
import torch
import torchax_compat
from torch import nn
from torchax_compat import compile_optimizer, compile_update, differentiable

PACKAGE = "program_with_a_copy"


@pytest.fixture
def copy_in_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A package of the program that has the runtime as well; its files are never executed."""
    copy = tmp_path / PACKAGE / "torchax_compat"
    (copy / "tracing").mkdir(parents=True)
    for folder in (copy.parent, copy, copy / "tracing"):
        (folder / "__init__.py").write_text("" if folder == copy.parent else "raise AssertionError\n")
    (copy / "tracing" / "reach.py").write_text("raise AssertionError\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    before = set(sys.modules)
    yield f"{PACKAGE}.torchax_compat"
    for name in set(sys.modules) - before:
        if name.startswith(PACKAGE):
            del sys.modules[name]


def test_copy_in_a_package_is_the_first_one(copy_in_package: str) -> None:
    spec = torchax_compat.__spec__
    assert importlib.import_module(copy_in_package) is torchax_compat
    assert torchax_compat.__spec__ is spec


def test_files_of_a_copy_are_those_of_the_first_one(copy_in_package: str) -> None:
    from torchax_compat.jit import reachable_modules

    assert importlib.import_module(f"{copy_in_package}.tracing.reach") is reachable_modules


def test_other_imports_are_not_concerned() -> None:
    assert all(finder.find_spec("json") is None for finder in sys.meta_path if type(finder) is once._Once)
    assert "torchax_compat" == once.FOLDER


def test_names_that_programs_import() -> None:
    assert ["compiled", "differentiable", "recorded", "single_process"] == torchax_compat.__all__
    assert logging.WARNING == logging.getLogger("jax").level


def test_compiled_takes_optimizers_and_functions() -> None:
    net = nn.Linear(2, 1).to("jax")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    assert compile_optimizer(optimizer) is not None

    @compile_update
    def double(net):
        for p in net.parameters():
            p.mul_(2)

    before = net.weight.detach().clone()
    double(net)
    assert torch.allclose(2 * before, net.weight.detach())
    assert isinstance(differentiable(double), differentiable)


def test_program_that_logs_all_libraries_logs_none_of_what_jax_compiles(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records: list[logging.LogRecord] = []

    class Kept(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            records.append(record)

    monkeypatch.setattr(logging.root, "handlers", [Kept()])
    monkeypatch.setattr(logging.root, "level", logging.DEBUG)
    net = nn.Linear(3, 7).to("jax")
    differentiable(lambda net, x: net(x).sum())(net, torch.ones(5, 3).to("jax")).backward()
    logging.debug("of the program")
    assert ["of the program"] == [record.getMessage() for record in records]
