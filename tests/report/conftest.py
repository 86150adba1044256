"""Findings to report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.finding import Applicability, Edit, Edits, Finding, Fix, Location, Related, Severity, Span
from tpulint.plan import Kind, Rewrite

Make = Callable[..., Finding]
EditsOf = Callable[[list[Finding]], Edits]

#: Puts `y` in the place of `y.item()`.
KEEP = Rewrite((("body", 11), ("value", -1)), Kind.REPLACE, ("y",))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def make(folder: Path) -> Make:
    """A finding in `pkg/model.py`: `.item()` in `    x = y.item()` on line 12, unless told otherwise."""

    def build(
        line: str = "    x = y.item()",
        start: tuple[int, int] = (12, 9),
        end: tuple[int, int] = (12, 17),
        fix: Applicability | None = None,
        related: tuple[tuple[int, int, str], ...] = (),
        path: str = "pkg/model.py",
        code: str = "TPU301",
        message: str = "`.item()` waits for the device",
        severity: Severity = Severity.BLOCKS,
    ) -> Finding:
        return Finding(
            path=str(folder / path),
            location=Location(*start),
            end_location=Location(*end),
            code=code,
            name="item-in-traced-code",
            message=message,
            span=Span(100, 108),
            source_line=line,
            fix=None if fix is None else Fix("keep the tensor", (KEEP,), fix),
            related=tuple(
                Related(str(folder / path), Location(row, column), text) for row, column, text in related
            ),
            url="https://example.org/item-in-traced-code",
            severity=severity,
        )

    return build


@pytest.fixture
def edits_of() -> EditsOf:
    """The edits of findings' fixes: `y` in the place of what was found."""

    def build(findings: list[Finding]) -> Edits:
        return {
            (one.path, one.fix): (Edit(one.span, "y", one.location, one.end_location),)
            for one in findings
            if one.fix is not None
        }

    return build
