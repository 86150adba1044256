"""`--min-severity` and the setting `min-severity`, on real files and rules."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tpulint.cli import run

CODE = """\
import torch

torch.backends.cudnn.benchmark = True
x = torch.zeros(3).cuda()
"""
REQUIREMENTS = "nvidia-cublas-cu12\njax[cuda12]\n"


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "train.py").write_text(CODE)
    (tmp_path / "requirements.txt").write_text(REQUIREMENTS)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def severities(capsys: pytest.CaptureFixture[str], *options: str) -> dict[tuple[str, int], set[str]]:
    run(["check", "--no-cache", "-j1", "--output-format", "json", *options])
    found: dict[tuple[str, int], set[str]] = {}
    for one in json.loads(capsys.readouterr().out):
        place = (Path(one["filename"]).name, one["location"]["row"])
        found.setdefault(place, set()).add(one["severity"])
    return found


def test_check_reports_findings_of_the_severity_and_higher_ones(
    project: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    everything = severities(capsys)
    assert {"cosmetic"} == everything["train.py", 3]
    assert {"cosmetic"} == everything["requirements.txt", 1]
    blocking = {("train.py", 4): {"blocks"}, ("requirements.txt", 2): {"blocks"}}
    assert blocking.items() <= everything.items()
    found = severities(capsys, "--min-severity", "blocks")
    assert {"blocks"} == set().union(*found.values())
    assert {("train.py", 4), ("requirements.txt", 2)} <= found.keys()


def test_fix_leaves_what_is_below_the_severity(project: Path) -> None:
    run(["fix", "--no-cache", "-j1", "-q", "--unsafe-fixes", "--min-severity", "blocks"])
    assert "torch.backends.cudnn.benchmark = True" in (project / "train.py").read_text()
    assert ".cuda()" not in (project / "train.py").read_text()
    assert (project / "requirements.txt").read_text().startswith("nvidia-cublas-cu12\njax[tpu]\n")


def test_setting_is_read_and_checked(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (project / "pyproject.toml").write_text('[tool.tpulint]\nmin-severity = "slow"\n')
    assert ("train.py", 3) not in severities(capsys)
    assert ("train.py", 3) in severities(capsys, "--min-severity", "cosmetic")
    (project / "pyproject.toml").write_text('[tool.tpulint]\nmin-severity = "high"\n')
    assert 2 == run(["check"])
    assert (
        "`tool.tpulint.min-severity` must be one of 'blocks', 'slow', 'cosmetic'" in capsys.readouterr().err
    )
