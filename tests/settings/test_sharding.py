"""Sharding rules: those that are proposed, and those in pyproject.toml."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tpulint.cli import run
from tpulint.settings import SettingsError, load
from tpulint.sharding_rules import propose_rules

_LAYERS = """
class Block(nn.Module):
    def __init__(self, width):
        self.q_proj = nn.Linear(width, width, bias=False)
        self.o_proj = torch.nn.Linear(width, width)
        self.to_out = nn.ModuleList([nn.Linear(width, width), nn.Dropout(0.1)])
        self.fc1, self.head = nn.Linear(width, width), nn.Linear(width, 10)
        self.w1 = Linear(width, width, True)
        self.key = nn.Embedding(width, width)
        self.classifier = nn.Linear(width, 2)
"""


def test_rules_are_proposed_for_linear_layers_with_known_names() -> None:
    expected = {
        r".*\.q_proj\.weight": ("model", ""),
        r".*\.o_proj\.weight": ("", "model"),
        r".*\.to_out\.0\.weight": ("", "model"),
        r".*\.w1\.weight": ("model", ""),
        r".*\.w1\.bias": ("model",),
    }
    assert expected == propose_rules([ast.parse(_LAYERS)])


def test_proposed_rules_are_settings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "model.py").write_text(_LAYERS, encoding="utf-8")
    assert run(["sharding", str(tmp_path)]) == 0
    (tmp_path / "pyproject.toml").write_text(capsys.readouterr().out, encoding="utf-8")
    assert propose_rules([ast.parse(_LAYERS)]) == dict(load(tmp_path).sharding)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('sharding = ["a"]', "must be a table of patterns"),
        ('sharding = { "a(" = ["model"] }', "not a valid regular expression"),
        ('sharding = { a = ["tensor"] }', "not 'tensor'"),
        ("sharding-devices = 0", "a positive number of devices"),
    ],
)
def test_wrong_rules_are_refused(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(f"[tool.tpulint]\n{line}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=message):
        load(tmp_path)
