"""The corpus command, on a project of a few lines that is already in place, so nothing is downloaded."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("corpus.py")
MODEL = "import torch\n\n\ndef place(x: torch.Tensor) -> torch.Tensor:\n    return x.cuda()\n"


class Corpus:
    """A corpus of one project, and its record."""

    def __init__(self, folder: Path) -> None:
        self.sources = folder / "sources" / "tiny-1.0" / "tiny"
        self.record = folder / "record"
        self.sources.mkdir(parents=True)
        self.write("model.py", MODEL)

    def write(self, name: str, text: str) -> None:
        (self.sources / name).write_text(text, encoding="utf-8")

    def run(self, *options: str) -> tuple[int, str]:
        command = [sys.executable, str(SCRIPT), "tiny==1.0", *options]
        command += ["--corpus", str(self.sources.parents[1]), "--record", str(self.record)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        return done.returncode, done.stdout + done.stderr

    @property
    def listing(self) -> str:
        return (self.record / "findings" / "tiny.txt").read_text(encoding="utf-8")

    @property
    def snapshot(self) -> dict[str, object]:
        stored: dict[str, dict[str, object]] = json.loads((self.record / "snapshot.json").read_text())
        return stored["tiny"]


@pytest.fixture
def corpus(tmp_path: Path) -> Corpus:
    """On record as it is."""
    made = Corpus(tmp_path)
    made.record.mkdir()
    code, output = made.run("--bless")
    assert code == 0, output
    return made


def test_a_corpus_without_a_recorded_snapshot_fails(tmp_path: Path) -> None:
    code, output = Corpus(tmp_path).run()
    assert code == 1
    assert "tiny: nothing is on record" in output


def test_record_lists_version_counts_and_location_of_each_finding(corpus: Corpus) -> None:
    summary = corpus.snapshot
    assert ("1.0", 1, 5, [], 1) == tuple(
        summary[key] for key in ("version", "files", "lines", "errors", "findings")
    )
    assert "tiny/model.py:5:12: TPU101\n" == corpus.listing
    code, output = corpus.run()
    assert code == 0
    assert "1 files, 5 lines, 0 errors, 1 findings, as on record" in output


def test_a_new_finding_is_shown_and_fails(corpus: Corpus) -> None:
    corpus.write("model.py", MODEL + "\n\ndef again(x: torch.Tensor) -> torch.Tensor:\n    return x.cuda()\n")
    code, output = corpus.run()
    assert code == 1
    assert "+tiny/model.py:9:12: TPU101\n" in output
    assert "-tiny/model.py" not in output
    assert "tiny: TPU101 1 -> 2\n" in output


def test_a_lost_finding_is_shown_and_fails(corpus: Corpus) -> None:
    corpus.write("model.py", MODEL.replace("x.cuda()", "x"))
    code, output = corpus.run()
    assert code == 1
    assert "-tiny/model.py:5:12: TPU101\n" in output
    assert "tiny: TPU101 1 -> 0\n" in output


def test_a_finding_that_moves_is_a_difference_although_the_count_is_the_same(corpus: Corpus) -> None:
    corpus.write("model.py", "\n" + MODEL)
    code, output = corpus.run()
    assert code == 1
    assert "-tiny/model.py:5:12: TPU101\n+tiny/model.py:6:12: TPU101\n" in output
    assert "tiny: TPU101 1 as before, with other places or messages\n" in output


def test_a_changed_message_at_the_same_location_is_a_difference(corpus: Corpus) -> None:
    path = corpus.record / "snapshot.json"
    stored = json.loads(path.read_text())
    stored["tiny"]["codes"]["TPU101"]["digest"] = "of another message"
    path.write_text(json.dumps(stored))
    code, output = corpus.run()
    assert code == 1
    assert "tiny: TPU101 1 as before, with other places or messages\n" in output


def test_a_changed_applicability_of_a_fix_is_a_difference(corpus: Corpus) -> None:
    path = corpus.record / "snapshot.json"
    stored = json.loads(path.read_text())
    now = stored["tiny"]["codes"]["TPU101"]["fixes"]
    stored["tiny"]["codes"]["TPU101"]["fixes"] = {"none": 1}
    path.write_text(json.dumps(stored))
    code, output = corpus.run()
    assert code == 1
    assert f"tiny: TPU101 fixes {{'none': 1}} -> {now}\n" in output


def test_a_file_that_cannot_be_analyzed_is_counted_and_shown(corpus: Corpus) -> None:
    (corpus.sources / "binary.py").write_bytes(b"\0\xff\xfe")
    code, output = corpus.run()
    assert code == 1
    assert "tiny: files were 1, are 2\n" in output
    assert "tiny: errors were []" in output
    assert "tiny/binary.py" in output


def test_a_silently_skipped_file_is_an_error_even_with_bless(corpus: Corpus) -> None:
    (corpus.sources / ".gitignore").write_text("model.py\n")
    code, output = corpus.run("--bless")
    assert code == 1
    assert "1 files are skipped in silence" in output
    assert "tiny/model.py:5:12: TPU101\n" == corpus.listing


def test_bless_records_the_difference_and_keeps_other_projects(corpus: Corpus) -> None:
    path = corpus.record / "snapshot.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"other": {"version": "2"}}))
    corpus.write("model.py", "\n" + MODEL)
    assert corpus.run("--bless")[0] == 0
    assert corpus.run()[0] == 0
    assert "tiny/model.py:6:12: TPU101\n" == corpus.listing
    assert {"version": "2"} == json.loads(path.read_text())["other"]


def test_an_unknown_project_exits_2() -> None:
    done = subprocess.run([sys.executable, str(SCRIPT), "unheard_of"], capture_output=True, check=False)
    assert done.returncode == 2
