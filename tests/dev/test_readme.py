"""README shows what the commands print today, with the versions and figures on record."""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from pathlib import Path

import pytest

from tpulint.cli import run
from tpulint.dev import programs_page
from tpulint.evidence import lock
from tpulint.settings import load

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
MNIST = """\
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        return self.fc(x)


loader = DataLoader(TensorDataset(torch.randn(256, 64), torch.randint(10, (256,))), batch_size=32)
"""


def block(language: str, containing: str = "") -> str:
    """The first code block in a language that contains a text."""
    blocks = re.findall(rf"```{language}\n(.*?)```", README, re.DOTALL)
    return next(str(text) for text in blocks if containing in text)


def side(diff: str, drop: str) -> str:
    """The lines of a diff without those of one side."""
    return "".join(f"{line[1:]}\n" for line in diff.splitlines() if not line.startswith(drop))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist.py").write_text(MNIST)
    (tmp_path / "train.py").write_text(side(block("diff"), "+"))
    return tmp_path


def test_the_diff_is_the_result_of_fix(folder: Path) -> None:
    assert run(["fix", "--isolated", "--no-cache", "--unsafe-fixes", "-q", "."]) == 0
    assert (folder / "train.py").read_text() == side(block("diff"), "-")


def test_the_findings_are_those_of_check(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["check", "--isolated", "--no-cache", "train.py"])
    printed = capsys.readouterr().out
    _, _, shown = block("console", "tpulint check train.py").partition("\n")
    assert shown.strip() in printed


def test_the_versions_are_those_of_the_evidence() -> None:
    recorded = lock.read(ROOT / "fixtures" / lock.NAME).versions
    for name in ("torch", "torchvision", "torchax", "jax", "libtpu"):
        assert f"{name} {recorded[name].partition('+')[0]}" in README
    metadata = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    pythons = re.findall(r"Python :: (3\.\d+)", " ".join(metadata["classifiers"]))
    assert f"Python {', '.join(pythons)}" in README


def test_the_figures_are_those_of_the_data() -> None:
    cases = json.loads((ROOT / "docs/data/evidence.json").read_text())["cases"]
    verified = sum(case["state"] == "verified" for case in cases)
    assert f"{verified} of {len(cases)} fixture cases are verified" in README
    data = programs_page.read(ROOT)
    results: Counter[str] = Counter()
    for entry in data["program"]:
        results[entry["result"]] += entry.get("programs", 1)
    repositories = {entry["repository"] for entry in data["program"]}
    assert f"{results.total()} programs of {len(repositories)} public repositories" in README
    right = results["same"] + results["close"]
    counts = f"{right} give the same results, up to rounding; {results['differs']} differ by more; "
    assert f"{counts}{results['fails']} fail" in README
    rounds = [entry for entry in data["round"] if "right_at_first" in entry]
    right, tried = (sum(entry[key] for entry in rounds) for key in ("right_at_first", "programs"))
    assert f"{right} of {tried} ({right / tried:.0%})".replace("%", " %") in README
    rounds = [entry for entry in data["round"] if "wrong_without_error" in entry]
    wrong, tried = (sum(entry[key] for entry in rounds) for key in ("wrong_without_error", "programs"))
    counted = f"{wrong} of the {tried} ({wrong / tried:.0%})"
    assert f"{counted} gave different results".replace("%", " %") in README
    rules = len([path for path in (ROOT / "docs/rules").glob("*.md") if path.name != "README.md"])
    assert f"[{rules} rules](docs/rules/README.md)" in README
    programs = sum(path.is_dir() for path in (ROOT / "fixtures/programs").iterdir())
    assert f"[{programs} programs](fixtures/programs)" in README


def test_the_settings_and_hooks_exist(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(block("toml"))
    assert load(tmp_path).ignore == ("TPU103",)
    hooks = (ROOT / ".pre-commit-hooks.yaml").read_text()
    for name in re.findall(r"- id: (\S+)", block("yaml")):
        assert f"- id: {name}\n" in hooks
