"""Findings in pinned public projects, compared with those on record.

`make corpus` compares, `make corpus CORPUS=--bless` rewrites the record, `make corpus CORPUS=timm` looks at
one project. The sources are downloaded and unpacked once, into `.corpus/`; nothing of them is imported or
run. docs/corpus.md says how to read a difference.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import subprocess
import sys
import tempfile
import zipfile
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import islice
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
FOLDER = HERE.parents[1] / ".corpus"
SUBJECTS = {"timm": "1.0.31", "transformers": "5.23.0", "diffusers": "0.42.1"}
#: As many lines of a difference are printed for one project.
LIMIT = 100


@dataclass(frozen=True, slots=True)
class Subject:
    """A project at one version, as pip names it."""

    name: str
    version: str

    def __str__(self) -> str:
        return f"{self.name}=={self.version}"


@dataclass(frozen=True, slots=True, order=True)
class Found:
    """A finding without what changes from machine to machine.

    `file` is relative to the project's folder, `fix` is how far its fix may be trusted.
    """

    file: str
    row: int
    column: int
    code: str
    message: str
    fix: str = "none"

    def __str__(self) -> str:
        return f"{self.file}:{self.row}:{self.column}: {self.code}"


@dataclass(frozen=True, slots=True)
class Result:
    """What `tpulint check` said of one project."""

    version: str
    files: int
    lines: int
    errors: tuple[str, ...]
    findings: tuple[Found, ...]

    @property
    def summary(self) -> Mapping[str, object]:
        """The project's entry in the snapshot."""
        by_code: dict[str, list[Found]] = defaultdict(list)
        for found in self.findings:
            by_code[found.code].append(found)
        return {
            "version": self.version,
            "files": self.files,
            "lines": self.lines,
            "errors": list(self.errors),
            "findings": len(self.findings),
            "codes": {code: _entry(found) for code, found in sorted(by_code.items())},
        }

    @property
    def listing(self) -> list[str]:
        """The findings, one to a line, in order."""
        return [f"{found}\n" for found in self.findings]


@dataclass(frozen=True, slots=True)
class Record:
    """The folder that holds the snapshot and the lists of findings."""

    folder: Path

    @property
    def _snapshot(self) -> Path:
        return self.folder / "snapshot.json"

    def _listing(self, name: str) -> Path:
        return self.folder / "findings" / f"{name}.txt"

    def summaries(self) -> dict[str, Any]:
        """The entries of the snapshot by project; none before the first one is taken."""
        if not self._snapshot.exists():
            return {}
        stored: dict[str, Any] = json.loads(self._snapshot.read_text(encoding="utf-8"))
        return stored

    def listing(self, name: str) -> list[str]:
        """The findings on record in one project."""
        path = self._listing(name)
        return path.read_text(encoding="utf-8").splitlines(keepends=True) if path.exists() else []

    def bless(self, results: Mapping[str, Result]) -> None:
        """Put the results on record; projects that were not looked at keep theirs."""
        summaries = self.summaries() | {name: result.summary for name, result in results.items()}
        self._listing("any").parent.mkdir(parents=True, exist_ok=True)
        for name, result in results.items():
            self._listing(name).write_text("".join(result.listing), encoding="utf-8")
        text = json.dumps(dict(sorted(summaries.items())), indent=2) + "\n"
        self._snapshot.write_text(text, encoding="utf-8")

    def differences(self, name: str, result: Result) -> Iterator[str]:
        """Lines that say how a result differs from the record; none where it does not."""
        old, new = self.summaries().get(name), result.summary
        if old is None:
            yield f"{name}: nothing is on record\n"
            return
        for what in ("version", "files", "lines", "errors"):
            if old[what] != new[what]:
                yield f"{name}: {what} were {old[what]}, are {new[what]}\n"
        moved = list(unified_diff(self.listing(name), result.listing, "on record", "found now", n=0))
        yield from (line for line in islice(moved, LIMIT) if not line.startswith("@@"))
        if len(moved) > LIMIT:
            yield f"... and {len(moved) - LIMIT} more lines\n"
        old_codes, new_codes = old["codes"], _codes(new)
        for code in sorted(old_codes.keys() | new_codes.keys()):
            before, after = (codes.get(code, _entry(())) for codes in (old_codes, new_codes))
            if before["count"] != after["count"]:
                yield f"{name}: {code} {before['count']} -> {after['count']}\n"
            elif before["digest"] != after["digest"]:
                yield f"{name}: {code} {after['count']} as before, with other places or messages\n"
            if before.get("fixes") != after["fixes"]:
                yield f"{name}: {code} fixes {before.get('fixes')} -> {after['fixes']}\n"


def _entry(findings: Sequence[Found]) -> Mapping[str, object]:
    lines = sorted(f"{found.file}:{found.row}:{found.code}:{found.message}\n" for found in findings)
    return {
        "count": len(findings),
        "fixes": dict(sorted(Counter(found.fix for found in findings).items())),
        "digest": hashlib.sha256("".join(lines).encode()).hexdigest()[:16],
    }


def _codes(summary: Mapping[str, object]) -> Mapping[str, Any]:
    codes = summary["codes"]
    assert isinstance(codes, Mapping)
    return codes


def sources(subject: Subject, folder: Path) -> Path:
    """The unpacked wheel of a project, downloaded where it is not there yet."""
    place = folder / f"{subject.name}-{subject.version}"
    if place.is_dir():
        return place
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".unfinished-") as work:
        pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "download"]
        subprocess.run([*pip, "--no-deps", "--only-binary=:all:", "--dest", work, str(subject)], check=True)
        (wheel,) = Path(work).glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(Path(work, "tree"))
        Path(work, "tree").rename(place)  # whole or not at all
    return place


def check(subject: Subject, place: Path) -> Result:
    """Run the installed tpulint on a folder; ends the program where a file was skipped in silence."""
    python_files = sorted(str(path) for path in place.rglob("*.py"))
    looked_at, _ = _tpulint("--show-files", str(place))
    skipped = sorted(set(python_files) - set(looked_at.splitlines()))
    if skipped:
        sys.exit(f"{subject}: {len(skipped)} files are skipped in silence, such as {skipped[0]}")
    report, complaints = _tpulint("--no-cache", "--output-format", "json", str(place))
    try:
        findings = json.loads(report)
    except ValueError:
        sys.exit(f"{subject}: no report, but\n{complaints}")
    found = (
        Found(
            Path(finding["filename"]).relative_to(place).as_posix(),
            finding["location"]["row"],
            finding["location"]["column"],
            finding["code"],
            finding["message"],
            finding["fix"]["applicability"] if finding["fix"] else "none",
        )
        for finding in findings
    )
    return Result(
        version=subject.version,
        files=len(python_files),
        lines=sum(Path(path).read_bytes().count(b"\n") for path in python_files),
        errors=tuple(line.replace(f"{place}/", "") for line in complaints.splitlines()),
        findings=tuple(sorted(found)),
    )


def _tpulint(*arguments: str) -> tuple[str, str]:
    command = [sys.executable, "-m", "tpulint", "check", "--isolated", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
    return done.stdout, done.stderr


def subject(text: str) -> Subject:
    """A project as the command line names it: `timm`, or `timm==1.0.31`."""
    name, _, version = text.partition("==")
    if not version and name not in SUBJECTS:
        raise argparse.ArgumentTypeError(f"which version of {name}? say {name}==...")
    return Subject(name, version or SUBJECTS[name])


def main(arguments: Sequence[str] | None = None) -> int:
    """Compare with the record, or rewrite it; the exit code is 1 where they differ."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("subjects", metavar="PROJECT", nargs="*", type=subject, help="by default all of them")
    parser.add_argument("--bless", action="store_true", help="put what is found now on record")
    parser.add_argument("--corpus", type=Path, default=FOLDER, help="where the sources are kept")
    parser.add_argument("--record", type=Path, default=HERE, help="where the snapshot is kept")
    options = parser.parse_args(arguments)
    record = Record(options.record)
    results: dict[str, Result] = {}
    differs = False
    for wanted in options.subjects or [Subject(*item) for item in SUBJECTS.items()]:
        result = check(wanted, sources(wanted, options.corpus.resolve()))
        results[wanted.name] = result
        differences = list(record.differences(wanted.name, result))
        differs |= bool(differences)
        sys.stdout.writelines(differences)
        state = "as on record" if not differences else "now on record" if options.bless else "differs"
        print(
            f"{wanted}: {result.files} files, {result.lines} lines, {len(result.errors)} errors, "
            f"{len(result.findings)} findings, {state}",
            flush=True,
        )
    if options.bless:
        record.bless(results)
        return 0
    if differs:
        print("`make corpus CORPUS=--bless` puts this on record, once the difference has been read.")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
