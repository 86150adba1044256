"""`tpulint report` on small projects: the collected findings, and the pages."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tpulint.cli import run
from tpulint.invocation import asked_for
from tpulint.overview import Overview, collect, pages

FILES = {
    "train.py": """\
import torch
from models.net import Net

torch.backends.cudnn.benchmark = True
model = Net().cuda()
if __name__ == "__main__":
    print(model(torch.ones(2, 4, device="cuda")))
""",
    "models/__init__.py": "",
    "models/net.py": """\
import torch
import triton


class Net(torch.nn.Module):
    def forward(self, x):
        if x.sum() > 0:
            return x[x > 0].mean()
        return scaled[(1,)](x)


@triton.jit
def scaled(x):
    return x * 2


if __name__ == "__main__":
    print(Net())
""",
    "quiet.py": "if __name__ == '__main__':\n    print(1)\n",
    "requirements.txt": "torch==2.13.0+cu121\nflash-attn\n",
    "broken.py": "def f(:\n",
}
COMPARED = {"what": "losses", "state": "same", "count": 3, "difference": 1e-7, "drift": 2e-7, "detail": ""}
MEMORY = {"arguments": 4 * 2**30, "temporary": 8 * 2**30, "total": 13 * 2**30}
VERIFICATIONS = [
    {
        "target": "train.py --steps 3",
        "state": "same",
        "reason": "",
        "compared": [COMPARED],
        "compiled": [
            {
                "topology": "v5e:2x2",
                "state": "compiles",
                "memory": MEMORY,
                "hbm": 16 * 2**30,
                "fits": True,
                "batch": 8,
                "largest_batch": 16,
            }
        ],
    },
    {
        "target": "models/net.py:Net",
        "state": "not run",
        "reason": "no `<input>`",
        "compared": [],
        "compiled": [],
    },
]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    (tmp_path / "results.json").write_text(
        json.dumps({"schema_version": 1, "device": "cpu", "verifications": VERIFICATIONS})
    )
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def overview(project: Path) -> Overview:
    return collect(asked_for((".",), isolated=True), [project / "results.json"], jobs=1, cache=False)


def test_entry_points_are_programs_that_nothing_imports(overview: Overview) -> None:
    (entry,) = overview.entry_points
    assert ("train.py", 2, "one chip", False) == (entry.path, entry.files, entry.chips, entry.is_migrated)
    assert ("triton",) == entry.packages
    assert entry.findings.blocks > 3
    assert 1 == entry.findings.cosmetic
    assert entry.fixable + sum(len(one.places) for one in entry.by_hand) == entry.findings.total


def test_what_is_left_is_grouped_by_rule_the_most_severe_first(overview: Overview) -> None:
    by_code = {one.code: one for one in overview.by_hand}
    assert "days" == by_code["TPU803"].effort
    assert by_code["TPU803"].places[0].startswith("models/net.py:")
    severities = [one.severity for one in overview.by_hand]
    assert sorted(severities, key=["blocks", "slow", "cosmetic"].index) == severities
    assert overview.effort["days"] == sum(len(o.places) for o in overview.by_hand if o.effort == "days")


def test_files_packages_and_fixes_are_counted(overview: Overview) -> None:
    assert {"train.py", "models/net.py", "requirements.txt", "broken.py"} == {
        r.path for r in overview.modules
    }
    assert [("triton", ("models/net.py",))] == [(one.name, one.files) for one in overview.packages]
    assert overview.findings.total == sum(row.findings.total for row in overview.modules)
    assert {"TPU101", "ENV101"} <= {code for code, _, _ in overview.fixed}


def test_no_file_changes_and_nothing_is_executed(project: Path) -> None:
    (project / "train.py").write_text(FILES["train.py"] + "open('executed', 'w')\n")
    before = {path: path.read_bytes() for path in project.rglob("*.py")}
    assert 0 == run(["report", "--isolated", "--no-cache", "-j1", "-q"])
    assert before == {path: path.read_bytes() for path in project.rglob("*.py")}
    assert not (project / "executed").exists()


class Page(HTMLParser):
    """Tags that stay open, addresses that are loaded, and all text of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loaded: list[str] = []
        self.labels: list[str] = []
        self.text = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "rect", "circle", "line"):
            self.open.append(tag)
        self.loaded += [str(value) for name, value in attrs if name in ("src", "xlink:href") and value]
        self.loaded += [tag] if tag in ("script", "link", "iframe") else []
        self.labels += [str(value) for name, value in attrs if name == "aria-label"]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag in self.open[-1:] and tag not in ("rect", "circle", "line"):
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert tag == self.open.pop()

    def handle_data(self, data: str) -> None:
        self.text += data


def test_the_page_is_whole_and_loads_nothing(project: Path) -> None:
    assert 0 == run(["report", "--isolated", "--no-cache", "-j1", "--evidence", "results.json"])
    text = (project / "tpulint-report.html").read_text()
    page = Page(text)
    assert [] == page.open
    assert [] == page.loaded
    assert "url(http" not in text
    assert "@import" not in text
    words = " ".join(page.text.split())
    assert "train.py 2 files with what it imports" in words
    assert "models/net.py" in words
    assert "13.00 of 16 GiB, fits with a batch of 8; up to a batch of 16" in words
    assert "losses: same, 3 compared, largest relative difference 1.0e-07 (drift 2.0e-07)" in words
    assert "no `<input>`" not in text
    assert "<code>&lt;input&gt;</code>" in text  # as text, not as a tag


def test_pictures_say_in_words_and_patterns_what_they_show(project: Path) -> None:
    run(["report", "--isolated", "--no-cache", "-j1", "-q", "--evidence", "results.json"])
    text = (project / "tpulint-report.html").read_text()
    labels = Page(text).labels
    assert any(label.startswith("Findings of 4 files: ") for label in labels)
    assert any("Memory of train.py --steps 3 on v5e:2x2: 13.00 of 16 GiB" in label for label in labels)
    used = set(re.findall(r'fill="url\(#(p-\w+)\)"', text))
    assert used == set(re.findall(r'<pattern id="(p-\w+)"', text))


def test_markdown_and_json_go_to_standard_output(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["report", "--isolated", "--no-cache", "-j1", "-q", "--evidence", "results.json"]
    assert 0 == run([*options, "--output-format", "json"])
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert 1 == document["schema_version"]
    assert VERIFICATIONS == document["evidence"]
    assert 0 == run([*options, "--output-format", "markdown"])
    text = capsys.readouterr().out
    rows = text.replace("\\|", "").splitlines()
    for head, rule in pairwise(rows):
        if rule.startswith("| --"):
            assert head.count("|") == rule.count("|")
    assert "| train.py --steps 3 on v5e:2x2 | 13.00 of 16 GiB, fits" in text
    assert "\n## Entry points\n\n| program |" in text
    assert re.search(r"\|\n\n## Left by hand", text)


def test_a_project_without_findings_has_a_page_that_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.py").write_text("x = 1\n")
    monkeypatch.chdir(tmp_path)
    assert 0 == run(["report", "--isolated", "--no-cache", "-j1", "-q", "-o", "page.html"])
    words = " ".join(Page((tmp_path / "page.html").read_text()).text.split())
    assert "No program of the project has findings" in words
    assert "Nothing is left after tpulint fix --unsafe-fixes" in words


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--evidence", "missing.json"], "missing.json: cannot be read: No such file or directory"),
        (["--evidence", "train.py"], "train.py: has no results of `tpulint verify --output-format json`"),
        (["--evidence", "half.json"], "half.json: has no results of `tpulint verify --output-format json`"),
        (["binary.py", "train.py"], "binary.py: holds null bytes, so it is not Python text"),
        (["-"], "standard input is not read"),
        (["-o", "missing/page.html"], "missing/page.html: cannot be written: No such file or directory"),
        (["nowhere"], "nowhere: no such file or folder"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    project: Path, arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (project / "half.json").write_text('{"device": "cpu", "verifications": [{"target": "train.py"}]}')
    (project / "binary.py").write_bytes(b"x = 1\0")
    assert 2 == run(["report", "--isolated", "--no-cache", "-j1", *arguments])
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_html_in_names_and_messages_is_text_in_markdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "a <b>"
    folder.mkdir()
    (folder / "train<i>.py").write_text("import torch\nx = torch.zeros(3).cuda()\n")
    monkeypatch.chdir(folder)
    assert 0 == run(["report", "--isolated", "--no-cache", "-j1", "-q", "--output-format", "markdown"])
    text = capsys.readouterr().out
    assert "# a &lt;b>: the way to TPU" == text.splitlines()[0]
    assert "| train&lt;i>.py | 1 |" in text


@pytest.mark.parametrize(
    "target",
    ["'a b.py' --steps 3", "./a\\ b.py", "a b.py:Net(depth=2)", "./a b.py:Net('it')"],
)
def test_results_are_about_the_program_that_they_name(target: str) -> None:
    assert pages.is_about(target, "a b.py")
    assert not pages.is_about(target, "b.py")
