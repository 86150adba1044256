"""Recall and precision of the findings, against what happened when real models were traced.

`make score` runs this; README.md beside it says where the data comes from and what is counted.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path, PurePath
from typing import Any

from tpulint.registry import rules

HERE = Path(__file__).parent
HAZARDS = ("branch", "item", "host_copy", "mask", "dyn_shape", "cpu_mix", "tracer_leak")
#: What torchax cannot do yet; no fault of the code, so in no total.
GAPS = ("op_missing", "op_error", "other")
#: Families whose rules are about these hazards.
FAMILIES = ("trace_hazards", "dynamic_shapes", "host_tensors")
REACHES = ("i", "ii", "iii", "iv")
#: A finding on a longer statement is about its head.
LONGEST = 40

#: The groups or kinds of failure that a rule is about, by its code.
Subjects = Mapping[str, frozenset[str]]


@dataclass(frozen=True, slots=True, order=True)
class Lines:
    """Lines of a file, both ends included; the file is relative to the folder of the packages."""

    file: str
    first: int
    last: int

    def __iter__(self) -> Iterator[int]:
        return iter(range(self.first, self.last + 1))

    def __str__(self) -> str:
        return f"{self.file}:{self.first}"


@dataclass(frozen=True, slots=True)
class Site:
    """A place that failed, and those where the host tensor that it failed for was made."""

    lines: Lines
    kind: str
    group: str
    reach: str
    origins: tuple[Lines, ...] = ()


@dataclass(frozen=True, slots=True)
class Oracle:
    """What was recorded; `executed` and `ambiguous` are line numbers by file."""

    sites: tuple[Site, ...]
    executed: Mapping[str, frozenset[int]]
    ambiguous: Mapping[str, frozenset[int]]


@dataclass(frozen=True, slots=True, order=True)
class Reported:
    """A finding, as far as it counts: two of one rule on the same lines are one."""

    lines: Lines
    code: str


class Verdict(Enum):
    """What the oracle says of a finding."""

    RIGHT = "right"
    WRONG = "wrong"
    OTHER_HAZARD = "other hazard"
    GAP = "gap"
    AMBIGUOUS = "unsure"
    NOT_EXECUTED = "not run"

    @property
    def is_wrong(self) -> bool:
        """Whether it lowers precision."""
        return self in (Verdict.WRONG, Verdict.OTHER_HAZARD)


@dataclass(slots=True)
class Score:
    """Verdicts by finding, and the places that were found, or touched by any finding at all."""

    oracle: Oracle
    verdicts: dict[Reported, Verdict] = field(default_factory=dict)
    found: set[Site] = field(default_factory=set)
    touched: set[Site] = field(default_factory=set)


def oracle(folder: Path) -> Oracle:
    """The records in a folder."""
    with (folder / "sites.jsonl").open(encoding="utf-8") as stream:
        sites = tuple(_site(json.loads(line)) for line in stream)
    return Oracle(sites, _by_file(folder / "executed.json.gz"), _by_file(folder / "ambiguous.json.gz"))


def _site(record: Mapping[str, Any]) -> Site:
    return Site(
        Lines(f"{record['package']}/{record['file']}", record["start_line"], record["end_line"]),
        record["kind"],
        record["group"],
        record["reach"],
        tuple(
            Lines(f"{made['package']}/{made['file']}", made["line"], made["end_line"] or made["line"])
            for made in record["origins"]
        ),
    )


def _by_file(path: Path) -> dict[str, frozenset[int]]:
    with gzip.open(path, "rt", encoding="utf-8") as stream:
        packages = json.load(stream)
    return {
        f"{package}/{file}": frozenset(rows)
        for package, files in packages.items()
        for file, rows in files.items()
    }


def reported(report: str, packages: Path) -> set[Reported]:
    """The findings of a JSON report on a folder of packages."""
    return {
        Reported(
            Lines(
                PurePath(finding["filename"]).relative_to(packages).as_posix(),
                finding["location"]["row"],
                min(finding["end_location"]["row"], finding["location"]["row"] + LONGEST),
            ),
            finding["code"],
        )
        for finding in json.loads(report)
    }


def match(oracle: Oracle, findings: Iterable[Reported], subjects: Subjects, *, strict: bool = False) -> Score:
    """Hold findings and places against each other; those of rules about nothing recorded are left out."""
    score = Score(oracle)
    places: dict[str, list[tuple[Lines, Site]]] = defaultdict(list)
    for site in oracle.sites:
        for lines in (site.lines, *site.origins):
            places[lines.file].append((lines, site))
    for finding in sorted(findings):
        about = subjects.get(finding.code)
        if not about:
            continue
        here = finding.lines
        over = {
            site for lines, site in places[here.file] if lines.first <= here.last and here.first <= lines.last
        }
        right = {site for site in over if about & {site.group, site.kind}}
        score.touched |= over
        score.found |= right
        score.verdicts[finding] = _verdict(oracle, here, over, right=bool(right), strict=strict)
    return score


def _verdict(oracle: Oracle, here: Lines, over: set[Site], *, right: bool, strict: bool) -> Verdict:
    if right:
        return Verdict.RIGHT
    ran = oracle.executed.get(here.file, frozenset()).intersection(here)
    if not ran:
        return Verdict.NOT_EXECUTED
    if any(site.group in HAZARDS for site in over):
        return Verdict.OTHER_HAZARD
    if over:
        return Verdict.GAP
    unsure = not strict and ran <= oracle.ambiguous.get(here.file, frozenset())
    return Verdict.AMBIGUOUS if unsure else Verdict.WRONG


def table(score: Score, subjects: Subjects) -> Iterator[str]:
    """The figures, line by line."""
    yield from _recall(score)
    yield ""
    yield from _precision(score, subjects)


def _recall(score: Score) -> Iterator[str]:
    yield f"{'recall':22} {'places':>7} {'found':>7} {'share':>7} {'touched':>8}   by kind"
    sites = score.oracle.sites

    def row(name: str, chosen: Sequence[Site]) -> str:
        found = sum(site in score.found for site in chosen)
        touched = sum(site in score.touched for site in chosen)
        return f"  {name:20} {len(chosen):7} {found:7} {_share(found, len(chosen))} {touched:8}"

    for group in (*HAZARDS, *GAPS):
        if chosen := [site for site in sites if site.group == group]:
            yield f"{row(group, chosen)}   {_by_kind(score, chosen)}"
    hazards = [site for site in sites if site.group in HAZARDS]
    for reach in REACHES:
        if chosen := [site for site in hazards if site.reach == reach]:
            yield row(f"hazards of reach {reach}", chosen)
    yield row("all hazards", hazards)


def _by_kind(score: Score, sites: Iterable[Site]) -> str:
    there = Counter(site.kind for site in sites)
    found = Counter(site.kind for site in sites if site in score.found)
    return " ".join(f"{kind}={found[kind]}/{there[kind]}" for kind in sorted(there))


def _precision(score: Score, subjects: Subjects) -> Iterator[str]:
    neutral = (Verdict.OTHER_HAZARD, Verdict.GAP, Verdict.AMBIGUOUS, Verdict.NOT_EXECUTED)
    head = " ".join(f"{verdict.value:>12}" for verdict in neutral)
    yield f"{'precision':22} {'on run':>7} {'right':>7} {'wrong':>7} {'share':>7} {head}"

    def row(name: str, counts: Counter[Verdict]) -> str:
        right, wrong = counts[Verdict.RIGHT], counts[Verdict.WRONG] + counts[Verdict.OTHER_HAZARD]
        ran = counts.total() - counts[Verdict.NOT_EXECUTED]
        rest = " ".join(f"{counts[verdict]:12}" for verdict in neutral)
        return f"  {name:20} {ran:7} {right:7} {wrong:7} {_share(right, right + wrong)} {rest}"

    rows: dict[frozenset[str], Counter[Verdict]] = defaultdict(Counter)
    for finding, verdict in score.verdicts.items():
        rows[subjects[finding.code]][verdict] += 1
    for about in sorted(rows, key=sorted):
        yield row("+".join(sorted(about)), rows[about])
    counted = (counts for about, counts in rows.items() if not about <= set(GAPS))
    yield row("all but gaps", sum(counted, Counter()))


def _share(part: int, whole: int) -> str:
    return f"{part / whole:7.2f}" if whole else f"{'-':>7}"


def missed(score: Score) -> Iterator[str]:
    """The hazards without a finding."""
    for site in score.oracle.sites:
        if site.group in HAZARDS and site not in score.found:
            yield f"missed {site.lines} {site.kind} (reach {site.reach})"


def wrong(score: Score) -> Iterator[str]:
    """The findings that lower precision."""
    for finding, verdict in score.verdicts.items():
        if verdict.is_wrong:
            yield f"{verdict.value} {finding.lines} {finding.code}"


def subjects(path: Path) -> dict[str, frozenset[str]]:
    """What each rule is about, nothing if what it finds fails in no place of its own.

    Ends the program where a rule about hazards is left out.
    """
    stored = json.loads(path.read_text(encoding="utf-8"))
    lacking = [rule.code for rule in rules() if rule.family in FAMILIES and rule.code not in stored]
    if lacking:
        sys.exit(f"{path} does not say what {', '.join(lacking)} should find")
    return {code: frozenset(groups) for code, groups in stored.items()}


def check(packages: Path) -> str:
    """The JSON report of tpulint on a folder."""
    options = ["--isolated", "--no-cache", "--quiet", "--exit-zero", "--output-format", "json"]
    command = [sys.executable, "-m", "tpulint", "check", *options, str(packages)]
    done = subprocess.run(command, stdout=subprocess.PIPE, encoding="utf-8", check=False)
    if done.returncode:
        sys.exit(f"{' '.join(command)} exited {done.returncode}")
    return done.stdout


def main(arguments: Sequence[str] | None = None) -> None:
    """Score a fresh report, or one that is at hand, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--packages", type=Path, default=HERE.parents[1] / ".oracle", help="what is checked")
    parser.add_argument("--report", type=Path, help="a JSON report on the packages, instead of checking them")
    parser.add_argument("--data", type=Path, default=HERE, help="the folder of the records")
    parser.add_argument("--map", type=Path, default=HERE.with_name("oracle_map.json"), help="codes to groups")
    parser.add_argument(
        "--strict", action="store_true", help="an unmatched finding on an unsure line is wrong"
    )
    parser.add_argument("--list", choices=["missed", "wrong"], action="append", default=[], dest="lists")
    options = parser.parse_args(arguments)
    about = subjects(options.map)
    packages = options.packages.resolve()
    report = options.report.read_text(encoding="utf-8") if options.report else check(packages)
    findings = reported(report, packages)
    score = match(oracle(options.data), findings, about, strict=options.strict)
    lists = {"missed": missed, "wrong": wrong}
    for line in (*table(score, about), *(line for name in options.lists for line in lists[name](score))):
        print(line)
    others = Counter(finding.code for finding in findings if not about.get(finding.code))
    if others:
        print("\nabout no hazard: " + ", ".join(f"{code} {count}" for code, count in sorted(others.items())))


if __name__ == "__main__":
    main()
