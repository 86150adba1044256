from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from tpulint.finding import Applicability, Edits, FileError, Finding, Severity
from tpulint.report import github, sarif
from tpulint.report import json as as_json

if TYPE_CHECKING:
    from tpulint.rules_api import Rule

Make = Callable[..., Finding]
EditsOf = Callable[[list[Finding]], Edits]


@dataclass
class FakeRule:
    """What SARIF needs to know of a rule."""

    code: str = "TPU301"
    summary: str = "`.item()` in traced code"
    doc: str = "`.item()` in traced code.\n\n## What it does\nFlags it.\n"
    url: str | None = "https://example.org/TPU301"
    severity: Severity = Severity.BLOCKS


def test_json_has_the_documented_keys(make: Make, edits_of: EditsOf, folder: Path) -> None:
    finding = make(fix=Applicability.UNSAFE, related=((40, 1, "jitted here"),))
    expected = {
        "code": "TPU301",
        "name": "item-in-traced-code",
        "message": "`.item()` waits for the device",
        "severity": "blocks",
        "filename": str(folder / "pkg/model.py"),
        "location": {"row": 12, "column": 9},
        "end_location": {"row": 12, "column": 17},
        "fix": {
            "title": "keep the tensor",
            "applicability": "unsafe",
            "edits": [
                {
                    "location": {"row": 12, "column": 9},
                    "end_location": {"row": 12, "column": 17},
                    "content": "y",
                }
            ],
        },
        "related": [
            {
                "filename": str(folder / "pkg/model.py"),
                "location": {"row": 40, "column": 1},
                "message": "jitted here",
            }
        ],
        "url": "https://example.org/item-in-traced-code",
    }
    assert [expected, {**expected, "fix": None, "related": []}] == json.loads(
        as_json.render([finding, make()], edits_of([finding]))
    )


def test_a_fix_that_has_no_edits_is_given_without_any(make: Make) -> None:
    finding = make(fix=Applicability.UNSAFE)
    (found,) = json.loads(as_json.render([finding], {}))
    assert {"title": "keep the tensor", "applicability": "unsafe", "edits": []} == found["fix"]
    (result,) = log([finding])["results"]
    assert "fixes" not in result


def test_json_of_nothing_is_an_empty_list() -> None:
    assert [] == json.loads(as_json.render([], {}))


def test_json_escapes_undecodable_file_names(make: Make) -> None:
    finding = make(path="\udcff.py")
    assert as_json.render([finding], {}).isascii()


def test_github_commands_are_escaped(make: Make, folder: Path) -> None:
    finding = make(path="a,b:c.py", message="50% of\nit")
    where = str(folder).replace(":", "%3A").replace(",", "%2C")
    expected = (
        f"::error title=tpulint (TPU301),file={where}/a%2Cb%3Ac.py,line=12,col=9,endLine=12,endColumn=17"
        "::a,b:c.py:12:9: TPU301 50%25 of%0Ait\n"
    )
    assert expected == github.render([finding])


def test_github_annotation_over_several_lines_has_no_columns(make: Make) -> None:
    assert "line=12,endLine=14::" in github.render([make(end=(14, 2))])


def log(
    findings: list[Finding], errors: list[FileError] | None = None, edits: Edits | None = None
) -> dict[str, Any]:
    text = sarif.render(findings, errors or [], cast("list[Rule]", [FakeRule()]), edits or {})
    document = json.loads(text)
    assert "2.1.0" == document["version"]
    (run,) = document["runs"]
    return cast("dict[str, Any]", run)


def test_sarif_describes_rules_and_locations(make: Make, edits_of: EditsOf, folder: Path) -> None:
    finding = make(fix=Applicability.SAFE, related=((40, 1, "jitted here"),))
    run = log([finding], edits=edits_of([finding]))
    (rule,) = run["tool"]["driver"]["rules"]
    assert ("TPU301", "https://example.org/TPU301") == (rule["id"], rule["helpUri"])
    assert "unicodeCodePoints" == run["columnKind"]
    assert folder.as_uri() + "/" == run["originalUriBaseIds"]["SRCROOT"]["uri"]
    (result,) = run["results"]
    artifact = {"uri": "pkg/model.py", "uriBaseId": "SRCROOT"}
    region = {"startLine": 12, "startColumn": 9, "endLine": 12, "endColumn": 17}
    assert ("TPU301", 0) == (result["ruleId"], result["ruleIndex"])
    assert [{"physicalLocation": {"artifactLocation": artifact, "region": region}}] == result["locations"]
    assert [
        {
            "description": {"text": "keep the tensor (safe)"},
            "artifactChanges": [
                {
                    "artifactLocation": artifact,
                    "replacements": [{"deletedRegion": region, "insertedContent": {"text": "y"}}],
                }
            ],
        }
    ] == result["fixes"]
    assert ["jitted here"] == [place["message"]["text"] for place in result["relatedLocations"]]


@pytest.mark.parametrize(
    ("severity", "command", "level"),
    [
        (Severity.BLOCKS, "error", "error"),
        (Severity.SLOW, "warning", "warning"),
        (Severity.COSMETIC, "notice", "note"),
    ],
)
def test_severity_decides_on_the_level(make: Make, severity: Severity, command: str, level: str) -> None:
    finding = make(severity=severity)
    assert github.render([finding]).startswith(f"::{command} ")
    assert [level] == [result["level"] for result in log([finding])["results"]]
    assert [severity] == [found["severity"] for found in json.loads(as_json.render([finding], {}))]


def test_sarif_omits_fixes_that_are_only_displayed(make: Make, edits_of: EditsOf) -> None:
    finding = make(fix=Applicability.DISPLAY)
    (result,) = log([finding], edits=edits_of([finding]))["results"]
    assert "fixes" not in result


def test_sarif_says_which_file_could_not_be_read(folder: Path) -> None:
    run = log([], [FileError("/elsewhere/b c.py", "not text")])
    (invocation,) = run["invocations"]
    assert invocation["executionSuccessful"] is False
    (notice,) = invocation["toolExecutionNotifications"]
    assert "not text" == notice["message"]["text"]
    assert (
        (notice["locations"][0]["physicalLocation"]["artifactLocation"]["uri"])
        == "file:///elsewhere/b%20c.py"
    )


def test_sarif_lists_the_code_of_a_finding_without_a_rule(make: Make) -> None:
    run = log([make(code="TPU000"), make()])
    assert ["TPU000", "TPU301"] == [rule["id"] for rule in run["tool"]["driver"]["rules"]]
    assert [0, 1] == [result["ruleIndex"] for result in run["results"]]
