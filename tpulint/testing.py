"""The test kit: what the installed rules find in a fixture case, and what their fixes make of it.

Rule packs use it, as tpulint's own tests do: `cases` reads the fixture cases of a folder, `unmet` compares
findings with the comments `# want: ...` of a case, and `fixed` gives files as `tpulint fix` leaves them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from tpulint.engine import project_files
from tpulint.engine.cache import Cache, MemoryCache
from tpulint.engine.change import Change
from tpulint.engine.desk import Unit
from tpulint.engine.fix import fix_units
from tpulint.engine.run import analyse_units, as_units
from tpulint.finding import FileError, Finding
from tpulint.fixture import Case, Want, cases, strip_wants, wants
from tpulint.project_files.kinds import kind_of
from tpulint.settings import Settings

__all__ = ["Case", "Want", "cases", "findings", "fixed", "rewritten", "unmet"]


def _units(case: Case, files: Mapping[str, str]) -> dict[str, Unit]:
    """The files of a case, as if they lay beside each other in its folder."""
    code = {relative: text for relative, text in files.items() if relative.endswith(".py")}
    return as_units({str(case.folder / relative): text.encode() for relative, text in code.items()})


def _others(case: Case, files: Mapping[str, str]) -> dict[str, bytes]:
    """The files of a case that are around the code."""
    return {
        str(case.folder / relative): text.encode()
        for relative, text in files.items()
        if kind_of(relative) is not None
    }


def findings(case: Case, *, select: Sequence[str] | None = None) -> list[Finding]:
    """The findings of a case.

    `select` restricts them to some rules, by codes, prefixes of codes, or names.

    Raises:
        AssertionError: when a file cannot be analysed.
    """
    settings = _selecting(case.settings, select)
    found = analyse_units(_units(case, case.before), settings, jobs=1)
    others = project_files.analyse(_others(case, case.before), settings)
    _none([*found.errors, *others.errors])
    return [*found.findings, *others.findings]


def _selecting(settings: Settings, select: Sequence[str] | None) -> Settings:
    return settings if select is None else replace(settings, select=tuple(select))


def unmet(
    case: Case, found: Sequence[Finding] | None = None, *, select: Sequence[str] | None = None
) -> tuple[list[Want], list[Finding]]:
    """Wants of a case that no finding meets, and findings that nothing wants.

    `found` are the case's findings, where they are known already; `select` restricts them to some rules.
    """
    found = list(findings(case, select=select) if found is None else found)
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
    case: Case,
    *,
    unsafe: bool = True,
    settings: Settings | None = None,
    cache: Cache | None = None,
    select: Sequence[str] | None = None,
) -> dict[str, str]:
    """A case's files as `tpulint fix` leaves them, wants stripped, with its own settings or these.

    `cache` keeps what the analysis finds, for another call. `select` restricts the fixes to some rules.

    Raises:
        AssertionError: when a file cannot be analysed or fixed.
    """
    before = {relative: strip_wants(text, relative) for relative, text in case.before.items()}
    asked = _selecting(settings or case.settings, select)
    changed = {change.path: change.after for change in _changes(case, asked, unsafe=unsafe, cache=cache)}
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
    plain = {relative: strip_wants(text, relative) for relative, text in case.before.items()}
    return plain | changed if changed else case.before


def _changes(
    case: Case, settings: Settings | None, *, unsafe: bool, cache: Cache | None = None
) -> list[Change]:
    plain = {relative: strip_wants(text, relative) for relative, text in case.before.items()}
    units = _units(case, plain)
    settings = settings or case.settings
    result = fix_units(units, settings, jobs=1, cache=cache or MemoryCache(), unsafe=unsafe)
    both = project_files.fix_after(result.changes, _others(case, plain), settings, unsafe=unsafe)
    _none([*result.errors, *both.errors])
    return both.changes


def _none(errors: list[FileError]) -> None:
    if errors:
        raise AssertionError("; ".join(f"{error.path}: {error.message}" for error in errors))
