"""The edits of findings' fixes, for reports that other programs apply."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tpulint.engine.desk import RECURSION_LIMIT
from tpulint.finding import Edit, Edits, Finding, Fix, Span
from tpulint.source import Source, SourceError


def edits_of(findings: Sequence[Finding], contents: Mapping[str, bytes]) -> Edits:
    """The edits of each fix, where its file is still as it was analyzed.

    Args:
        findings: what was found.
        contents: the bytes of files that are not to be read from disk, by path.
    """
    fixes: dict[str, dict[Fix, None]] = {}
    found: Edits = {}
    for finding in findings:
        if finding.fix is not None and finding.fix.edits:
            found[finding.path, finding.fix] = _text_edits(finding.path, finding.fix, contents)
        elif finding.fix is not None:
            fixes.setdefault(finding.path, {})[finding.fix] = None
    if not fixes:
        return found
    from tpulint.rewrite.render import Rendering
    from tpulint.rewrite.tree import RefusedError  # LibCST is imported only where something is rewritten

    sys.setrecursionlimit(max(sys.getrecursionlimit(), RECURSION_LIMIT))
    for path, given in fixes.items():
        try:
            data = contents[path] if path in contents else Path(path).read_bytes()
            rendering = Rendering(Source.decode(path, data), list(given))
        except (OSError, SourceError, SyntaxError, RefusedError):
            continue
        found |= {(path, fix): rendering.edits(fix) for fix in given}
    return found


def _text_edits(path: str, fix: Fix, contents: Mapping[str, bytes]) -> tuple[Edit, ...]:
    """The edits of a fix of a file that is not Python; none if the file cannot be read any more."""
    try:
        data = contents[path] if path in contents else Path(path).read_bytes()
        source = Source.decode(path, data)
    except (OSError, SourceError):
        return ()
    return tuple(
        Edit(Span(one.start, one.end), one.text, source.location(one.start), source.location(one.end))
        for one in fix.edits
    )
