"""The charts of the report, as SVG: readable without color, by their patterns and numbers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup

from tpulint.overview.content import ModuleRow

#: How many files the chart of findings shows.
MOST_FILES = 25
_WIDTH, _NAMES, _ROW = 900, 330, 24
_LONGEST = 46
_GIB = 2**30


def findings_chart(rows: Sequence[ModuleRow]) -> Markup:
    """A stacked bar for each file: the number of its findings, by severity."""
    rows = rows[:MOST_FILES]
    most = max((row.findings.total for row in rows), default=1)
    scale = (_WIDTH - _NAMES - 60) / most
    parts = []
    for number, row in enumerate(rows):
        y = number * _ROW
        counts = row.findings
        words = f"{row.path}: {counts.blocks} block, {counts.slow} slow, {counts.cosmetic} cosmetic"
        parts.append(Markup("<g><title>{}</title>").format(words))
        parts.append(
            Markup('<text x="{}" y="{}" text-anchor="end">{}</text>').format(
                _NAMES - 8, y + 16, _shortened(row.path)
            )
        )
        x = float(_NAMES)
        for name, count in (("blocks", counts.blocks), ("slow", counts.slow), ("cosmetic", counts.cosmetic)):
            parts += _segment(x, y + 4, count * scale, 15, name, f"var(--{name})")
            x += count * scale
        parts.append(
            Markup('<text x="{}" y="{}">{}</text></g>').format(_rounded(x + 6), y + 16, counts.total)
        )
    label = f"Findings of {len(rows)} files: " + "; ".join(f"{row.path} {row.findings.total}" for row in rows)
    return _svg(len(rows) * _ROW, label, parts)


@dataclass(frozen=True, slots=True)
class MemoryBar:
    """The memory of a chip that a target needs, in words, and as a bar with the memory of the chip."""

    title: str
    words: str
    svg: Markup


def memory_bars(evidence: Iterable[dict[str, Any]]) -> list[MemoryBar]:
    """A bar for each target and topology that was compiled."""
    return [
        _memory_bar(f"{one['target']} on {compiled['topology']}", compiled)
        for one in evidence
        for compiled in one.get("compiled", ())
        if compiled.get("state") == "compiles" and compiled.get("hbm")
    ]


def _memory_bar(title: str, compiled: dict[str, Any]) -> MemoryBar:
    memory, hbm = compiled["memory"], compiled["hbm"]
    total = memory["total"]
    fits = "fits" if compiled.get("fits") else "does not fit"
    words = f"{total / _GIB:.2f} of {hbm / _GIB:.0f} GiB, {fits}"
    if compiled.get("batch"):
        words += f" with a batch of {compiled['batch']}"
    if compiled.get("largest_batch"):
        words += f"; up to a batch of {compiled['largest_batch']}"
    sizes = {
        "arguments": memory["arguments"],
        "temporary": memory["temporary"],
        "other": max(total - memory["arguments"] - memory["temporary"], 0),
    }
    scale = (_WIDTH - 2) / max(total, hbm)
    parts = [
        Markup('<rect class="track" x="1" y="3" width="{}" height="18"/>').format(_rounded(hbm * scale)),
    ]
    x = 1.0
    for name, size in sizes.items():
        parts += _segment(x, 3, size * scale, 18, name, "var(--soft)")
        x += size * scale
    limit = _rounded(1 + hbm * scale)
    parts.append(Markup('<line class="limit" x1="{0}" x2="{0}" y1="0" y2="24"/>').format(limit))
    return MemoryBar(title, words, _svg(24, f"Memory of {title}: {words}", parts))


def _segment(x: float, y: float, width: float, height: float, name: str, stroke: str) -> list[Markup]:
    if width <= 0:
        return []
    shape = '<rect x="{}" y="{}" width="{}" height="{}" fill="url(#p-{})" stroke="{}"/>'
    return [Markup(shape).format(_rounded(x), y, _rounded(width), height, name, stroke)]


def _svg(height: int, label: str, parts: Iterable[Markup]) -> Markup:
    head = Markup('<svg viewBox="0 0 {} {}" role="img" aria-label="{}">').format(_WIDTH, height, label)
    return head + Markup("").join(parts) + Markup("</svg>")


def _shortened(path: str) -> str:
    return path if len(path) <= _LONGEST else f"…{path[-_LONGEST + 1 :]}"


def _rounded(number: float) -> float:
    return round(number, 1)
