"""The test kit: what the installed rules say of a fixture case, and what their fixes make of it.

Third-party rule packages use it as this project's own tests do.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from tpulint.engine.cache import Cache, MemoryCache
from tpulint.engine.change import Change
from tpulint.engine.desk import Unit
from tpulint.engine.fix import fix_units
from tpulint.engine.run import analyse_units, as_units
from tpulint.finding import FileError, Finding
from tpulint.fixture import Case, Want, strip_wants, wants
from tpulint.settings import Settings


def _units(case: Case, files: Mapping[str, str]) -> dict[str, Unit]:
    """The files of a case, as if they lay beside each other in its folder."""
    return as_units({str(case.folder / relative): text.encode() for relative, text in files.items()})


def findings(case: Case) -> list[Finding]:
    """What all rules find in a case, errors raised.

    Raises:
        AssertionError: when a file cannot be analysed.
    """
    found = analyse_units(_units(case, case.before), case.settings, jobs=1)
    _none(found.errors)
    return found.findings


def unmet(case: Case, found: Sequence[Finding] | None = None) -> tuple[list[Want], list[Finding]]:
    """Wants of a case that no finding meets, and findings that nothing wants.

    `found` are the case's findings, where they are known already.
    """
    found = list(findings(case) if found is None else found)
    due = [
        want for relative, text in case.before.items() for want in wants(text, str(case.folder / relative))
    ]
    missing = []
    for want in due:
        met = next((f for f in found if _meets(f, want)), None)
        if met is None:
            missing.append(want)
        else:
            found.remove(met)
    return missing, found


def _meets(finding: Finding, want: Want) -> bool:
    place = (finding.path, finding.location.row, finding.code) == (want.path, want.row, want.code)
    return place and re.search(want.pattern, finding.message) is not None


def fixed(
    case: Case, *, unsafe: bool = True, settings: Settings | None = None, cache: Cache | None = None
) -> dict[str, str]:
    """What `tpulint fix` makes of a case's files, wants stripped, with its own settings or these.

    `cache` keeps what the analysis finds, for another call.

    Raises:
        AssertionError: when a file cannot be analysed or fixed.
    """
    before = {relative: strip_wants(text) for relative, text in case.before.items()}
    changed = {change.path: change.after for change in _changes(case, settings, unsafe=unsafe, cache=cache)}
    return {relative: changed.get(str(case.folder / relative), text) for relative, text in before.items()}


def rewritten(case: Case, settings: Settings | None = None) -> Mapping[str, str]:
    """A case's files as `fix` leaves them, with those that it writes beside; as they are if nothing changes.

    `settings` are the case's own by default.

    Raises:
        AssertionError: when a file cannot be analysed or fixed.
    """
    changed = {
        Path(change.path).relative_to(case.folder).as_posix(): change.after
        for change in _changes(case, settings, unsafe=True)
    }
    plain = {relative: strip_wants(text) for relative, text in case.before.items()}
    return plain | changed if changed else case.before


def _changes(
    case: Case, settings: Settings | None, *, unsafe: bool, cache: Cache | None = None
) -> list[Change]:
    units = _units(case, {relative: strip_wants(text) for relative, text in case.before.items()})
    result = fix_units(units, settings or case.settings, jobs=1, cache=cache or MemoryCache(), unsafe=unsafe)
    _none(result.errors)
    return result.changes


def _none(errors: list[FileError]) -> None:
    if errors:
        raise AssertionError("; ".join(f"{error.path}: {error.message}" for error in errors))
