"""Parsed files are large; none outlives its judgement, for no one collects cycles meanwhile."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest

from tpulint.engine.run import analyse_units, as_units
from tpulint.fixture import cases
from tpulint.model.module import Module
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.settings import Settings
from tpulint.source import Source

ROOT = Path(__file__).parents[2]


def test_every_parsed_file_is_freed_without_collection(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[weakref.ref[Module]] = []
    plain = Module.__init__

    def noted(self: Module, source: Source, module_path: ModulePath) -> None:
        plain(self, source, module_path)
        made.append(weakref.ref(self))

    monkeypatch.setattr(Module, "__init__", noted)
    texts = {
        str(case.folder / name): text.encode()
        for case in cases(ROOT / "fixtures")
        for name, text in case.before.items()
        if name.endswith(".py")
    }
    gc.disable()
    try:
        analysis = analyse_units(as_units(texts), Settings(root=ROOT), jobs=1)
    finally:
        gc.enable()
    assert analysis.findings != []
    assert [] == [module.source.path for ref in made if (module := ref()) is not None]
