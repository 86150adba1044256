"""Findings and fixes in files around the code."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tpulint.engine.change import Change
from tpulint.engine.desk import failure, suppressed
from tpulint.engine.fix_keys import FixKey, LeftOut, key_of
from tpulint.finding import Applicability, FileError, Finding, Fix
from tpulint.plan import TextEdit
from tpulint.project_files.kinds import kind_of
from tpulint.project_files.read import parts_of
from tpulint.registry import rules
from tpulint.rules_api.file_context import FileContext
from tpulint.settings import Settings
from tpulint.source import Source, SourceError

#: A file is analyzed again after its fixes until nothing is left, but not more often.
MAX_ROUNDS = 5


@dataclass(frozen=True, slots=True)
class Result:
    """What was found in the files, and what fixes change; see `tpulint.engine.fix.FixResult`."""

    findings: list[Finding] = field(default_factory=list)
    errors: list[FileError] = field(default_factory=list)
    changes: list[Change] = field(default_factory=list)
    applied: dict[str, dict[str, int]] = field(default_factory=dict)
    keys: set[FixKey] = field(default_factory=set)


def analyse(contents: Mapping[str, bytes], settings: Settings) -> Result:
    """Check files around the code.

    Args:
        contents: the files' bytes by absolute path.
        settings: what to report.
    """
    result = Result()
    for path, data in contents.items():
        source = _decoded(path, data)
        if source is not None:
            result.findings.extend(_found(source, settings, result.errors))
    return result


def fix(
    contents: Mapping[str, bytes], settings: Settings, *, unsafe: bool, left_out: Collection[FixKey] = ()
) -> Result:
    """Fix files around the code; nothing is written yet.

    Args:
        contents: the files' bytes by absolute path.
        settings: which rules' fixes to apply.
        unsafe: whether unsafe fixes are applied as well.
        left_out: fixes that are not applied.
    """
    spared = LeftOut(left_out)
    allowed = {Applicability.SAFE, Applicability.UNSAFE} if unsafe else {Applicability.SAFE}
    result = Result()
    for path, data in contents.items():
        source = first = _decoded(path, data)
        if source is None or first is None:
            continue
        applied: Counter[str] = Counter()
        findings = _found(source, settings, result.errors)
        for number in range(MAX_ROUNDS):
            fixes = {
                one.fix: key_of(one, is_first_round=number == 0)
                for one in findings
                if one.fix
                and one.fix.applicability in allowed
                and not spared.has(one, is_first_round=number == 0)
            }
            text, taken = applied_to(source.text, list(fixes))
            if not taken:
                break
            applied.update(fixes[one].code for one in taken)
            result.keys.update(fixes[one] for one in taken)
            source = Source(path, text, source.encoding, bom=source.bom)
            findings = _found(source, settings, [])
        result.findings.extend(findings)
        if source.text != first.text:
            result.changes.append(Change(path, first.text, source.text, data, source.encode(source.text)))
            result.applied[path] = dict(applied)
    return result


def fix_after(
    earlier: Sequence[Change],
    contents: Mapping[str, bytes],
    settings: Settings,
    *,
    unsafe: bool,
    left_out: Collection[FixKey] = (),
) -> Result:
    """The same after other changes, which may be of the same files; the result has them among its changes.

    Args:
        earlier: the other changes.
        contents: the files' bytes by absolute path, without these changes.
        settings: which rules' fixes to apply.
        unsafe: whether unsafe fixes are applied as well.
        left_out: fixes that are not applied.
    """
    changed = {one.path: one for one in earlier}
    current = {path: changed[path].data if path in changed else data for path, data in contents.items()}
    result = fix(current, settings, unsafe=unsafe, left_out=left_out)
    later = {one.path: one for one in result.changes}
    merged = [
        replace(one, after=later[one.path].after, data=later[one.path].data) if one.path in later else one
        for one in earlier
    ]
    others = [one for one in result.changes if one.path not in changed]
    return replace(result, changes=[*merged, *others])


def applied_to(text: str, fixes: Sequence[Fix]) -> tuple[str, list[Fix]]:
    """A text with the fixes that do not overlap with earlier ones, and which these are."""
    edits: list[TextEdit] = []
    taken = []
    for one in fixes:
        if all(new.start >= old.end or new.end <= old.start for new in one.edits for old in edits):
            edits += one.edits
            taken.append(one)
    for edit in sorted(edits, reverse=True):
        text = text[: edit.start] + edit.text + text[edit.end :]
    return text, taken


def _decoded(path: str, data: bytes) -> Source | None:
    """The text of a file; None for one that is no text, or gives other bytes back."""
    try:
        source = Source.decode(path, data)
        return source if source.encode(source.text) == data else None
    except (SourceError, UnicodeError):
        return None


def _found(source: Source, settings: Settings, errors: list[FileError]) -> list[Finding]:
    kind = kind_of(source.path)
    if kind is None:
        return []
    parts = parts_of(kind, source.text)
    found: dict[Finding, None] = {}
    for rule in rules() if parts else ():
        if not rule.part_handlers or settings.target not in rule.targets:
            continue
        if settings.ignored_in(source.path, rule.code, rule.name):
            continue
        if not settings.selects(rule.code, rule.name, optional=rule.optional):
            continue
        context = FileContext(rule, source, parts)
        for wanted, check in rule.part_handlers:
            try:
                found |= dict.fromkeys(
                    one for part in parts if isinstance(part, wanted) for one in check(part, context)
                )
            except Exception as error:  # a mistake of one rule costs no other's findings
                errors.append(FileError(source.path, failure(rule, None, error), rule.code))
    suppressions = source.suppressions_in_lines()
    kept = (one for one in found if settings.reports(one) and not suppressed(one, suppressions))
    if settings.keep_gpu:
        kept = (replace(one, fix=None) for one in kept)  # the fixes are for hosts without a GPU
    return sorted(kept, key=lambda one: one.sort_key)
