"""What stands between the tokens of an expression: blanks, and within parentheses line ends and comments."""

from __future__ import annotations

import libcst as cst


def joined_gaps(
    one: cst.BaseParenthesizableWhitespace, other: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """The whitespace of two gaps between which nothing is left: the lines of both."""
    if not isinstance(one, cst.ParenthesizedWhitespace):
        return other if not other.empty or isinstance(other, cst.ParenthesizedWhitespace) else one
    if not isinstance(other, cst.ParenthesizedWhitespace):
        return one
    if other.first_line.comment is None:
        return one.with_changes(
            empty_lines=[*one.empty_lines, *other.empty_lines], indent=other.indent, last_line=other.last_line
        )
    line = cst.EmptyLine(
        indent=one.indent,
        whitespace=one.last_line,
        comment=other.first_line.comment,
        newline=other.first_line.newline,
    )
    return one.with_changes(
        empty_lines=[*one.empty_lines, line, *other.empty_lines],
        indent=other.indent,
        last_line=other.last_line,
    )


def has_comment(gap: cst.BaseParenthesizableWhitespace) -> bool:
    """Whether a gap has a comment in it."""
    if not isinstance(gap, cst.ParenthesizedWhitespace):
        return False
    return gap.first_line.comment is not None or any(line.comment is not None for line in gap.empty_lines)
