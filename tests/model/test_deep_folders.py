"""Names of modules that lie deep in folders without an `__init__.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine.run import as_units, linked
from tpulint.settings import Settings

NET = """
from torch import nn
{}

class Net(nn.Module):
    def forward(self, x): return scale(x)
"""


@pytest.mark.parametrize(
    "line",
    [
        "from video.models.dit.parts.scaling import scale",
        "from .parts.scaling import scale",
        "from ..dit.parts.scaling import scale",
    ],
)
def test_calls_are_followed_into_deep_folders(tmp_path: Path, line: str) -> None:
    folder = tmp_path / "video" / "models" / "dit"
    (folder / "parts").mkdir(parents=True)
    for package in (tmp_path / "video", tmp_path / "video" / "models"):
        (package / "__init__.py").write_text("")
    texts = {
        folder / "net.py": NET.format(line),
        folder / "parts" / "scaling.py": "def scale(x): return 2 * x",
    }
    project = linked(as_units({str(path): text.encode() for path, text in texts.items()}), Settings(), jobs=1)
    assert any(name.endswith("scaling.scale") for name in project.reach)
