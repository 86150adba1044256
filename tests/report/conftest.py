"""Findings to report."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tpulint.finding import Applicability, Edit, Finding, Fix, Location, Related, Span

Make = Callable[..., Finding]


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
    ) -> Finding:
        edit = Edit(Span(100, 108), "y", Location(*start), Location(*end))
        return Finding(
            path=str(folder / path),
            location=Location(*start),
            end_location=Location(*end),
            code=code,
            name="item-in-traced-code",
            message=message,
            span=Span(100, 108),
            source_line=line,
            fix=None if fix is None else Fix("keep the tensor", (edit,), fix),
            related=tuple(
                Related(str(folder / path), Location(row, column), text) for row, column, text in related
            ),
            url="https://example.org/item-in-traced-code",
        )

    return build
