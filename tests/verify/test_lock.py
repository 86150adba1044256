"""What `evidence.lock` keeps, and what makes one of its lines stale."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from pathlib import Path

import pytest

from tpulint.fixture import Case, cases
from tpulint.verify import Evidence, Result, State, lock, locked
from tpulint.verify.lock import Entry, Lock, LockError
from tpulint.verify.locked import Why

TARGETS = ("v5e:2x2", "v6e:2x2")
FIXED = {"before.py": "import torch\n", "torchax_training/once.py": "once = 1\n"}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    folder = tmp_path / "rule" / "case"
    folder.mkdir(parents=True)
    (folder / "before.py").write_text("import torch  # cuda\n")
    (folder / "run.py").write_text("traced = False\n")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    return cases(tmp_path)[0]


def rows(eager: str = "equal", state: State = State.VERIFIED, stage: str = "eager") -> tuple[Result, ...]:
    """The results of a case: a reference, and a stage of the fixed code."""
    reference = Result(
        "rule", "case", "reference", "original", "runs", "runs", State.VERIFIED, outcome="runs"
    )
    return reference, Result("rule", "case", stage, "fixed", "equal", eager, state, outcome=eager)


def evidence(
    path: Path, entries: Mapping[str, Entry], *, everything: bool = False, keeps: bool = False
) -> Evidence:
    return Evidence(path, Lock(lock.versions(), TARGETS, entries), TARGETS, everything, keeps)


def entry(case: Case, fixed: Mapping[str, str] = FIXED) -> Entry:
    made = lock.entry_of(case, fixed, TARGETS, rows())
    assert made is not None
    return made


def why(case: Case, entries: Mapping[str, Entry], fixed: Mapping[str, str] = FIXED) -> Why | None:
    return evidence(case.folder, entries).why(case, fixed)


def test_case_that_did_not_change_is_not_executed(case: Case) -> None:
    assert why(case, {"rule/case": entry(case)}) is None


def test_case_without_a_line_is_executed(case: Case) -> None:
    assert Why.NEW == why(case, {})


def test_line_with_another_digest_is_executed(case: Case) -> None:
    stale = dataclasses.replace(entry(case), digest="0" * 32)
    assert Why.CHANGED == why(case, {"rule/case": stale})


def test_line_whose_outcome_was_edited_is_executed(case: Case) -> None:
    edited = dataclasses.replace(
        entry(case), outcomes={"original/reference": "runs", "fixed/eager": "differs"}
    )
    assert Why.CHANGED == why(case, {"rule/case": edited})


@pytest.mark.parametrize("name", ["before.py", "run.py", "picture.png", "added.txt"])
def test_changed_file_of_the_case_is_executed(case: Case, name: str) -> None:
    entries = {"rule/case": entry(case)}
    (case.folder / name).write_bytes(b"# changed\n")
    assert Why.CHANGED == why(case, entries)


@pytest.mark.parametrize("name", FIXED)
def test_changed_fix_or_runtime_file_is_executed(case: Case, name: str) -> None:
    entries = {"rule/case": entry(case)}
    assert Why.CHANGED == why(case, entries, {**FIXED, name: "import jax\n"})


def test_changed_verifier_is_executed(case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    entries = {"rule/case": entry(case)}
    copy = tmp_path / "verify"
    copy.mkdir()
    for path in Path(lock.__file__).parent.glob("*.py"):
        (copy / path.name).write_bytes(path.read_bytes())
    monkeypatch.setattr(lock, "__file__", str(copy / "lock.py"))
    lock._verifier.cache_clear()
    assert why(case, entries) is None
    (copy / "values.py").write_text("# changed\n")
    lock._verifier.cache_clear()
    assert Why.CHANGED == why(case, entries)
    monkeypatch.undo()
    lock._verifier.cache_clear()


@pytest.mark.parametrize("name", ["python", "torch", "torchax", "jax", "jaxlib", "libtpu", "numpy"])
def test_other_version_is_named_and_executed(case: Case, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    entries, here = {"rule/case": entry(case)}, lock.versions()
    known = evidence(case.folder, entries)
    assert not known.other_versions
    monkeypatch.setattr(locked, "versions", lambda: {**here, name: "9.9"})
    monkeypatch.setattr(lock, "versions", lambda: {**here, name: "9.9"})
    assert f"{name} 9.9, not {here[name]}" == known.other_versions
    assert Why.CHANGED == known.why(case, FIXED)


def test_other_tpu_targets_are_executed(case: Case) -> None:
    known = dataclasses.replace(evidence(case.folder, {"rule/case": entry(case)}), targets=("v4:2x2x1",))
    assert Why.CHANGED == known.why(case, FIXED)


def test_renamed_case_keeps_its_line(case: Case) -> None:
    renamed = dataclasses.replace(case, folder=case.folder.rename(case.folder.parent / "other"), name="other")
    assert why(renamed, {"rule/other": entry(renamed)}) is None
    assert entry(renamed).digest == entry(dataclasses.replace(renamed, name="case")).digest


def test_pycache_and_cache_files_in_a_case_are_ignored(case: Case) -> None:
    entries = {"rule/case": entry(case)}
    for name in ("__pycache__/before.cpython-311.pyc", ".tpulint_cache/cache.sqlite"):
        (case.folder / name).parent.mkdir(exist_ok=True)
        (case.folder / name).write_bytes(b"\0")
    assert why(case, entries) is None


def test_sampled_case_with_an_outcome_unlike_the_lock_fails(case: Case) -> None:
    # A line that lies all through: its digest fits the outcome that it claims.
    outcomes = {"original/reference": "runs", "fixed/eager": "narrowed"}
    lying = Entry(lock.digest(case, FIXED, TARGETS, outcomes), outcomes)
    known = dataclasses.replace(evidence(case.folder, {"rule/case": lying}), sample=frozenset({"rule/case"}))
    reason = known.why(case, FIXED)
    assert Why.SAMPLED == reason
    *_, denied = known.executed(case, FIXED, reason, rows())
    assert (State.FAILED, "narrowed, as evidence.lock has it", "equal") == (
        denied.state,
        denied.claimed,
        denied.happened,
    )


def test_sampled_case_with_the_outcome_of_the_lock_passes(case: Case) -> None:
    known = dataclasses.replace(
        evidence(case.folder, {"rule/case": entry(case)}), sample=frozenset({"rule/case"})
    )
    assert known.executed(case, FIXED, Why.SAMPLED, rows()) == rows()
    assert known.entries == {}


def test_sample_is_three_percent_chosen_by_the_commit(tmp_path: Path) -> None:
    for number in range(200):
        (tmp_path / "rule" / f"case_{number}").mkdir(parents=True)
        (tmp_path / "rule" / f"case_{number}" / "before.py").touch()

    def sample(commit: str) -> frozenset[str]:
        path = tmp_path / lock.NAME
        chosen = locked.beside(path, cases(tmp_path), TARGETS, everything=False, keeps=False, commit=commit)
        return chosen.sample

    assert [6, 6] == [len(sample("a1")), len(sample("b2"))]
    assert sample("a1") == sample("a1") != sample("b2")


def test_failed_case_is_removed_from_the_lock(case: Case, tmp_path: Path) -> None:
    known = evidence(tmp_path, {"rule/case": entry(case)}, everything=True, keeps=True)
    known.executed(case, FIXED, Why.EVERYTHING, rows("differs", State.FAILED))
    assert known.written([case]).entries == {}


def test_deleted_case_is_removed_from_the_lock(case: Case, tmp_path: Path) -> None:
    known = evidence(tmp_path, {"rule/case": entry(case), "rule/gone": entry(case)})
    assert ["rule/gone"] == known.gone([case])
    assert {"rule/case"} == known.written([case]).entries.keys()


def test_changed_case_is_compiled_for_all_targets_only_where_its_line_is_written(case: Case) -> None:
    entries = {"rule/case": entry(case)}
    assert TARGETS == evidence(case.folder, entries, keeps=True).targets_for(Why.CHANGED)
    assert TARGETS[:1] == evidence(case.folder, entries, keeps=True).targets_for(Why.SAMPLED)
    assert TARGETS[:1] == evidence(case.folder, entries).targets_for(Why.CHANGED)
    assert TARGETS == evidence(case.folder, entries, everything=True).targets_for(Why.EVERYTHING)


def test_lock_is_read_as_it_was_written(case: Case, tmp_path: Path) -> None:
    outcomes = {
        "original/reference": "runs",
        "original/jit": "raises IndexError",
        "fixed/tpu v5e:2x2": "compiles",
    }
    made = Lock(lock.versions(), TARGETS, {"b/c": Entry("1f", outcomes), "a/d": entry(case)})
    path = tmp_path / lock.NAME
    lock.write(path, made)
    assert made == lock.read(path)
    names = [line.split()[0] for line in path.read_text().splitlines() if not line.startswith("#")]
    assert ["a/d", "b/c"] == names


def test_missing_lock_file_is_an_empty_lock(tmp_path: Path) -> None:
    assert Lock() == lock.read(tmp_path / lock.NAME)


@pytest.mark.parametrize("line", ["a/b", "a/b 1f2e", "a/b 1f2e nonsense", "<<<<<<< HEAD"])
def test_invalid_line_of_a_lock_is_an_error(tmp_path: Path, line: str) -> None:
    (tmp_path / lock.NAME).write_text(f"# a comment\n{line}\n")
    with pytest.raises(LockError, match=r"evidence\.lock:2: .* is none of a lock"):
        lock.read(tmp_path / lock.NAME)


def test_case_declared_not_executed_is_locked_as_not_run(case: Case) -> None:
    stated = (Result("rule", "case", "reference", "original", "", "needs two GPUs", State.NOT_RUN),)
    made = lock.entry_of(case, FIXED, TARGETS, stated)
    assert made is not None
    assert not made.is_run
    (row,) = evidence(case.folder, {"rule/case": made}).locked(case)
    assert State.NOT_RUN == row.state
