"""Comments above statements that fixes took out."""

from __future__ import annotations

from tpulint.tidy.text import bare_lines, changes, indent_of, lines_of


def without_orphans(before: str, after: str) -> str:
    """`after` without the comments of paragraphs that are gone.

    A paragraph is the comment and the statements below it, up to a blank line, another comment or the end of
    the block. While one of its statements is left, the comment stays.
    """
    former, rows = bare_lines(before), bare_lines(after)
    dropped: set[int] = set()
    for start, end, place, place_end in changes(before, after) or ():
        if place != place_end or not _ends_paragraph(former, start, end):
            continue
        first = start
        while first and _is_comment(former[first - 1], former[start]):
            first -= 1
        above = range(place - (start - first), place)
        if first < start and [rows[row] for row in above] == former[first:start]:
            dropped |= set(above)
    return "".join(line for row, line in enumerate(lines_of(after)) if row not in dropped)


def _is_comment(line: str, below: str) -> bool:
    """Whether a line is a comment on the line below, and nothing that tools read."""
    text = line.strip()
    is_plain = text.startswith("#") and not text.startswith(
        ("#!", "# noqa", "# type:", "# fmt:", "# %%", "#%%")
    )
    return is_plain and indent_of(line) == indent_of(below)


def _ends_paragraph(lines: list[str], start: int, end: int) -> bool:
    """Whether nothing of the paragraph of some lines is left below them."""
    if not lines[start].strip() or lines[start].lstrip().startswith("#"):
        return False
    if not lines[end - 1].strip() or end == len(lines):
        return True
    below = lines[end]
    indent = indent_of(lines[start])
    return not below.strip() or below.lstrip().startswith("#") or len(indent_of(below)) < len(indent)
