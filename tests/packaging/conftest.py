"""The distribution, built from a copy of the sources so that no leftover of an earlier build gets in."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SOURCES = (
    "tpulint",
    "rules",
    "runtime",
    "pyproject.toml",
    "README.md",
    "MANIFEST.in",
    "LICENSE",
    ".pre-commit-hooks.yaml",
)


@pytest.fixture(scope="session")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("sources")
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, copy / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info")
            )
        else:
            shutil.copy(ROOT / name, copy / name)
    return copy


@pytest.fixture(scope="session")
def wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of tpulint."""
    return _built(sources, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="session")
def runtime_wheel(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of the runtime torchax-compat."""
    return _built(sources / "runtime", tmp_path_factory.mktemp("runtime_wheel"))


def _built(sources: Path, folder: Path) -> Path:
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "wheel", "--no-deps", "--wheel-dir", str(folder), str(sources)], check=True)
    (built,) = folder.glob("*.whl")
    return built
