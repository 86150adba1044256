"""`explain --at` on the real engine and rules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.cli import run

MODEL = """\
import torch


def read(x: torch.Tensor):
    return x.sum().item()


def silenced(x: torch.Tensor):
    return x.sum().item(), x.sum().tolist()  # tpulint: ignore[TPU301]
"""
TRAIN = """\
from torchax.interop import jax_jit
from model import read, silenced
jax_jit(read)
jax_jit(silenced)
"""
Explained = Callable[..., str]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "pyproject.toml").write_text("[tool.tpulint]\n")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "model.py").write_text(MODEL)
    (tmp_path / "src" / "train.py").write_text(TRAIN)
    return tmp_path


@pytest.fixture
def explained(folder: Path, capsys: pytest.CaptureFixture[str]) -> Explained:
    def tell(*arguments: str, code: int = 0) -> str:
        assert code == run(["explain", "--at", *arguments])
        captured = capsys.readouterr()
        return captured.err if code else captured.out

    return tell


def test_a_line_is_explained_within_its_whole_project(explained: Explained) -> None:
    text = explained("src/model.py:5")
    assert "in `read`; traced, because the project jits the function at the top of this call chain:\n" in text
    assert "    1. src/train.py:3:1 `read`, traced by `torchax.interop.jax_jit`\n" in text
    assert "x.sum()         zero-dimensional tensor\n" in text
    assert "TPU301 item-in-traced-code, column 12: reported: " in text


def test_a_line_is_explained_within_the_named_paths_only(explained: Explained) -> None:
    text = explained("src/model.py:5", "src/model.py")
    assert "not traced: no traced code calls it" in text
    assert "TPU301 item-in-traced-code, column 12: not reported: the rule is about traced code" in text
    assert "reported: `.item()`" in explained("src/model.py:5", "src")


def test_suppressed_and_deselected_findings_are_shown_with_the_reason(
    explained: Explained, folder: Path
) -> None:
    assert 2 == explained("src/model.py:9").count("found, but suppressed by a comment: ")
    (folder / "pyproject.toml").write_text('[tool.tpulint]\nignore = ["TPU3"]\n')
    assert "found, but deselected by the settings: " in explained("src/model.py:5")


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        # a type that was looked up in the guard, or before it
        ("np.zeros(2).item()", "the rule looks for another type or name; `np.zeros(2)`: NumPy array"),
        # a condition, described by the docstring of the function that checks it
        ("items[0].item()", "this does not hold: the expression is a parameter"),
    ],
)
def test_a_silent_rule_states_the_condition_that_does_not_hold(
    explained: Explained, folder: Path, line: str, expected: str
) -> None:
    (folder / "src" / "model.py").write_text(
        f"import numpy as np\n\ndef read(items):\n    return {line}\n\ndef silenced(x):\n    return x\n"
    )
    text = explained("src/model.py:4")
    (said,) = (row for row in text.splitlines() if "TPU301" in row)
    assert f"not reported: {expected}" in said


def test_a_rule_with_a_pattern_states_why_it_is_silent(explained: Explained, folder: Path) -> None:
    (folder / "src" / "opt.py").write_text("import torch\n\n\nopt = torch.optim.SGD([], fused=True)\n")
    (said,) = (row for row in explained("src/opt.py:4").splitlines() if "TPU643" in row)
    assert "this does not hold: the program uses a device or the torchax environment" in said


def test_findings_that_the_runtime_handles_are_explained_by_it(explained: Explained, folder: Path) -> None:
    (folder / "src" / "net.py").write_text(
        "from torch import nn\nfrom torchax_compat import differentiable\n\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n        return x * x.sum().tolist()\n"
    )
    (said,) = (row for row in explained("src/net.py:7").splitlines() if "TPU301" in row)
    assert (
        "not reported, since the runtime handles values of tensors in Python code: "
        "see runtime/tests/test_handled.py::test_sample_has_the_result_of_torch"
    ) in said


def test_operators_that_the_runtime_handles_are_explained_by_it(explained: Explained, folder: Path) -> None:
    (folder / "src" / "net.py").write_text(
        "import torch\nimport torchax_compat\nfrom torch import nn\n\n\n"
        "class Net(nn.Module):\n    def forward(self, x):\n"
        "        return torch.nn.functional.gumbel_softmax(x.to('jax'))\n"
    )
    (said,) = (row for row in explained("src/net.py:8").splitlines() if "TPU614" in row)
    assert (
        "not reported, since the runtime handles random numbers on the device: "
        "see runtime/tests/test_handled.py::test_sample_has_the_result_of_torch"
    ) in said


def test_code_for_cuda_with_a_counterpart_for_torchax_is_explained(
    explained: Explained, folder: Path
) -> None:
    (folder / "src" / "pair.py").write_text(
        "import torch\n\nt = torch.ones(2)\nif torch.cuda.is_available():\n    x = t.cuda()\n"
        'else:\n    x = t.to("jax")\n'
    )
    (said,) = (row for row in explained("src/pair.py:5").splitlines() if "TPU101" in row)
    assert "not reported: this code for CUDA has a counterpart for torchax beside it" in said


def test_an_excluded_file_is_a_one_line_error(explained: Explained, folder: Path) -> None:
    (folder / "pyproject.toml").write_text('[tool.tpulint]\nexclude = ["model.py"]\nforce-exclude = true\n')
    assert explained("src/model.py:5", code=2) == "error: src/model.py: excluded by the settings\n"


def test_without_a_pyproject_the_project_is_the_folder_of_the_file(
    explained: Explained, folder: Path
) -> None:
    (folder / "pyproject.toml").unlink()
    assert "src/train.py:3:1" in explained("src/model.py:5")


def test_without_a_pyproject_the_project_is_the_package_of_the_file(
    explained: Explained, folder: Path
) -> None:
    (folder / "pyproject.toml").unlink()
    (folder / "src" / "inner").mkdir()
    (folder / "src" / "__init__.py").touch()
    (folder / "src" / "inner" / "__init__.py").touch()
    (folder / "src" / "inner" / "model.py").write_text(MODEL)
    (folder / "src" / "train.py").write_text(TRAIN.replace("from model", "from .inner.model"))
    assert "src/train.py:3:1" in explained("src/inner/model.py:5")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["src/gone.py:1"], "src/gone.py: no such file"),
        (["src:1"], "src: no such file"),
        (["src/model.py"], "`src/model.py` is not FILE:LINE"),
        (["src/model.py:x"], "`src/model.py:x` is not FILE:LINE"),
        (["src/model.py:0"], "src/model.py: there is no line 0: the file has 9"),
        (["src/model.py:10"], "src/model.py: there is no line 10: the file has 9"),
        (["src/broken.py:1"], "src/broken.py: the file is not analyzed: '(' was never closed (line 1)"),
        (["src/binary.py:1"], "src/binary.py: holds null bytes, so it is not Python text"),
    ],
)
def test_a_line_that_cannot_be_explained_is_a_one_line_error(
    explained: Explained, folder: Path, arguments: list[str], complaint: str
) -> None:
    (folder / "src" / "broken.py").write_text("x = (1,\n")
    (folder / "src" / "binary.py").write_bytes(b"\0")
    assert f"error: {complaint}\n" == explained(*arguments, code=2)


def test_explain_without_a_rule_or_a_line_is_an_error(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert 2 == run(["explain"])
    assert "give the code or name of one rule, or --at FILE:LINE" in capsys.readouterr().err
