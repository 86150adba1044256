"""Fixes that are kept if a command passes with them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tpulint.engine.fix_keys import FixKey
from tpulint.engine.interrupts import signals_as_interrupts
from tpulint.report.paths import shown
from tpulint.settings import Settings
from tpulint.trial import command as commands
from tpulint.trial.journal import Journal, JournalError, folder_of
from tpulint.trial.reduction import reduced


class TrialError(Exception):
    """A trial that says nothing about the fixes, in one line, with the last lines of the command's output."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What files are with some fixes left out.

    Args:
        contents: the bytes of the files that change, by path.
        originals: what these files were.
        keys: the fixes that were applied.
    """

    contents: Mapping[str, bytes]
    originals: Mapping[str, bytes]
    keys: Sequence[FixKey]


class Trial:
    """Tries fixes with a command.

    Args:
        settings: those of the project; its cache has the journal.
        command: the command, for a shell.
        timeout: its time limit, in seconds.
        fixed: gives what files are with some fixes left out; it writes nothing.
        say: prints a line about the progress.
    """

    def __init__(
        self,
        settings: Settings,
        command: str,
        timeout: float,
        fixed: Callable[[Collection[FixKey]], Outcome],
        say: Callable[[str], None],
    ) -> None:
        self._settings, self._command, self._timeout = settings, command, timeout
        self._fixed, self._say = fixed, say
        self._known: dict[frozenset[tuple[str, bytes]], commands.Ran] = {}

    def left_out(self) -> frozenset[FixKey]:
        """The fixes without which the command passes; the files are as before.

        Each of them is needed: with one of them applied, the command fails.

        Raises:
            TrialError: the command fails without any fix, too, or changes the files itself.
            JournalError: the journal cannot be written, or a file.
        """
        everything = self._fixed(())
        if not everything.contents:
            return frozenset()
        journal = Journal(folder_of(self._settings), everything.originals)
        left_out, unwritten = frozenset[FixKey](), None
        with signals_as_interrupts():
            try:
                left_out = self._search(journal, everything)
            except OSError as error:
                unwritten = error
            finally:
                changed = journal.restore().changed
                for path, copy in changed:
                    self._say(f"the command changed {shown(path)}; {shown(copy)} is what it was before")
        if changed:
            raise TrialError(
                "the command changes files that are to be fixed, so that it says nothing about the fixes; all"
                " other files are as before"
            )
        if unwritten is not None:
            raise JournalError(
                f"{unwritten.filename}: cannot be written: {unwritten.strerror or unwritten}"
            ) from unwritten
        return left_out

    def _search(self, journal: Journal, everything: Outcome) -> frozenset[FixKey]:
        if self._ran(journal, everything, len(everything.keys)).passed:
            return frozenset()
        without = self._ran(journal, Outcome({}, {}, ()), len(everything.keys))
        if not without.passed:
            raise TrialError(
                f"the command {without.words} without any fix, too, so that it says nothing about the fixes; "
                f"no file was changed\n{without.output}"
            )

        def passes(left_out: frozenset[FixKey]) -> bool:
            journal.put({})  # which the fixes start from
            return self._ran(journal, self._fixed(left_out), len(everything.keys)).passed

        keys: Sequence[FixKey] = everything.keys
        found = frozenset(key.of_file for key in keys)
        for level in ("of_file", "of_rule", "itself"):
            units = sorted({getattr(key, level) for key in keys})
            # Without a fix, another rule may offer one that was not among those of the first run.
            if not passes(frozenset(units)):
                break
            found = reduced(units, passes)
            keys = [key for key in keys if any(unit.covers(key) for unit in found)]
        return found

    def _ran(self, journal: Journal, outcome: Outcome, total: int) -> commands.Ran:
        """Run the command with the files of an outcome, unless it has run with these."""
        asked = frozenset(outcome.contents.items())
        if asked not in self._known:
            journal.put(outcome.contents)
            done = self._known[asked] = commands.run(self._command, self._timeout)
            self._say(
                f"with {len(outcome.keys)} of {total} fixes, the command {done.words} ({done.seconds:.1f} s)"
            )
        return self._known[asked]


def explained(left_out: Collection[FixKey]) -> Iterator[str]:
    """A line for each file or rule whose fixes are left out."""
    if left_out:
        yield "left out, since the command fails with them:"
    for key in sorted(left_out):
        place = shown(key.path)
        if key.start >= 0:
            with Path(key.path).open(encoding="utf-8", errors="replace", newline="") as stream:
                place = f"{place}:{stream.read(key.start).count(chr(10)) + 1}"
        yield f"  {place}: {f'the fix of {key.code}' if key.start >= 0 else _all(key)}"


def _all(key: FixKey) -> str:
    return f"the fixes of {key.code}" if key.code else "all fixes"
