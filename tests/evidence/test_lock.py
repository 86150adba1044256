"""What `evidence.lock` records, and what makes one of its lines stale."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from tpulint import verify
from tpulint.evidence import lock, plan
from tpulint.evidence.lock import Entry, Lock, LockError
from tpulint.evidence.plan import Plan, Why
from tpulint.fixture import Case, cases
from tpulint.verify import Result, State

TARGETS = ("v5e:2x2", "v6e:2x2")
FIXED = {"before.py": "import torch\n", "model.py": "import torchax_compat\n"}
NAME = "rule/case"


@pytest.fixture
def case(tmp_path: Path) -> Case:
    folder = tmp_path / "rule" / "case"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text("import torch  # cuda\n")
    (folder / "run.py").write_text("traced = False\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return cases(tmp_path)[0]


def rows(eager: str = "equal", state: State = State.VERIFIED, *tpus: str) -> tuple[Result, ...]:
    """The results of a case: a reference, and stages of the fixed code."""
    stages = [("eager", eager), *((f"tpu {tpu}", "compiles") for tpu in tpus)]
    return (
        Result("rule", "case", "reference", "original", "runs", "runs", State.VERIFIED, outcome="runs"),
        *(
            Result("rule", "case", stage, "fixed", "equal", word, state, outcome=word)
            for stage, word in stages
        ),
    )


def entry(case: Case, results: tuple[Result, ...] = rows(), fixed: Mapping[str, str] = FIXED) -> Entry:
    outcomes = lock.outcomes_of(results)
    return Entry(lock.sealed(lock.inputs_of(case, fixed, TARGETS), outcomes), outcomes)


def planned(
    path: Path, entries: Mapping[str, Entry], *, executes_all: bool = False, writes_lock: bool = False
) -> Plan:
    return Plan(path, Lock(lock.versions(), TARGETS, entries), TARGETS, executes_all, writes_lock)


def why(case: Case, entries: Mapping[str, Entry], fixed: Mapping[str, str] = FIXED) -> Why | None:
    """Why a case is executed, and that it is then alone."""
    made, executed = planned(case.folder, entries), []
    found = made.results(case, fixed, lambda targets: executed.append(targets) or rows())  # type: ignore[func-returns-value]
    assert bool(executed) == (NAME in made.stale) == (found[0].state is not State.LOCKED)
    return made.stale.get(NAME)


def test_case_that_did_not_change_is_not_executed(case: Case) -> None:
    assert why(case, {NAME: entry(case)}) is None


def test_case_without_a_line_is_executed(case: Case) -> None:
    assert Why.NEW == why(case, {})


def test_line_with_another_digest_is_executed(case: Case) -> None:
    assert Why.CHANGED == why(case, {NAME: dataclasses.replace(entry(case), digest="0" * 32)})


def test_line_whose_outcome_was_edited_is_executed(case: Case) -> None:
    outcomes = {"original/reference": "runs", "fixed/eager": "differs"}
    assert Why.CHANGED == why(case, {NAME: dataclasses.replace(entry(case), outcomes=outcomes)})


@pytest.mark.parametrize("name", ["before.py", "run.py", "picture.png", "added.txt", ".env"])
def test_changed_file_of_the_case_is_executed(case: Case, name: str) -> None:
    entries = {NAME: entry(case)}
    (case.folder / name).write_bytes(b"# changed\n")
    assert Why.CHANGED == why(case, entries)


def test_changed_want_comment_is_not_executed(case: Case) -> None:
    entries = {NAME: entry(case)}
    (case.folder / "before.py").write_text('import torch  # cuda  # want: TPU301 "reworded"\n')
    assert why(case, entries) is None


@pytest.mark.parametrize("name", FIXED)
def test_changed_fix_or_runtime_file_is_executed(case: Case, name: str) -> None:
    entries = {NAME: entry(case)}
    assert Why.CHANGED == why(case, entries, {**FIXED, name: "import jax\n"})


@pytest.fixture
def verifier(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A copy of the verifier's code, which is digested in its place."""
    copy = tmp_path / "verify"
    copy.mkdir()
    for path in Path(verify.__file__).parent.glob("*.py"):
        (copy / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(verify, "__file__", str(copy / "__init__.py"))
    lock._verifier.cache_clear()
    yield copy
    monkeypatch.undo()
    lock._verifier.cache_clear()


def test_changed_verifier_is_executed(case: Case, verifier: Path) -> None:
    entries = {NAME: entry(case)}
    assert why(case, entries) is None
    (verifier / "values.py").write_text("# changed\n")
    lock._verifier.cache_clear()
    assert Why.CHANGED == why(case, entries)


@pytest.mark.parametrize("name", ["python", "torch", "torchax", "jax", "jaxlib", "libtpu", "numpy"])
def test_other_version_is_named_and_executed(case: Case, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, here = {NAME: entry(case)}, lock.versions()
    made = planned(case.folder, entries)
    assert not made.other_versions
    for module in (lock, plan):
        monkeypatch.setattr(module, "versions", lambda: {**here, name: "9.9"})
    assert f"{name} {here[name]}, installed 9.9" == made.other_versions
    assert Why.CHANGED == why(case, entries)


def test_header_of_other_versions_executes_all_cases(case: Case, tmp_path: Path) -> None:
    path = tmp_path / lock.NAME
    lock.write(path, Lock({**lock.versions(), "numpy": "1.0"}, TARGETS, {NAME: entry(case)}))
    made = plan.plan(path, [case], TARGETS, executes_all=False, writes_lock=True)
    assert f"numpy 1.0, installed {lock.versions()['numpy']}" == made.other_versions
    assert (True, False) == (made.executes_all, made.writes_lock)
    assert plan.plan(path, [case], TARGETS, executes_all=True, writes_lock=True).writes_lock


def test_other_tpu_targets_are_executed(case: Case) -> None:
    made = dataclasses.replace(planned(case.folder, {NAME: entry(case)}), targets=("v4:2x2x1",))
    made.results(case, FIXED, lambda _: rows())
    assert {NAME: Why.CHANGED} == made.stale


def test_renamed_case_keeps_its_digest(case: Case) -> None:
    known = entry(case)
    renamed = dataclasses.replace(case, folder=case.folder.rename(case.folder.parent / "other"), name="other")
    assert known == entry(renamed)


def test_pycache_and_cache_files_in_a_case_are_ignored(case: Case) -> None:
    entries = {NAME: entry(case)}
    for name in ("__pycache__/before.cpython-311.pyc", ".tpulint_cache/cache.sqlite"):
        (case.folder / name).parent.mkdir(exist_ok=True)
        (case.folder / name).write_bytes(b"\0")
    assert why(case, entries) is None


def sampling(case: Case, known: Entry) -> Plan:
    made = planned(case.folder, {NAME: known})
    return dataclasses.replace(made, sample=frozenset({NAME}), sampled_target="v6e:2x2")


def test_sampled_case_with_the_recorded_outcome_passes(case: Case) -> None:
    known = entry(case, rows("equal", State.VERIFIED, *TARGETS))
    made = sampling(case, known)
    executed = rows("equal", State.VERIFIED, "v6e:2x2")
    assert executed == made.results(case, FIXED, lambda _: executed)
    assert ({}, {}) == (made.stale, made.entries)


@pytest.mark.parametrize(
    ("recorded", "denied"),
    [
        (rows("narrowed"), ("eager", "evidence.lock records: narrowed", "equal")),
        ((*rows(), *rows()[:1]), None),
        (
            (*rows(), dataclasses.replace(rows()[1], stage="jit")),
            ("jit", "evidence.lock records: equal", "not executed"),
        ),
    ],
)
def test_sampled_case_with_another_outcome_fails_and_loses_its_line(
    case: Case, recorded: tuple[Result, ...], denied: tuple[str, str, str] | None
) -> None:
    # A line that is wrong all through: its digest fits the outcome that it records.
    made = sampling(case, entry(case, recorded))
    failed = [row for row in made.results(case, FIXED, lambda _: rows()) if row.state is State.FAILED]
    assert ([denied] if denied else []) == [(row.stage, row.claimed, row.happened) for row in failed]
    if denied:
        assert ({NAME: Why.DENIED}, {}) == (made.stale, made.updated_lock([case]).entries)


def test_sampled_case_that_fails_loses_its_line(case: Case) -> None:
    made = sampling(case, entry(case))
    made.results(case, FIXED, lambda _: rows("differs", State.FAILED))
    assert ({NAME: Why.DENIED}, {NAME: None}) == (made.stale, made.entries)


def test_case_edited_while_it_is_executed_gets_no_line(case: Case) -> None:
    made = planned(case.folder, {}, writes_lock=True)

    def execute(_: object) -> tuple[Result, ...]:
        (case.folder / "run.py").write_text("traced = True\n")
        return rows()

    made.results(case, FIXED, execute)
    assert ({NAME: Why.EDITED}, {NAME: None}) == (made.stale, made.entries)


@pytest.fixture
def many(tmp_path: Path) -> list[Case]:
    for number in range(200):
        (tmp_path / "rule" / f"case_{number}").mkdir(parents=True)
        (tmp_path / "rule" / f"case_{number}" / "before.py").touch()
    return list(cases(tmp_path))


def test_sample_is_three_percent_chosen_by_the_commit(many: list[Case], tmp_path: Path) -> None:
    def sample(seed: str) -> frozenset[str]:
        path = tmp_path / lock.NAME
        return plan.plan(path, many, TARGETS, executes_all=False, writes_lock=False, seed=seed).sample

    assert [6, 6] == [len(sample("a1")), len(sample("b2"))]
    assert sample("a1") == sample("a1") != sample("b2")


def test_failed_case_is_removed_from_the_lock_unless_the_run_was_interrupted(
    case: Case, tmp_path: Path
) -> None:
    path, known = tmp_path / lock.NAME, {NAME: entry(case)}
    lock.write(path, Lock(lock.versions(), TARGETS, known))
    made = planned(path, known, executes_all=True, writes_lock=True)
    made.results(case, FIXED, lambda _: rows("differs", State.FAILED))
    assert {} == made.updated_lock([case]).entries
    assert known == made.updated_lock([case], interrupted=True).entries


def test_deleted_case_and_one_without_run_py_are_removed_from_the_lock(case: Case, tmp_path: Path) -> None:
    path, known = tmp_path / lock.NAME, {NAME: entry(case), "rule/gone": entry(case)}
    lock.write(path, Lock(lock.versions(), TARGETS, known))
    made = planned(path, known)
    assert ["rule/gone"] == made.removed([case])
    assert {NAME} == made.updated_lock([case]).entries.keys()
    assert [NAME, "rule/gone"] == made.removed([dataclasses.replace(case, run=None)])


def test_lines_that_another_run_wrote_meanwhile_are_kept(case: Case, tmp_path: Path) -> None:
    path, made = tmp_path / lock.NAME, planned(tmp_path / lock.NAME, {}, writes_lock=True)
    other = dataclasses.replace(case, name="other")
    lock.write(path, Lock(lock.versions(), TARGETS, {"rule/other": entry(case)}))
    made.results(case, FIXED, lambda _: rows())
    assert {NAME, "rule/other"} == made.updated_lock([case, other]).entries.keys()


def test_changed_case_is_compiled_for_all_targets_only_where_its_line_is_written(case: Case) -> None:
    entries = {NAME: entry(case)}
    assert TARGETS == planned(case.folder, entries, writes_lock=True)._targets_for(Why.CHANGED)
    assert TARGETS[:1] == planned(case.folder, entries, writes_lock=True)._targets_for(Why.SAMPLED)
    assert TARGETS[:1] == planned(case.folder, entries)._targets_for(Why.CHANGED)
    assert TARGETS == planned(case.folder, entries, executes_all=True)._targets_for(Why.ALL)


def test_lock_is_read_as_it_was_written(case: Case, tmp_path: Path) -> None:
    outcomes = {"original/jit": "raises IndexError", "fixed/tpu v5e:2x2": "compiles"}
    missing = {**lock.versions(), "pillow": "none"}
    made = Lock(missing, TARGETS, {"b/c": Entry("1f", outcomes), "a/d": entry(case)})
    path = tmp_path / lock.NAME
    lock.write(path, made)
    assert made == lock.read(path)
    names = [line.split()[0] for line in path.read_text().splitlines() if not line.startswith("#")]
    assert ["a/d", "b/c"] == names
    assert [path.name] == [file.name for file in tmp_path.iterdir() if file.is_file()]


def test_missing_lock_file_is_an_empty_lock(tmp_path: Path) -> None:
    assert Lock() == lock.read(tmp_path / lock.NAME)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("a/b", "2: not a line of a lock"),
        ("a/b 1f2e", "2: not a line of a lock"),
        ("a/b 1f2e nonsense", "2: not a line of a lock"),
        ("<<<<<<< HEAD", "2: not a line of a lock"),
        ("a/b 1f original/eager=equal\na/b 2e original/eager=equal", "3: a second line for a/b"),
        ("\udcff", "decode"),
    ],
)
def test_invalid_lock_is_an_error_that_make_evidence_repairs(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / lock.NAME
    path.write_bytes(f"# a comment\n{line}\n".encode("utf-8", "surrogateescape"))
    with pytest.raises(LockError, match=message):
        plan.plan(path, [], TARGETS, executes_all=False, writes_lock=True)
    assert Lock() == plan.plan(path, [], TARGETS, executes_all=True, writes_lock=True).lock


def test_case_declared_not_executed_is_locked_as_not_run(case: Case) -> None:
    stated = (Result("rule", "case", "reference", "original", "", "needs two GPUs", State.NOT_RUN),)
    known = entry(case, stated)
    assert not known.is_run
    (row,) = planned(case.folder, {NAME: known}).results(case, FIXED, lambda _: rows())
    assert State.NOT_RUN == row.state
