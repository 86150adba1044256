"""Takes fixture cases through their stages and says of each what was claimed and what happened."""

from __future__ import annotations

import importlib.util
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from tpulint.fixture import SINGLE, Case
from tpulint.knowledge.runtime import PACKAGE
from tpulint.verify import judge, program
from tpulint.verify.claims import Claim, Outcome, Word
from tpulint.verify.platform import Platform, choose
from tpulint.verify.recipe import Recipe
from tpulint.verify.result import Result, Side, State
from tpulint.verify.script import Ended, Script, Where
from tpulint.verify.worker import Job, Stage
from tpulint.verify.zygote import Zygote

Fix = Callable[[Case], Mapping[str, str]]
Execute = Callable[[Sequence[str]], tuple[Result, ...]]
"""Executes a case, and compiles it for the TPU targets that it is given."""
Decide = Callable[[Case, Mapping[str, str], Execute], tuple[Result, ...]]
"""Gives the results of a case, which it executes or not."""


@dataclass(frozen=True, slots=True)
class Options:
    """What the user may choose. `jobs` None means two, or as many as there are processors if fewer."""

    timeout: float = 120.0
    tpus: tuple[str, ...] = ("v5e:2x2", "v6e:2x2")
    platform: str = "auto"
    jobs: int | None = None


def missing_packages() -> tuple[str, ...]:
    """Which of the packages that verify needs are not installed; nothing is imported to find out."""
    names = ("torch", "torchax", "jax", "numpy", PACKAGE)
    return tuple(name for name in names if importlib.util.find_spec(name) is None)


def verify(
    cases: Iterable[Case],
    fix: Fix,
    options: Options | None = None,
    tell: Callable[[str], None] | None = None,
    decide: Decide | None = None,
) -> Iterator[Result]:
    """Execute the cases and give each stage's result, case by case in the order given, as they end.

    Args:
        cases: what to execute.
        fix: gives the fixed text of a case, with the paths of `case.before`; it is called once for each
            case, in as many threads as there are jobs.
        options: what the user chose.
        tell: hears what concerns the whole run, such as a platform that is not there.
        decide: is given each case with its fixed text, and executes it or not; all are by default.
    """
    options = options or Options()
    cases = tuple(cases)
    if not any(case.run for case in cases):
        # Nothing to execute, so torch need not be loaded to say so.
        for case in cases:
            yield from _not_run(case, "no run.py")
        return
    platform = choose(options.platform)
    if platform.note and tell is not None:
        tell(platform.note)
    jobs = 1 if platform.exclusive else options.jobs or min(2, os.cpu_count() or 1)
    zygote = Zygote(platform.environment)
    pool = ThreadPoolExecutor(jobs)
    try:
        conduct = _Conduct(zygote, platform, fix, options, decide)
        for results in pool.map(conduct.case, cases):
            yield from results
    finally:
        # A caller that stops early must not wait for what is still queued.
        pool.shutdown(wait=False, cancel_futures=True)
        zygote.close()
        pool.shutdown()


def _not_run(case: Case, reason: str) -> tuple[Result, ...]:
    return (Result(case.rule, case.name, "reference", "original", "", reason, State.NOT_RUN),)


@dataclass(frozen=True, slots=True)
class _Conduct:
    zygote: Zygote
    platform: Platform
    fix: Fix
    options: Options
    decide: Decide | None

    def case(self, case: Case) -> tuple[Result, ...]:
        """Every stage of one case."""
        if case.run is None:
            return _not_run(case, "no run.py")
        try:
            fixed = dict(self.fix(case))
        except Exception as error:  # what the engine raises is the case's row
            rows = _Rows(case)
            raised = Outcome(Word.RAISES, str(error), type(error).__name__)
            rows.add("fix", "fixed", "a fix", raised, State.FAILED, 0)
            return rows.done()
        run = case.run

        def execute(tpus: Sequence[str]) -> tuple[Result, ...]:
            return self._executed(case, run, fixed, tpus)

        return self.decide(case, fixed, execute) if self.decide else execute(self.options.tpus)

    def _executed(
        self, case: Case, run: Path, fixed: Mapping[str, str], tpus: Sequence[str]
    ) -> tuple[Result, ...]:
        with tempfile.TemporaryDirectory(prefix="tpulint-case-") as folder:
            try:
                return self._stages(case, run, fixed, tpus, Path(folder))
            except Exception as error:  # one case's trouble is a row, not the end of the run
                happened = f"verify failed: {type(error).__name__}: {error}"
                return (Result(case.rule, case.name, "reference", "original", "", happened, State.FAILED),)

    def _stages(
        self, case: Case, run: Path, text: Mapping[str, str], tpus: Sequence[str], folder: Path
    ) -> tuple[Result, ...]:
        start = time.monotonic()
        original = laid_out(case, case.before, folder / "original")
        described = self.zygote.run(Job("describe", original, "", run), self.options.timeout)
        if (died := judge.death(described)) is not None:
            rows = _Rows(case)
            rows.add("run.py", "original", "", died, State.FAILED, time.monotonic() - start)
            return rows.done()
        assert described.report is not None
        assert described.report.recipe is not None
        recipe = described.report.recipe
        if recipe.not_executed:
            return _not_run(case, recipe.not_executed)
        fixed = laid_out(case, text, folder / "fixed") if text != dict(case.before) else None
        if recipe.program:
            return self._program(case, recipe, original, fixed)
        return self._function(case, run, recipe, original, fixed, tpus)

    def _function(
        self,
        case: Case,
        run: Path,
        recipe: Recipe,
        original: Path,
        fixed: Path | None,
        tpus: Sequence[str],
    ) -> tuple[Result, ...]:
        rows, main = _Rows(case), main_file(case, recipe)

        def job(stage: Stage, folder: Path, tpu: str = "") -> Job:
            return Job(stage, folder, main, run, recipe, tpu)

        start = time.monotonic()
        ending = self.zygote.run(job("reference", original), self.options.timeout)
        notes = set(ending.report.notes) if ending.report and recipe.traced else set()
        if ending.report and ending.report.stood_in:
            notes.add(f"PIL and numpy stood in for torchvision's {', '.join(ending.report.stood_in)}")
        outcome = judge.of_reference(ending)
        state = State.VERIFIED if outcome.word is Word.EQUAL else State.FAILED
        rows.add("reference", "original", "runs", outcome, state, time.monotonic() - start, notes)
        if state is State.FAILED:
            return rows.done()
        assert ending.report is not None
        reference = ending.report.calls

        stages: tuple[Stage, ...] = ("eager", "jit") if recipe.traced else ("eager",)
        for side, folder in _sides(original, fixed):
            if folder is None:
                continue
            for stage in stages:
                start, notes = time.monotonic(), set()
                ending = self.zygote.run(job(stage, folder), self.options.timeout)
                outcome = judge.outcome(ending, reference, recipe, notes, side)
                rows.judge(stage, side, recipe.claims.get(stage), outcome, time.monotonic() - start, notes)
            claim = recipe.claims.get("tpu")
            if recipe.traced and (side == "fixed" or claim is not None):
                for tpu in tpus:
                    start = time.monotonic()
                    ending = self.zygote.run(job("tpu", folder, tpu), self.options.timeout)
                    outcome = judge.of_compilation(ending)
                    rows.judge(f"tpu {tpu}", side, claim, outcome, time.monotonic() - start)
        return rows.done()

    def _program(self, case: Case, recipe: Recipe, original: Path, fixed: Path | None) -> tuple[Result, ...]:
        rows = _Rows(case)
        main = main_file(case, recipe)

        def ended(where: Where, folder: Path) -> Ended:
            record = folder.parent / "record"
            record.unlink(missing_ok=True)
            script = Script(where, folder, main, record, recipe.arguments, recipe.environment)
            return self.zygote.run_script(script, self.options.timeout)

        start = time.monotonic()
        reference = ended("reference", original)
        outcome = program.of_reference(reference, recipe)
        state = State.VERIFIED if outcome.word is Word.EQUAL else State.FAILED
        rows.add("reference", "original", "runs", outcome, state, time.monotonic() - start)
        if state is State.FAILED:
            return rows.done()
        for side, folder in _sides(original, fixed):
            claim = recipe.claims.get("eager")
            if folder is None or (side == "original" and claim is None and fixed is not None):
                # What a program does unchanged is worth a run only if something is claimed of it.
                continue
            start, notes = time.monotonic(), set[str]()
            outcome = program.outcome(ended("torchax", folder), reference, recipe, notes)
            rows.judge("eager", side, claim, outcome, time.monotonic() - start, notes)
        if fixed is not None and case.settings.keep_gpu:
            start, notes = time.monotonic(), set[str]()
            outcome = program.outcome(ended("reference", fixed), reference, recipe, notes)
            # All of it runs where CUDA is emulated, and nothing on torchax.
            state = State.VERIFIED if outcome.word is Word.HOST else State.FAILED
            rows.add("reference", "fixed", "host", outcome, state, time.monotonic() - start, notes)
        return rows.done()


def _sides(original: Path, fixed: Path | None) -> tuple[tuple[Side, Path | None], ...]:
    return (("original", original), ("fixed", fixed))


class _Rows:
    """The results of one case, as they come."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._results: list[Result] = []

    def done(self) -> tuple[Result, ...]:
        return tuple(self._results)

    def add(
        self,
        stage: str,
        side: Side,
        claimed: str,
        outcome: Outcome,
        state: State,
        seconds: float,
        notes: Iterable[str] = (),
    ) -> None:
        runs = outcome == Outcome(Word.EQUAL)
        row = Result(
            self._case.rule,
            self._case.name,
            stage,
            side,
            claimed,
            "runs" if runs else str(outcome),
            state,
            seconds,
            tuple(sorted(notes)),
            "runs" if runs else outcome.head,
        )
        self._results.append(row)

    def judge(
        self,
        stage: str,
        side: Side,
        claim: Claim | None,
        outcome: Outcome,
        seconds: float,
        notes: Iterable[str] = (),
    ) -> None:
        """A row for a stage: the original owes what run.py claims, fixed code owes the reference's result."""
        if side == "fixed":
            narrowed = claim is not None and claim.word is Word.NARROWED
            claim = Claim(Word.COMPILES if stage.startswith("tpu") else Word.EQUAL)
            # Where narrowing is what the rule is about, the fix has to undo it; and a fix that leaves the
            # call of an operator that is not here has not been shown to work.
            unproven = (narrowed and outcome.word is Word.NARROWED) or outcome.word is Word.STOOD_IN
            state = State.FAILED if unproven else judge.verdict(claim, outcome)
        elif claim is None:
            self.add(
                stage, side, f"nothing: run.py has no claim['{stage}']", outcome, State.FAILED, seconds, notes
            )
            return
        else:
            state = judge.verdict(claim, outcome)
        self.add(stage, side, str(claim), outcome, state, seconds, notes)


def laid_out(case: Case, texts: Mapping[str, str], folder: Path) -> Path:
    """A folder with the code and the case's other files, as the code expects to find them."""
    folder.mkdir(parents=True)
    for path in case.data:
        relative = path.relative_to(case.folder)
        if relative.parts[0] == "before" and len(relative.parts) > 1:
            relative = Path(*relative.parts[1:])
        target = folder / relative
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, target)
    for name, text in texts.items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        # Bytes, so that line endings stay as they are.
        target.write_bytes(text.encode(_encoding(text)))
    return folder


def _encoding(text: str) -> str:
    """The encoding that the text declares, so that Python reads the file as it was written."""
    import io
    import tokenize

    head = "".join(text.splitlines(keepends=True)[:2]).encode("utf-8", "replace")
    try:
        return tokenize.detect_encoding(io.BytesIO(head).readline)[0]
    except SyntaxError:
        return "utf-8"


def main_file(case: Case, recipe: Recipe) -> str:
    """The file that is imported or run: the only one, the one that run.py names, or main.py."""
    wanted = recipe.module and recipe.module.replace(".", "/") + ".py"
    for name in (wanted, SINGLE, "main.py", *sorted(case.before)):
        if name in case.before:
            return name
    raise ValueError(f"{case.folder}: no Python file in before/")
