"""docs/programs.md: the data is complete, and the page shows all of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import pytest

from tpulint.dev import programs_page, render_docs
from tpulint.dev.programs_page import Entry

ROOT = Path(__file__).parents[2]
DATA = programs_page.read(ROOT)
OPTIONAL = {"programs", "lines", "deviation", "shift", "changes", "execution", "note"}
REQUIRED = {"repository", "commit", "program", "result"}


def label(entry: Entry) -> str:
    return f"{entry.get('repository')}: {entry.get('program')}"


@pytest.mark.parametrize("entry", DATA["program"], ids=label)
def test_program_has_the_required_keys_and_known_values(entry: Entry) -> None:
    assert set(entry) >= REQUIRED
    assert set(entry) <= REQUIRED | OPTIONAL
    assert re.fullmatch(r"[\w.-]+/[\w.-]+", entry["repository"])
    assert re.fullmatch(r"[0-9a-f]{7,40}", entry["commit"])
    assert entry["result"] in programs_page.RESULTS
    assert entry.get("execution", "call by call") in {"call by call", "partly call by call"}
    assert entry["result"] in {"same", "fails"} or entry["deviation"]
    assert entry.get("programs", 2) > 1
    lines = entry.get("lines", 1)
    assert all(count > 0 for count in (lines if isinstance(lines, list) else [lines]))


def test_no_program_is_listed_twice() -> None:
    counts = Counter((entry["repository"], entry["program"]) for entry in DATA["program"])
    assert [pair for pair, count in counts.items() if count > 1] == []


def test_repository_has_one_commit() -> None:
    pairs = {(entry["repository"], entry["commit"]) for entry in DATA["program"]}
    assert [name for name, count in Counter(name for name, _ in pairs).items() if count > 1] == []


def test_programs_of_this_repository_are_its_fixtures() -> None:
    folders = {path.name for path in (ROOT / "fixtures" / "programs").iterdir() if path.is_dir()}
    assert {entry["name"] for entry in DATA["own"]} == folders


def test_no_more_programs_of_a_round_are_right_than_were_run() -> None:
    for entry in DATA["round"]:
        assert entry["source"] in {"repository", "library", "written"}
        counts = [entry.get(key, 0) for key in ("right_at_first", "right_now", "wrong_without_error")]
        assert max(counts) <= entry["programs"], entry["subjects"]


def test_page_is_generated_with_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ROOT / programs_page.PAGE not in render_docs.stale(ROOT)
    monkeypatch.setattr(programs_page, "render", lambda _: "another page")
    assert ROOT / programs_page.PAGE in render_docs.stale(ROOT)


def rendered(tmp_path: Path, *programs: str) -> list[str]:
    """The lines of a page with these entries only."""
    path = tmp_path / programs_page.DATA
    path.parent.mkdir(parents=True)
    tables = [
        *(f"[[program]]\n{text}" for text in programs),
        '[[own]]\nname="gan"\nabout="a | b"',
        '[[read]]\nrepository="e/f"',
        '[[library]]\nprogram="BERT"\nabout="loop"\nresult="same"',
        '[[round]]\nsource="written"\nprograms=3\nright_at_first=2\nsubjects="GANs"',
    ]
    path.write_text("\n".join(tables), encoding="utf-8")
    return programs_page.render(tmp_path).splitlines()


def program(repository: str, result: str, *more: str) -> str:
    lines = (f'repository="{repository}"', 'commit="0123abc"', 'program="main.py"', f'result="{result}"')
    return "\n".join((*lines, *more))


def rows(lines: Sequence[str], beginning: str) -> list[str]:
    return [line for line in lines if line.startswith(beginning)]


def test_programs_are_sorted_by_repository_and_linked_at_their_commit(tmp_path: Path) -> None:
    lines = rendered(tmp_path, program("b/x", "same"), program("C/y", "fails"), program("a/z", "same"))
    assert rows(lines, "| [") == [
        "| [a/z](https://github.com/a/z/tree/0123abc) | main.py |  | same |  |  |",
        "| [b/x](https://github.com/b/x/tree/0123abc) | main.py |  | same |  |  |",
        "| [C/y](https://github.com/C/y/tree/0123abc) | main.py |  | fails |  |  |",
    ]


def test_deviation_names_the_shift_and_notes_name_execution_and_changes(tmp_path: Path) -> None:
    more = ('lines=[3, 4]\ndeviation="0.1 %"\nshift="0.2 %"', 'execution="call by call"\nnote="it prints"')
    lines = rendered(tmp_path, program("a/b", "close", *more, 'changes="one process"'))
    assert rows(lines, "| [a/b]")[0].split(" | ")[2:] == [
        "3 or 4",
        "close",
        "0.1 % (shift: 0.2 %)",
        "call by call: it prints; changes to the original: one process |",
    ]


def test_results_are_counted_by_program_and_by_entry(tmp_path: Path) -> None:
    lines = rendered(tmp_path, program("a/b", "close", "programs=7"), program("a/c", "close"))
    assert rows(lines, "| `close`")[0].endswith(" | 8 | 2 |")
    assert rows(lines, "| `fails`")[0].endswith(" | 0 | 0 |")
    assert "The table has 8 programs of 2 repositories, each at the commit that its link leads to." in lines


def test_other_tables_are_shown_and_bars_in_cells_escaped(tmp_path: Path) -> None:
    lines = rendered(tmp_path, program("a/b", "same"))
    assert "| `gan` | a \\| b |" in lines
    assert "| BERT | loop | same |  |" in lines
    assert "| 3 | 2 |  |  | GANs |  |" in lines
    assert rows(lines, "Six more repositories")[0].endswith("e/f.")
