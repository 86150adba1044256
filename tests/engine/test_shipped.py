"""The runtime's own files in a project: neither analyzed nor fixed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine.inquiry import InquiryError, inquire
from tpulint.engine.run import analyse, as_units
from tpulint.engine.shipped import is_shipped
from tpulint.settings import Settings

CUDA = 'import torch\n\nx = torch.ones(2, device="cuda")\n'


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("/project/torchax_compat/tensor/views.py", True),
        ("/project/pkg/_vendor/torchax_compat/__init__.py", True),
        ("/project/torchax_training/once.py", True),
        ("/project/torchax_mesh.py", True),
        ("/project/views.py", False),
        ("/project/my_torchax_compat/views.py", False),
    ],
)
def test_files_of_the_runtime_are_recognized_by_their_folder(path: str, expected: bool) -> None:
    (unit,) = as_units({path: b""}).values()
    assert expected == is_shipped(unit)


def test_check_does_not_analyze_the_runtime(tmp_path: Path) -> None:
    for name in ("main.py", "torchax_compat/views.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CUDA)
    found = analyse(sorted(tmp_path.rglob("*.py")), Settings(root=tmp_path), jobs=1, cache=False).findings
    assert {"main.py"} == {Path(finding.path).name for finding in found}


def test_explaining_a_line_of_the_runtime_says_that_it_is_not_analyzed(tmp_path: Path) -> None:
    file = tmp_path / "torchax_compat/views.py"
    file.parent.mkdir()
    file.write_text(CUDA)
    with pytest.raises(InquiryError, match="not analyzed"):
        inquire(file, 1, [file], Settings(root=tmp_path))
