"""The search for the fixes with which a command fails."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpulint.engine.fix_keys import FixKey
from tpulint.engine.interrupts import signals_as_interrupts
from tpulint.report.paths import shown
from tpulint.settings import Settings
from tpulint.trial.command import CommandResult, run
from tpulint.trial.journal import Journal, JournalError, folder_of
from tpulint.trial.reduction import minimal_exclusion


class TrialError(Exception):
    """The command says nothing about the fixes; the message has the last lines of its output."""


@dataclass(frozen=True, slots=True)
class FixedFiles:
    """The files after some of the fixes.

    Args:
        contents: the contents of the changed files, by path.
        originals: the contents of these files before the fixes.
        keys: the fixes that were applied.
    """

    contents: Mapping[str, bytes]
    originals: Mapping[str, bytes]
    keys: Sequence[FixKey]


class Trial:
    """Runs a command with subsets of the fixes.

    Args:
        settings: the settings of the project, whose cache folder has the journal.
        command: the shell command.
        timeout: the time limit of each run, in seconds.
        fixed: returns the files with all fixes but the given ones; it must not write them.
        report: prints a line about the progress.
    """

    def __init__(
        self,
        settings: Settings,
        command: str,
        timeout: float,
        fixed: Callable[[Collection[FixKey]], FixedFiles],
        report: Callable[[str], None],
    ) -> None:
        self._settings, self._command, self._timeout = settings, command, timeout
        self._fixed, self._report = fixed, report
        self._results: dict[frozenset[tuple[str, bytes]], CommandResult] = {}

    def failing_fixes(self) -> frozenset[FixKey]:
        """A minimal set of fixes without which the command passes; the files are restored.

        Raises:
            TrialError: the command fails without any fix, or modifies the files itself.
            JournalError: the journal or a file cannot be written.
        """
        with_all = self._fixed(())
        if not with_all.contents:
            return frozenset()
        journal = Journal(folder_of(self._settings), with_all.originals)
        left_out, unwritten = frozenset[FixKey](), None
        with signals_as_interrupts():
            try:
                left_out = self._search(journal, with_all)
            except OSError as error:
                unwritten = error
            finally:
                changed = journal.restore().changed
                for path, copy in changed:
                    self._report(
                        f"the command modified {shown(path)}; {shown(copy)} is a copy of the original"
                    )
        if changed:
            raise TrialError(
                "the command modifies files that `fix` changes, so its result says nothing about the fixes;"
                " all other files were restored"
            )
        if unwritten is not None:
            raise JournalError(
                f"{unwritten.filename}: cannot be written: {unwritten.strerror or unwritten}"
            ) from unwritten
        return left_out

    def _search(self, journal: Journal, with_all: FixedFiles) -> frozenset[FixKey]:
        """The fixes to leave out: first by file, then by rule in these files, then single fixes."""
        total = len(with_all.keys)
        if self._run(journal, with_all, total).passed:
            return frozenset()
        without = self._run(journal, FixedFiles({}, {}, ()), total)
        if not without.passed:
            raise TrialError(
                f"the command {without.description} without any fix, so it says nothing about the fixes; "
                f"no file was changed\n{without.output}"
            )

        def passes(left_out: frozenset[FixKey]) -> bool:
            journal.write({})  # fixes are computed from the original files
            return self._run(journal, self._fixed(left_out), total).passed

        keys: Sequence[FixKey] = with_all.keys
        found = frozenset(key.of_file for key in keys)
        for level in ("of_file", "of_rule", "itself"):
            units = sorted({getattr(key, level) for key in keys})
            # With a fix left out, another rule may offer a fix that was not among those of the first run.
            if not passes(frozenset(units)):
                break
            found = minimal_exclusion(units, passes)
            keys = [key for key in keys if any(unit.covers(key) for unit in found)]
        return found

    def _run(self, journal: Journal, files: FixedFiles, total: int) -> CommandResult:
        """The result of the command with some fixes; the command runs once for the same contents of files."""
        key = frozenset(files.contents.items())
        if key not in self._results:
            journal.write(files.contents)
            result = self._results[key] = run(self._command, self._timeout)
            self._report(
                f"with {len(files.keys)} of {total} fixes, the command {result.description}"
                f" ({result.seconds:.1f} s)"
            )
        return self._results[key]


def description(left_out: Collection[FixKey]) -> Iterator[str]:
    """The lines that list the fixes that are left out."""
    if left_out:
        yield "left out, since the command fails with them:"
    for key in sorted(left_out):
        location = shown(key.path)
        if key.start >= 0:
            with Path(key.path).open(encoding="utf-8", errors="replace", newline="") as stream:
                location = f"{location}:{stream.read(key.start).count(chr(10)) + 1}"
        yield f"  {location}: {f'the fix of {key.code}' if key.start >= 0 else _all(key)}"


def _all(key: FixKey) -> str:
    return f"the fixes of {key.code}" if key.code else "all fixes"
