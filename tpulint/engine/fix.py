"""Fixing: apply, parse, analyse anew, until nothing is left to apply."""

from __future__ import annotations

import os
import sys
import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path

from tpulint.engine.cache import Cache, MemoryCache
from tpulint.engine.change import Change
from tpulint.engine.desk import RECURSION_LIMIT, Unit
from tpulint.engine.files_with_tests import left_alone
from tpulint.engine.fix_keys import FixKey, LeftOut, key_of
from tpulint.engine.line_length import Widths
from tpulint.engine.run import Analysis, analyse_units, open_cache, read
from tpulint.finding import Applicability, FileError, Finding, Fix
from tpulint.model.syntax.undefined import undefined_names
from tpulint.settings import Settings
from tpulint.source import Source, SourceError
from tpulint.tidy import tidied

#: Each round applies all fixes that do not collide, so real files settle within a few.
MAX_ROUNDS = 30

#: Rounds after which most files that need more than one are settled.
LIKELY_ROUNDS = 2


@dataclass(frozen=True, slots=True)
class FixResult:
    """What fixing came to; nothing is written yet.

    `applied` counts the fixes of each file by rule, `rounds` has the fixes themselves, round by round;
    `tests` are the files with tests that were left alone although there are fixes for them.
    `keys` name the fixes of the changed files, for another run that leaves some out.
    """

    changes: list[Change] = field(default_factory=list)
    applied: dict[str, dict[str, int]] = field(default_factory=dict)
    remaining: list[Finding] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    files: int = 0
    tests: tuple[str, ...] = ()
    rounds: dict[str, tuple[tuple[Fix, ...], ...]] = field(default_factory=dict)
    keys: tuple[FixKey, ...] = ()


def fix(
    files: Sequence[Path],
    settings: Settings,
    *,
    jobs: int | None = None,
    cache: bool = True,
    unsafe: bool = False,
    stdin: tuple[str, bytes] | None = None,
    named: Collection[str] = (),
    left_out: Collection[FixKey] = (),
) -> FixResult:
    """Fix files as one project, to a fixed point.

    Args:
        files: absolute paths.
        settings: which rules' fixes to apply.
        jobs: worker processes, by default one for each processor.
        cache: whether results are kept in, and taken from, the cache folder.
        unsafe: whether unsafe fixes are applied as well.
        stdin: name and content of one more file.
        named: paths of files that are fixed even if they hold tests.
        left_out: fixes that are not applied.
    """
    units, errors = read(files, stdin)
    store = open_cache(settings) if cache else MemoryCache()
    result = fix_units(units, settings, jobs=jobs, cache=store, unsafe=unsafe, named=named, left_out=left_out)
    errors = sorted([*errors, *result.errors], key=lambda error: error.path)
    return replace(result, errors=errors, files=len(units))


def fix_units(
    units: Mapping[str, Unit],
    settings: Settings,
    *,
    jobs: int | None,
    cache: Cache,
    unsafe: bool,
    named: Collection[str] = (),
    left_out: Collection[FixKey] = (),
) -> FixResult:
    """Fix files whose bytes are at hand; see `fix`.

    After the first round only the files that changed are looked at, until nothing changes in them; then
    all are once more, since a change in one file can lead to findings in another.
    """
    settings = replace(settings, runtime_is_installed=True)  # it is added when the files are written
    allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
    # What a desk can follow must not be too deep for the proof that its fix is sound.
    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    spared = frozenset[str]()
    if not settings.include_tests:
        relative = {settings.relative(path): path for path in units}
        tests = left_alone({one: units[path].data for one, path in relative.items()})
        spared = frozenset(relative[one] for one in tests).difference(named)
    rounds = _Rounds(units, frozenset(allowed), spared, LeftOut(left_out))
    analysed = partial(analyse_units, settings=settings, jobs=jobs, cache=cache)
    only: frozenset[str] | None = None
    for number in range(MAX_ROUNDS):
        changed = rounds.take(analysed(rounds.current, only=only))
        if not changed and only is None:
            break
        if changed and number >= LIKELY_ROUNDS - 1:
            # With no fix left in the files as they will be written, the untidied ones need no analysis.
            tidied = rounds.tidied()
            if rounds.is_settled(analysed(tidied, only=changed)) and rounds.is_settled(analysed(tidied)):
                break
        only = changed or None
    else:
        rounds.give_up(analysed(rounds.current))
    rounds.current = rounds.tidied()
    # The files that fixes write are not analyzed, so a check of all as written finds the same.
    return rounds.result(analysed(rounds.current))


def refixed(path: str, data: bytes, rounds: Iterable[Sequence[Fix]]) -> bytes:
    """A file as a run left it whose rounds these are; see `FixResult.rounds`.

    Raises:
        SourceError: when the file cannot be decoded.
        RefusedError: when LibCST does not give its text back.
    """
    from tpulint.rewrite.apply import File  # LibCST is imported only where something is rewritten

    fixed = data
    for fixes in rounds:
        source = Source.decode(path, fixed)
        text, _ = File(source, fixes).apply(fixes)
        fixed = source.encode(text)
    return fixed if fixed == data else _tidied(path, data, fixed, Widths().of(path, data))


class _Rounds:
    """The files between the rounds: as they are now, what was applied, and which were broken by it."""

    def __init__(
        self,
        units: Mapping[str, Unit],
        allowed: frozenset[Applicability],
        spared: frozenset[str],
        left_out: LeftOut,
    ) -> None:
        self._units = units
        self._spared = spared
        self._left_out = left_out
        self._is_first = True
        self._keys: dict[str, set[FixKey]] = {}
        self._allowed = allowed
        self._broken: dict[str, FileError] = {}
        self._applied: dict[str, list[Mapping[Fix, str]]] = {}
        self._widths = Widths()
        self._tidy: dict[tuple[str, bytes], bytes] = {}
        self.current = dict(units)

    def take(self, analysis: Analysis) -> frozenset[str]:
        """Apply what a round's findings offer; returns the files that changed."""
        changed: set[str] = set()
        for error in analysis.errors:
            if self.current[error.path].data != self._units[error.path].data:
                self._restore(error)
                changed.add(error.path)
        for path, findings in _by_path(self._applicable(analysis)).items():
            if path in self._broken:
                continue
            outcome = fix_once(self.current[path], findings)
            if isinstance(outcome, FileError):
                self._restore(outcome)
                changed.add(path)
            elif outcome is not None:
                self.current[path], applied = outcome
                self._applied.setdefault(path, []).append(applied)
                self._keys.setdefault(path, set()).update(
                    key_of(one, is_first_round=self._is_first) for one in findings if one.fix in applied
                )
                changed.add(path)
        self._is_first = False
        return frozenset(changed)

    def give_up(self, analysis: Analysis) -> None:
        """Restore the files whose fixes do not come to an end."""
        for path, findings in _by_path(self._applicable(analysis)).items():
            if path not in self._broken:
                codes = ", ".join(sorted({finding.code for finding in findings}))
                message = f"internal error: the fixes of {codes} do not settle; the file stays as it was"
                self._restore(FileError(path, message))

    def is_settled(self, analysis: Analysis) -> bool:
        """Whether nothing is left to apply, or to restore."""
        return not self._applicable(analysis) and not any(
            self.current[error.path].data != self._units[error.path].data for error in analysis.errors
        )

    def tidied(self) -> dict[str, Unit]:
        """The files, where fixed as if their authors had written them."""
        return {path: self._tidied(path, unit) for path, unit in self.current.items()}

    def _tidied(self, path: str, unit: Unit) -> Unit:
        before = self._units[path]
        if path in self._broken or unit.data == before.data:
            return unit
        key = path, unit.data
        if key not in self._tidy:
            self._tidy[key] = _tidied(path, before.data, unit.data, self._widths.of(path, before.data))
        return replace(unit, data=self._tidy[key])

    def result(self, analysis: Analysis) -> FixResult:
        """What fixing came to, with what is found in the files as they are now."""
        changes: list[Change] = []
        applied: dict[str, dict[str, int]] = {}
        rounds: dict[str, tuple[tuple[Fix, ...], ...]] = {}
        for path, unit in sorted(self._units.items()):
            now = self.current[path]
            if path not in self._broken and now.data != unit.data:
                before, after = Source.decode(path, unit.data), Source.decode(path, now.data)
                changes.append(Change(path, before.text, after.text, unit.data, now.data))
                applied[path] = dict(Counter(code for one in self._applied[path] for code in one.values()))
                rounds[path] = tuple(map(tuple, self._applied[path]))
        errors = sorted({*analysis.errors, *self._broken.values()}, key=lambda error: error.path)
        fixable = (f.path for f in analysis.findings if f.fix and f.fix.applicability in self._allowed)
        tests = tuple(sorted(self._spared.intersection(fixable)))
        keys = tuple(sorted(key for path in rounds for key in self._keys[path]))
        return FixResult(changes, applied, analysis.findings, errors, len(self._units), tests, rounds, keys)

    def _applicable(self, analysis: Analysis) -> list[Finding]:
        return [
            f
            for f in analysis.findings
            if f.fix is not None
            and f.fix.applicability in self._allowed
            and f.path not in self._spared
            and not self._left_out.has(f, is_first_round=self._is_first)
        ]

    def _restore(self, error: FileError) -> None:
        self._broken[error.path] = error
        self.current[error.path] = self._units[error.path]


def _tidied(path: str, before: bytes, after: bytes, width: int) -> bytes:
    """A fixed file that reads as if its author had written it; as it is if that would break it."""
    source = Source.decode(path, after)
    former = Source.decode(path, before).text
    is_package = os.path.basename(path) == "__init__.py"
    text = tidied(former, source.text, is_package=is_package, width=width)
    if not _compiles(text) or not undefined_names(text) <= undefined_names(source.text):
        return after
    return source.encode(text)


@lru_cache(maxsize=4)
def _compiles(text: str) -> bool:
    """Whether Python takes a text; it refuses some that parse, such as a late import from `__future__`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they are about the user's code
        try:
            compile(text, "<text>", "exec", dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return False
    return True


def _by_path(findings: Sequence[Finding]) -> dict[str, list[Finding]]:
    grouped: dict[str, list[Finding]] = {}
    for finding in findings:
        grouped.setdefault(finding.path, []).append(finding)
    return grouped


def fix_once(unit: Unit, findings: Sequence[Finding]) -> tuple[Unit, Mapping[Fix, str]] | FileError | None:
    """One round over one file: the file, and the fixes that were applied with the codes of their rules.

    An error where the result would not be sound, None where nothing changes.

    Fixes that are sound alone may not be so together, as one that moves what another one names: those that
    are in the way of earlier ones then wait for the next round.
    """
    source = Source.decode(unit.path, unit.data)
    codes: dict[Fix, str] = {}
    for finding in findings:
        assert finding.fix is not None
        codes.setdefault(finding.fix, finding.code)
    outcome = _attempt(unit, source, codes)
    if isinstance(outcome, FileError) and len(codes) > 1:
        sound: dict[Fix, str] = {}
        for fix, code in codes.items():
            if not isinstance(_attempt(unit, source, sound | {fix: code}), FileError):
                sound[fix] = code
        if sound:
            return _attempt(unit, source, sound)
    return outcome


def _broken(unit: Unit, codes: Iterable[str], why: str) -> FileError:
    """The error of a file whose fixes, of rules with these codes, have a mistake."""
    blamed = ", ".join(sorted(set(codes)))
    return FileError(
        unit.path, f"internal error: a fix of {blamed} breaks the file ({why}); it stays as it was"
    )


def _attempt(
    unit: Unit, source: Source, codes: Mapping[Fix, str]
) -> tuple[Unit, Mapping[Fix, str]] | FileError | None:
    from tpulint.rewrite.apply import File  # LibCST is imported only where something is rewritten
    from tpulint.rewrite.code import BrokenCodeError
    from tpulint.rewrite.tree import RefusedError

    try:
        text, taken = File(source, codes).apply(codes)
    except RefusedError as error:
        return FileError(unit.path, f"cannot be fixed: {error}")
    except BrokenCodeError as error:
        return _broken(unit, codes.values(), f"its code `{error}` does not parse")
    applied = {fix: codes[fix] for fix in taken}
    if text == source.text:
        return None
    blamed = ", ".join(sorted(set(applied.values())))
    try:
        known = undefined_names(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        # It parses and yet Python does not run it, such as a function with two arguments of one name.
        return FileError(unit.path, f"cannot be fixed, since it does not compile: {error}")
    try:
        undefined = undefined_names(text) - known
        data = source.encode(text)
        if _compiles(source.text) and not _compiles(text):
            raise SyntaxError("it does not compile any more")
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        return _broken(unit, applied.values(), str(error))
    if undefined:
        names = ", ".join(f"`{name}`" for name in sorted(undefined))
        return FileError(
            unit.path, f"internal error: a fix of {blamed} uses {names} undefined; the file stays as it was"
        )
    try:
        faithful = source.encode(source.text) == unit.data and Source.decode(unit.path, data).text == text
    except SourceError as error:
        return FileError(unit.path, f"cannot be fixed: {error}")
    except UnicodeError:
        faithful = False
    if not faithful:
        return FileError(unit.path, f"cannot be fixed: {source.encoding} does not give the same bytes back")
    return replace(unit, data=data), applied
