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
    ("path", "held", "expected"),
    [
        ("torchax_compat/tensor/views.py", "torchax_compat/environment.py", True),
        ("pkg/_vendor/torchax_compat/__init__.py", "pkg/_vendor/torchax_compat/environment.py", True),
        ("torchax_training/once.py", "torchax_training/amended.py", True),
        ("torchax_mesh.py", "", True),
        ("views.py", "", False),
        ("my_torchax_compat/views.py", "my_torchax_compat/environment.py", False),
        ("torchax_training/train.py", "torchax_training/model.py", False),
    ],
)
def test_files_of_the_runtime_are_recognized_by_their_folder(
    path: str, held: str, expected: bool, tmp_path: Path
) -> None:
    if held:
        (tmp_path / held).parent.mkdir(parents=True)
        (tmp_path / held).touch()
    (unit,) = as_units({str(tmp_path / path): b""}).values()
    assert expected == is_shipped(unit)


def test_check_does_not_analyze_the_runtime(tmp_path: Path) -> None:
    for name in ("main.py", "torchax_compat/views.py", "torchax_compat/environment.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(CUDA)
    found = analyse(sorted(tmp_path.rglob("*.py")), Settings(root=tmp_path), jobs=1, cache=False).findings
    assert {"main.py"} == {Path(finding.path).name for finding in found}


def test_explaining_a_line_of_the_runtime_says_that_it_is_not_analyzed(tmp_path: Path) -> None:
    file = tmp_path / "torchax_compat/views.py"
    file.parent.mkdir()
    file.write_text(CUDA)
    (file.parent / "environment.py").touch()
    with pytest.raises(InquiryError, match="not analyzed"):
        inquire(file, 1, [file], Settings(root=tmp_path))
