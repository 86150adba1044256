"""Changes of modules that are imported later."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from torchax_compat.patches.import_hooks import AfterImport

NAME = "imported_after_the_runtime"


@pytest.fixture(autouse=True)
def module_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / f"{NAME}.py").write_text("VALUE = 1\nOTHER = 2\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, NAME, raising=False)


def replacements(module: ModuleType) -> list[tuple[Any, str, Any]]:
    return [(module, "VALUE", module.VALUE + 10)]


def test_a_module_that_is_imported_later_is_changed_and_restored() -> None:
    undo = AfterImport(NAME, replacements).add()
    module = importlib.import_module(NAME)
    assert (11, 2) == (module.VALUE, module.OTHER)
    undo()
    assert 1 == module.VALUE
    assert not [one for one in sys.meta_path if isinstance(one, AfterImport) and one.name == NAME]


def test_a_module_that_is_imported_already_is_changed_at_once() -> None:
    module = importlib.import_module(NAME)
    undo = AfterImport(NAME, replacements).add()
    assert 11 == module.VALUE
    undo()
    assert 1 == module.VALUE


def test_a_module_that_is_never_imported_changes_nothing() -> None:
    AfterImport(NAME, replacements).add()()
    assert 1 == importlib.import_module(NAME).VALUE
