"""What the runs of `tpulint verify` import: the copies of the project, wherever Python finds the project."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.proof.conftest import Verify
from tpulint.proof.workers.requests import import_copy
from tpulint.verify import missing_packages

LIBRARY = """\
import torch


def total():
    return torch.ones(4).cuda().sum().item()
"""


@pytest.fixture
def trees(tmp_path: Path) -> tuple[Path, Path]:
    """A project with two folders of code, and its copy, in which one of them was left out."""
    project, copy = tmp_path / "project", tmp_path / "copy"
    for folder in (project / "src", project / "left_out", copy / "src"):
        folder.mkdir(parents=True)
    return project, copy


def test_folders_of_the_project_on_the_import_path_become_those_of_the_copy(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, copy = trees
    monkeypatch.setattr(sys, "path", [str(project / "src"), str(project / "left_out"), "/other"])
    import_copy(project, copy)
    assert [str(copy / "src"), str(project / "left_out"), "/other"] == sys.path


def test_packages_in_editable_mode_are_imported_from_the_copy(
    trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    project, copy = trees
    module = ModuleType("__editable___library_1_0_finder")
    monkeypatch.setattr(
        module, "MAPPING", {"library": str(project / "src"), "other": "/other"}, raising=False
    )
    monkeypatch.setitem(sys.modules, module.__name__, module)

    class Finder:
        find_spec = staticmethod(lambda *_: None)

    Finder.__module__ = module.__name__
    monkeypatch.setattr(sys, "meta_path", [*sys.meta_path, Finder])
    import_copy(project, copy)
    assert {"library": str(copy / "src"), "other": "/other"} == module.MAPPING


@pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")
def test_packages_found_by_pythonpath_are_fixed(
    verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, text in {
        "setup.py": "",
        "src/library.py": LIBRARY,
        "programs/run.py": "import library\n\nif __name__ == '__main__':\n    print(library.total())\n",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    paths = [str(tmp_path / "src"), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
    code, report, _ = verify("--no-trace", "programs/run.py")
    (found,) = report["verifications"]
    assert (0, "same") == (code, found["state"])
    assert LIBRARY == (tmp_path / "src/library.py").read_text()
