"""A text with its syntax tree, and where nodes of the tree stand in it."""

from __future__ import annotations

import ast
import difflib
import io
from collections import Counter
from collections.abc import Iterable
from functools import lru_cache
from itertools import takewhile


@lru_cache(maxsize=4)
def parsed(text: str) -> ast.Module:
    """The tree of a text, which nobody may change: each step of tidying asks for those of the same texts.

    Raises:
        SyntaxError: for a text that does not parse.
    """
    return ast.parse(text)


@lru_cache(maxsize=4)
def nodes(text: str) -> tuple[ast.AST, ...]:
    """All nodes of the tree of a text, as `ast.walk` orders them."""
    return tuple(ast.walk(parsed(text)))


class Text:
    """A text that parses, and its tree.

    Raises:
        SyntaxError: for a text that does not parse.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.tree = parsed(text)
        self.lines = lines_of(text)
        self._starts = [0]
        for line in self.lines:
            self._starts.append(self._starts[-1] + len(line))

    def start(self, node: ast.expr | ast.stmt) -> int:
        """The offset of the first character of a node, in characters."""
        return self.offset(node.lineno, node.col_offset)

    def end(self, node: ast.expr | ast.stmt) -> int:
        """The offset behind the last character of a node."""
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return self.offset(node.end_lineno, node.end_col_offset)

    def offset(self, row: int, column: int) -> int:
        """The offset of a place: a row from 1, and a column in bytes of UTF-8, as syntax trees have it."""
        line = self.lines[row - 1]
        if not line.isascii():
            column = len(line.encode()[:column].decode(errors="ignore"))
        return self._starts[row - 1] + column

    def row_start(self, row: int) -> int:
        """The offset of the beginning of a row; of the end of the text for the row behind the last one."""
        return self._starts[min(row, len(self._starts)) - 1]

    def of(self, node: ast.expr | ast.stmt) -> str:
        """The source of a node."""
        return self.text[self.start(node) : self.end(node)]

    def without_rows(self, rows: Iterable[int]) -> str:
        """The text without some rows."""
        dropped = set(rows)
        return "".join(line for row, line in enumerate(self.lines, 1) if row not in dropped)

    def stands_alone(self, statement: ast.stmt) -> bool:
        """Whether the rows of a statement hold nothing else, not even a comment."""
        first, last = self.row_start(statement.lineno), self.row_start((statement.end_lineno or 0) + 1)
        return self.text[first:last].strip() == self.of(statement)


def lines_of(text: str) -> list[str]:
    """The lines of a text with their endings, as Python counts them.

    `splitlines` also breaks at form feeds and line separators, where a line of Python goes on.
    """
    return list(io.StringIO(text, newline=""))


def bare_lines(text: str) -> list[str]:
    """The lines of a text without their endings."""
    return [parted(line)[0] for line in lines_of(text)]


def parted(line: str) -> tuple[str, str]:
    """A line and its ending."""
    bare = line.rstrip("\r\n")
    return bare, line[len(bare) :]


def indent_of(line: str) -> str:
    """The blanks at the beginning of a line."""
    return line[: len(line) - len(line.lstrip())]


#: Texts whose lines are alike in more pairs than this are compared line by line, regardless of order:
#: `difflib` would take minutes.
_MOST_PAIRS = 4_000_000


def changes(before: str, after: str) -> list[tuple[int, int, int, int]] | None:
    """The parts in which two texts differ; None for texts with too many lines that are alike.

    Each part has its start and end in the lines of the one text and in those of the other, from 0.
    """
    former, lines = bare_lines(before), bare_lines(after)
    first = _common(zip(former, lines, strict=False))
    former, lines = former[first:], lines[first:]
    last = _common(zip(reversed(former), reversed(lines), strict=False))
    former, lines = former[: len(former) - last], lines[: len(lines) - last]
    counts = Counter(former)
    if sum(counts[line] for line in lines if line.strip()) > _MOST_PAIRS:
        return None
    # Blank lines are the most frequent, and matched only beside others.
    matcher = difflib.SequenceMatcher(lambda line: not line.strip(), former, lines, autojunk=False)
    return [
        (first + one, first + two, first + three, first + four)
        for tag, one, two, three, four in matcher.get_opcodes()
        if tag != "equal"
    ]


def _common(pairs: Iterable[tuple[str, str]]) -> int:
    """How many pairs of lines are equal before the first that are not."""
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def new_rows(before: str, after: str) -> set[int]:
    """The rows of a text, from 1, that have no counterpart in the text that it was made of."""
    parts = changes(before, after)
    if parts is not None:
        return {row + 1 for _, _, start, end in parts for row in range(start, end)}
    left = Counter(bare_lines(before))
    rows: set[int] = set()
    for row, line in enumerate(bare_lines(after), 1):
        left[line] -= 1
        if left[line] < 0:
            rows.add(row)
    return rows
