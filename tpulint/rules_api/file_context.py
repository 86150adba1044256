"""The context that handlers of parts of files get: a file that is not Python."""

from __future__ import annotations

from tpulint.finding import Applicability, Finding, Fix, Span
from tpulint.plan import TextEdit
from tpulint.project_files.kinds import FileKind
from tpulint.project_files.parts import Part
from tpulint.rules_api.context import Reporter
from tpulint.source import Source


class FileContext:
    """A file around the code as a rule sees it."""

    def __init__(self, rule: Reporter, source: Source, kind: FileKind) -> None:
        self.rule, self.source, self.kind = rule, source, kind

    def text(self, span: Span) -> str:
        """The text of a span."""
        return self.source.text[span.start : span.end]

    def finding(self, where: Part | Span, message: str, fix: Fix | None = None) -> Finding:
        """A finding at a part of the file."""
        span = where.span if isinstance(where, Part) else where
        start = self.source.location(span.start)
        return Finding(
            self.source.path,
            start,
            self.source.location(span.end),
            self.rule.code,
            self.rule.name,
            message,
            span,
            self.source.line(start.row),
            fix,
            url=self.rule.url,
            optional=self.rule.optional,
        )

    def replace(self, title: str, span: Span, text: str) -> Fix:
        """A fix that replaces the text of a span."""
        return Fix(title, (), Applicability.UNSAFE, edits=(TextEdit(span.start, span.end, text),))

    def remove(self, title: str, part: Part) -> Fix | None:
        """A fix that removes a part; None if it cannot go alone."""
        if part.removal is None:
            return None
        return self.replace(title, part.removal, "")
