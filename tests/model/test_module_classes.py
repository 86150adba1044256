"""Which classes count as modules of torch."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tpulint.engine.run import as_units, linked
from tpulint.settings import Settings

HEAD = "import torch\nfrom torch import nn\n"
FORWARD = "def forward(self, x): return x"


def is_module(folder: Path, text: str, name: str = "Net") -> bool:
    path = folder / "nets.py"
    project = linked(as_units({str(path): (HEAD + textwrap.dedent(text)).encode()}), Settings(), jobs=1)
    return project.is_module_class(f"nets.{name}")


@pytest.mark.parametrize(
    "text",
    [
        f"from lib.models import Mixin\nclass Net(Mixin):\n    {FORWARD}",
        f"from lib.models import Mixin as Base\nclass Net(Base):\n    {FORWARD}",
        f"import lib\nclass Net(lib.models.Mixin):\n    {FORWARD}",
        f"from lib import Mixin\nclass Net(Mixin[int], object):\n    {FORWARD}",
        f"try:\n    import lib.Mixin as M\nexcept ImportError:\n    M = object\nclass Net(M):\n    {FORWARD}",
        f"import lib\nBase = lib.find('Base')\nclass Net(Base):\n    {FORWARD}",
        f"from lib import Mixin\nclass Middle(Mixin): pass\nclass Net(Middle):\n    {FORWARD}",
        f"from lib import Mixin\nclass Middle(Mixin):\n    {FORWARD}\nclass Net(Middle): pass",
        (
            "from lib import Base\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
            "        self.proj = nn.Linear(4, 4)\n    def encode(self, x): return self.proj(x)"
        ),
        (
            "from lib import Base\nclass Net(Base):\n    def __init__(self):\n        super().__init__()\n"
            "        self.scale = nn.Parameter(torch.ones(4))"
        ),
    ],
)
def test_a_class_of_a_library_is_a_module_where_its_body_shows_it(tmp_path: Path, text: str) -> None:
    assert is_module(tmp_path, text)


@pytest.mark.parametrize(
    "text",
    [
        f"class Net:\n    {FORWARD}",
        f"import threading\nclass Net(threading.Thread):\n    {FORWARD}",
        f"import paddle\nclass Net(paddle.nn.Layer):\n    {FORWARD}",
        f"class Net(torch.autograd.Function):\n    {FORWARD}",
        f"class Middle: pass\nclass Net(Middle):\n    {FORWARD}",
        "from lib import Base\nclass Net(Base):\n    def encode(self, x): return x",
        "from lib import Base\nclass Net(Base):\n    def __init__(self):\n        self.p = nn.Linear(4, 4)",
        (
            "from lib import T\nclass Net(T):\n    def __init__(self):\n        super().__init__()\n"
            "        self.model = nn.Linear(4, 4)\n    def fit(self, data): pass"
        ),
    ],
)
def test_other_classes_are_no_modules(tmp_path: Path, text: str) -> None:
    assert not is_module(tmp_path, text)


def test_a_forward_without_torch_makes_no_module(tmp_path: Path) -> None:
    path = tmp_path / "nets.py"
    text = f"from lib import Base\nclass Net(Base):\n    {FORWARD}\n"
    project = linked(as_units({str(path): text.encode()}), Settings(), jobs=1)
    assert not project.is_module_class("nets.Net")
