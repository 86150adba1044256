"""`check` and `fix` with files around the code."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

FILES = {
    "requirements.txt": "torch==2.4.0+cu121\nnumpy\n",
    "Dockerfile": "FROM nvidia/cuda:12.1.0-base\n",
    "train.sh": "CUDA_VISIBLE_DEVICES=0 python train.py\n",
    "train.py": "import torch\n\nx = torch.ones(2).cuda()\n",
}


def tpulint(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tpulint", *arguments]
    return subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text)
    return tmp_path


def codes(project: Path, *arguments: str) -> list[tuple[str, str]]:
    done = tpulint("check", "--output-format", "json", *arguments, cwd=project)
    assert "" == done.stderr
    return [(Path(one["filename"]).name, one["code"]) for one in json.loads(done.stdout)]


def test_a_check_of_a_folder_reports_files_around_the_code(project: Path) -> None:
    found = codes(project)
    assert {("requirements.txt", "ENV101"), ("Dockerfile", "ENV103"), ("train.sh", "ENV104")} < set(found)
    assert "train.py" in {name for name, _ in found}


def test_files_around_the_code_can_be_named_and_deselected(project: Path) -> None:
    assert [("Dockerfile", "ENV103")] == codes(project, "Dockerfile")
    assert {"train.py"} == {name for name, _ in codes(project, "--ignore", "ENV")}
    assert [("train.sh", "ENV104")] == codes(project, "--select", "gpu-variable")


def test_rules_about_torchax_leave_files_alone_for_another_target(project: Path) -> None:
    (project / "train.sh").write_text("nvidia-smi\ntorchrun --nproc_per_node=8 train.py\n")
    assert ["ENV106", "ENV105"] == [code for _, code in codes(project, "train.sh")]
    assert ["ENV106"] == [code for _, code in codes(project, "-q", "--target", "torchtpu", "train.sh")]


def test_a_comment_suppresses_findings_of_its_line(project: Path) -> None:
    (project / "train.sh").write_text("nvidia-smi  # tpulint: ignore[ENV106]\nnvidia-smi\n")
    assert [("train.sh", "ENV106")] == codes(project, "train.sh")


def test_json_has_the_edits_of_a_fix(project: Path) -> None:
    done = tpulint("check", "--output-format", "json", "requirements.txt", cwd=project)
    (finding,) = json.loads(done.stdout)
    assert [
        {"location": {"row": 1, "column": 13}, "end_location": {"row": 1, "column": 19}, "content": "+cpu"}
    ] == (finding["fix"]["edits"])


def test_fix_changes_files_around_the_code_only_with_unsafe_fixes(project: Path) -> None:
    tpulint("fix", cwd=project)
    assert FILES["train.sh"] == (project / "train.sh").read_text()
    done = tpulint("fix", "--unsafe-fixes", cwd=project)
    assert "" == done.stderr
    assert "python train.py\n" == (project / "train.sh").read_text()
    assert FILES["Dockerfile"] == (project / "Dockerfile").read_text()


def test_a_file_gets_the_runtime_and_fixes_in_one_write(project: Path) -> None:
    done = tpulint("fix", "--unsafe-fixes", cwd=project)
    assert "" == done.stderr
    lines = (project / "requirements.txt").read_text().splitlines()
    assert "torch==2.13.0+cpu" == lines[0]
    assert any(line.startswith("torchax-compat") for line in lines)
    again = tpulint("fix", "--unsafe-fixes", "--diff", cwd=project)
    assert "" == again.stdout


def test_a_diff_shows_files_around_the_code(project: Path) -> None:
    done = tpulint("fix", "--unsafe-fixes", "--diff", cwd=project)
    assert "+torch==2.13.0+cpu" in done.stdout
    assert FILES["requirements.txt"] == (project / "requirements.txt").read_text()


def test_a_file_that_is_no_text_is_left_alone(project: Path) -> None:
    (project / "data.yaml").write_bytes(b"cuda: \xff\xfe\n")
    (project / "binary.sh").write_bytes(b"cuda\0")
    done = tpulint("check", ".", cwd=project)
    assert ("", 1) == (done.stderr, done.returncode)
