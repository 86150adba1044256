"""The names of files in folders that have an `__init__.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine.run import as_units

SCRIPT = 'if __name__ == "__main__":\n    pass\n'


@pytest.mark.parametrize(
    ("files", "name"),
    [
        pytest.param({"main.py": "from engine import train\n", "engine.py": ""}, "main", id="plain"),
        pytest.param({"main.py": "import torch\n" + SCRIPT}, "main", id="script"),
        pytest.param({"main.py": "import parts.net\n", "parts/__init__.py": ""}, "main", id="part"),
        pytest.param({"main.py": "import torch\n"}, "app.main", id="library"),
        pytest.param({"main.py": "from .engine import train\n", "engine.py": ""}, "app.main", id="relative"),
        pytest.param({"main.py": "from app.engine import go\n", "engine.py": ""}, "app.main", id="absolute"),
        pytest.param({"main.py": "import random\n", "random.py": ""}, "app.main", id="standard_library"),
        pytest.param(
            {"main.py": "import app\nimport app.nn\nfrom engine import train\n", "engine.py": ""},
            "main",
            id="named_like_a_library",
        ),
        pytest.param(
            {"main.py": "import app.nn\nfrom app.engine import go\nimport engine\n", "engine.py": ""},
            "app.main",
            id="compiled_part",
        ),
        pytest.param({"main.py": SCRIPT, "../run.py": "import app.main\n"}, "app.main", id="imported"),
    ],
)
def test_a_script_beside_init_py_has_its_plain_name_as_module_path(
    files: dict[str, str], name: str, tmp_path: Path
) -> None:
    folder = tmp_path / "app"
    for path, text in {"__init__.py": "", **files}.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    paths = [*folder.rglob("*.py"), *tmp_path.glob("*.py")]
    units = as_units({str(path): path.read_bytes() for path in paths})
    assert name == units[str(folder / "main.py")].module_path.name


def test_a_file_named_like_a_library_keeps_its_package_path(tmp_path: Path) -> None:
    folder = tmp_path / "lib" / "audio"
    folder.mkdir(parents=True)
    (tmp_path / "lib" / "__init__.py").touch()
    (folder / "__init__.py").write_text("from lib.audio.pesq import score\n")
    (folder / "pesq.py").write_text("from pesq import pesq\n\nscore = pesq\n")
    (folder / "gated.py").write_text("from lib.checks import check\n")
    units = as_units({str(path): path.read_bytes() for path in tmp_path.rglob("*.py")})
    assert "lib.audio.pesq" == units[str(folder / "pesq.py")].module_path.name
