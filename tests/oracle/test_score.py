"""The scorer, on a package of one file that nobody needs to install."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).with_name("score.py")
MAP = Path(__file__).parents[1] / "oracle_map.json"
Scored = Callable[..., str]


def site(row: int, group: str, *, end: int = 0, kind: str = "", origin: int = 0) -> dict[str, Any]:
    made = [{"package": "pack", "file": "made.py", "line": origin, "end_line": origin}]
    return {
        "package": "pack",
        "file": "model.py",
        "start_line": row,
        "end_line": end or row,
        "kind": kind or group,
        "group": group,
        "reach": "i",
        "origins": made if origin else [],
    }


#: Lines 1 to 9 ran; of 9 it is not known whether all of it did.
SITES = [
    site(1, "item"),
    site(3, "branch", end=4),
    site(5, "cpu_mix", origin=20),
    site(6, "op_missing"),
    site(30, "item", kind="int_float_index"),
]


def found(code: str, row: int, end: int = 0, file: str = "model.py") -> dict[str, Any]:
    return {
        "filename": f"/packages/pack/{file}",
        "location": {"row": row, "column": 1},
        "end_location": {"row": end or row, "column": 9},
        "code": code,
    }


@pytest.fixture
def scored(tmp_path: Path) -> Scored:
    lines = "".join(json.dumps(record) + "\n" for record in SITES)
    (tmp_path / "sites.jsonl").write_text(lines)
    for name, rows in (("executed", list(range(1, 10))), ("ambiguous", [9])):
        with gzip.open(tmp_path / f"{name}.json.gz", "wt") as stream:
            json.dump({"pack": {"model.py": rows}}, stream)

    def run(*findings: dict[str, Any], options: tuple[str, ...] = (), fails: bool = False) -> str:
        (tmp_path / "report.json").write_text(json.dumps(findings))
        command = [sys.executable, str(SCRIPT), "--data", str(tmp_path), "--packages", "/packages"]
        command += ["--report", str(tmp_path / "report.json"), "--list", "missed", "--list", "wrong"]
        done = subprocess.run([*command, *options], capture_output=True, encoding="utf-8", check=False)
        assert fails == bool(done.returncode), done.stderr
        return done.stdout + done.stderr

    return run


def recall(text: str, name: str) -> list[int]:
    """Of a row of the first table: places, found, touched."""
    first = _row(text.partition("\n\n")[0], name)
    return [int(first[0]), int(first[1]), int(first[3])]


def precision(text: str, name: str) -> list[int]:
    """Of a row of the second table: findings on lines that ran, right, wrong."""
    return [int(figure) for figure in _row(text.partition("\n\n")[2], name)[:3]]


def _row(part: str, name: str) -> list[str]:
    (line,) = (line for line in part.splitlines() if line.startswith(f"  {name} "))
    return line.removeprefix(f"  {name}").split()


def test_a_hazard_is_found_by_a_finding_of_its_group_on_any_of_its_lines(scored: Scored) -> None:
    text = scored(found("TPU303", 4))
    assert [1, 1, 1] == recall(text, "branch")
    assert [4, 1, 1] == recall(text, "all hazards")
    assert [1, 1, 0] == precision(text, "branch")
    assert [1, 1, 0] == precision(text, "all but gaps")


def test_a_finding_of_another_group_is_a_false_positive_at_the_hazard(scored: Scored) -> None:
    text = scored(found("TPU303", 1))
    assert [2, 0, 1] == recall(text, "item")
    assert [1, 0, 1] == precision(text, "branch")
    assert "missed pack/model.py:1 item (reach i)\n" in text
    assert "other hazard pack/model.py:1 TPU303\n" in text


def test_a_hazard_is_found_by_a_finding_of_its_kind(scored: Scored) -> None:
    text = scored(found("TPU404", 30))
    assert [2, 1, 1] == recall(text, "item")
    assert [1, 1, 0] == precision(text, "dyn_shape+int_float_index")


def test_a_host_tensor_is_found_where_it_was_created(scored: Scored) -> None:
    text = scored(found("TPU501", 20, file="made.py"))
    assert [1, 1, 1] == recall(text, "cpu_mix")
    assert [1, 1, 0] == precision(text, "cpu_mix")


def test_a_finding_on_a_line_that_ran_correctly_is_a_false_positive(scored: Scored) -> None:
    text = scored(found("TPU401", 8))
    assert [1, 0, 1] == precision(text, "mask")
    assert "wrong pack/model.py:8 TPU401\n" in text


def test_a_finding_on_a_line_that_never_ran_is_not_counted(scored: Scored) -> None:
    assert [0, 0, 0] == precision(scored(found("TPU401", 50), found("TPU401", 1, file="b.py")), "mask")


def test_a_finding_on_an_operator_missing_in_torchax_is_not_counted(scored: Scored) -> None:
    text = scored(found("TPU401", 6))
    assert [1, 0, 0] == precision(text, "mask")
    assert [1, 0, 1] == recall(text, "op_missing")


def test_a_finding_on_an_uncertain_line_is_a_false_positive_only_with_strict(scored: Scored) -> None:
    assert [1, 0, 0] == precision(scored(found("TPU401", 9)), "mask")
    assert [1, 0, 1] == precision(scored(found("TPU401", 9), options=("--strict",)), "mask")


def test_a_long_statement_is_matched_by_its_first_line(scored: Scored) -> None:
    assert [0, 0, 0] == precision(scored(found("TPU301", 31, 400)), "host_copy+item")
    assert [1, 1, 1] == recall(scored(found("TPU303", 1, 400)), "branch")


def test_duplicate_findings_are_counted_once(scored: Scored) -> None:
    assert [1, 0, 1] == precision(scored(found("TPU401", 8), found("TPU401", 8)), "mask")


def test_rules_that_are_not_about_hazards_are_listed_and_not_counted(scored: Scored) -> None:
    text = scored(found("TPU101", 1), found("TPU101", 2), found("TPU307", 4))
    assert "about no hazard: TPU101 2, TPU307 1\n" in text
    assert [4, 0, 0] == recall(text, "all hazards")


def test_a_rule_about_hazards_must_be_in_the_map(scored: Scored, tmp_path: Path) -> None:
    stored = json.loads(MAP.read_text())
    del stored["TPU303"]
    (tmp_path / "map.json").write_text(json.dumps(stored))
    text = scored(options=("--map", str(tmp_path / "map.json")), fails=True)
    assert f"{tmp_path}/map.json does not say what TPU303 should find\n" == text


def test_the_map_has_every_hazard_rule_and_only_groups_of_the_data(scored: Scored) -> None:
    scored()  # or it would have failed
    records = SCRIPT.with_name("sites.jsonl").read_text().splitlines()
    known = {json.loads(line)[what] for line in records for what in ("group", "kind")}
    named = {group for groups in json.loads(MAP.read_text()).values() for group in groups}
    assert set() == named - known
