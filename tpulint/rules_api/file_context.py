"""The context that handlers of parts of files get: a file that is not Python."""

from __future__ import annotations

from collections.abc import Sequence

from tpulint.finding import Applicability, Finding, Fix, Severity, Span
from tpulint.plan import TextEdit
from tpulint.project_files.parts import Part
from tpulint.rules_api.context import Reporter
from tpulint.source import Source


class FileContext:
    """A file around the code as a rule sees it."""

    def __init__(self, rule: Reporter, source: Source, parts: Sequence[Part] = ()) -> None:
        self._rule, self._source = rule, source
        self._parts = parts

    @property
    def parts(self) -> Sequence[Part]:
        """All parts of the file."""
        return self._parts

    @property
    def contents(self) -> str:
        """The text of the whole file."""
        return self._source.text

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.contents[span.start : span.end]

    def finding(
        self,
        where: Part | Span,
        message: str,
        fix: Fix | None = None,
        *,
        severity: Severity | None = None,
    ) -> Finding:
        """A finding at a part of the file, by default with the severity of the rule."""
        span = where.span if isinstance(where, Part) else where
        start = self._source.location(span.start)
        return Finding(
            self._source.path,
            start,
            self._source.location(span.end),
            self._rule.code,
            self._rule.name,
            message,
            span,
            self._source.line(start.row),
            fix,
            url=self._rule.url,
            optional=self._rule.optional,
            severity=severity or self._rule.severity,
        )

    def replace(self, title: str, span: Span, text: str) -> Fix:
        """An unsafe fix that replaces the text of a span."""
        return Fix(title, (), Applicability.UNSAFE, edits=(TextEdit(span.start, span.end, text),))

    def remove(self, title: str, part: Part) -> Fix | None:
        """An unsafe fix that removes a part; None if it cannot go alone."""
        if part.removal is None:
            return None
        return self.replace(title, part.removal, "")
