"""One file: bytes to text and back, its `ast` tree, and places in it."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from bisect import bisect_right
from functools import cached_property

from tpulint.finding import Location, Span

#: Generated data, not code that someone migrates: parsing it would take gigabytes.
MAX_BYTES = 4 * 1024 * 1024

_LINE_END = re.compile(r"\r\n|\r|\n")
_BOM = b"\xef\xbb\xbf"
_TYPE_COMMENT = re.compile(r"#\s*type:\s*(?!ignore)([^#\r\n]+)")
_SUPPRESSION = re.compile(r"#\s*tpulint:\s*ignore(?:\[(?P<codes>[^\]]*)\])?")


class SourceError(Exception):
    """A file that cannot be analyzed; the text says why in one line."""


class Source:
    """The decoded text of one file.

    `text` keeps the file's own line endings; offsets count characters of it.
    """

    def __init__(self, path: str, text: str, encoding: str = "utf-8", *, bom: bool = False) -> None:
        self.path = path
        self.text = text
        self.encoding = encoding
        self.bom = bom

    @classmethod
    def decode(cls, path: str, data: bytes) -> Source:
        """Read a file's bytes as Python would.

        Raises:
            SourceError: for binary, undecodable or oversized data.
        """
        if len(data) > MAX_BYTES:
            raise SourceError(f"larger than {MAX_BYTES // 1024 // 1024} MiB, not analyzed; exclude it")
        if b"\0" in data:
            raise SourceError("holds null bytes, so it is not Python text")
        bom = data.startswith(_BOM)
        body = data[len(_BOM) :] if bom else data
        encoding = "utf-8"
        if not body.isascii() or b"coding" in body[:400]:
            try:
                encoding = tokenize.detect_encoding(io.BytesIO(body).readline)[0]
            except SyntaxError as error:
                raise SourceError(f"cannot be decoded: {error.msg}") from error
        try:
            return cls(path, body.decode(encoding), encoding, bom=bom)
        except (UnicodeError, LookupError) as error:
            raise SourceError(f"cannot be decoded: {error}") from error

    def encode(self, text: str) -> bytes:
        """A changed text as bytes, in this file's encoding and with its byte order mark.

        Raises:
            UnicodeEncodeError: when the encoding has no room for a character of the text.
        """
        return (_BOM if self.bom else b"") + text.encode(self.encoding)

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree.

        Raises:
            SyntaxError: as Python's parser does.
            SourceError: for nesting that the parser or the analysis cannot follow.
        """
        try:
            return ast.parse(self.text, self.path)
        except (RecursionError, MemoryError) as error:
            raise SourceError("nested too deeply to be parsed") from error
        except ValueError as error:
            raise SourceError(f"cannot be parsed: {error}") from error

    @cached_property
    def line_starts(self) -> list[int]:
        """Offset of the first character of each line."""
        return [0, *(match.end() for match in _LINE_END.finditer(self.text))]

    @cached_property
    def newline(self) -> str:
        """The line ending that this file uses first, or a line feed."""
        match = _LINE_END.search(self.text)
        return match.group() if match else "\n"

    @cached_property
    def indent(self) -> str:
        """What this file's first block is indented by, or four blanks."""
        for node in ast.walk(self.tree):
            body = getattr(node, "body", None)
            if isinstance(node, ast.stmt) and isinstance(body, list) and body[0].lineno > node.lineno:
                outer, inner = (
                    line[: -len(line.lstrip())] for line in map(self.line, (node.lineno, first_row(body[0])))
                )
                if inner.startswith(outer):
                    return inner.removeprefix(outer)
        return "    "

    def ahead_of(self, statement: ast.stmt) -> str:
        """What stands before a statement on its row: blanks, unless it shares the row with other code.

        A backslash at the end of a row joins it to the next one.
        """
        row = statement.lineno
        while row > 1 and (before := self.line(row - 1)).endswith("\\") and "#" not in before:
            row -= 1
        return self.text[self.line_starts[row - 1] : self.span(statement).start]

    def shares_row(self, statement: ast.stmt) -> bool:
        """Whether other code stands on the rows of a statement, ahead of it or behind a semicolon."""
        behind = self.text[self.span(statement).end :].partition("\n")[0].lstrip(" \t;").strip()
        return bool(self.ahead_of(statement).strip()) or behind[:1] not in ("", "#")

    def margin(self, statement: ast.stmt) -> str:
        """The blanks in front of a statement's line."""
        line = self.line(statement.lineno)
        return line[: len(line) - len(line.lstrip())]

    @cached_property
    def _ascii(self) -> bool:
        return self.text.isascii()

    def offset(self, row: int, byte_column: int) -> int:
        """Offset of a location as `ast` gives it: row from 1, column in UTF-8 bytes from 0."""
        start = self.line_starts[row - 1]
        if self._ascii:
            return start + byte_column
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.text)
        line = self.text[start:end]
        return start + len(line.encode()[:byte_column].decode(errors="ignore"))

    def span(self, node: ast.expr | ast.stmt | ast.keyword | ast.arg | ast.alias | ast.excepthandler) -> Span:
        """The characters of a node, decorators left out."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return Span(
            self.offset(node.lineno, node.col_offset), self.offset(node.end_lineno, node.end_col_offset)
        )

    def location(self, offset: int) -> Location:
        """Row and column, from 1, of an offset."""
        row = bisect_right(self.line_starts, offset)
        return Location(row, offset - self.line_starts[row - 1] + 1)

    def line(self, row: int) -> str:
        """Text of a line, without its ending."""
        start = self.line_starts[row - 1]
        end = self.line_starts[row] if row < len(self.line_starts) else len(self.text)
        return self.text[start:end].rstrip("\r\n")

    @cached_property
    def suppressions(self) -> dict[int, frozenset[str] | None]:
        """Rows that carry `# tpulint: ignore[...]`, with the codes or names in it; None means all."""
        if "tpulint:" not in self.text:
            return {}
        found: dict[int, frozenset[str] | None] = {}
        try:
            # `tokenize` does not know a lone carriage return for the end of a line, as the parser does.
            text = _LINE_END.sub("\n", self.text)
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return {}
        for token in tokens:
            if token.type == tokenize.COMMENT and (match := _SUPPRESSION.search(token.string)):
                found[token.start[0]] = _suppressed_codes(match)
        return found

    def suppressions_in_lines(self) -> dict[int, frozenset[str] | None]:
        """The same for a file that is not Python."""
        matches = _SUPPRESSION.finditer(self.text)
        return {self.location(match.start()).row: _suppressed_codes(match) for match in matches}

    @cached_property
    def type_comments(self) -> dict[int, str]:
        """Rows that end in `# type: ...`, with the text of the comment."""
        if "# type: " not in self.text:
            return {}
        found = _TYPE_COMMENT.finditer(self.text)
        return {self.location(match.start()).row: match[1].strip() for match in found}

    def comments_within(self, span: Span) -> bool:
        """Whether the text of a span holds a comment, which an edit of it would eat."""
        text = self.text[span.start : span.end]
        if "#" not in text:
            return False
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(f"({text}\n)").readline))
        except (tokenize.TokenError, SyntaxError):
            return True
        return any(token.type == tokenize.COMMENT for token in tokens)


def _suppressed_codes(match: re.Match[str]) -> frozenset[str] | None:
    """The codes and names of a comment that suppresses findings; None means all."""
    codes = match["codes"]
    if codes is None:
        return None
    return frozenset(code.strip() for code in codes.split(",") if code.strip())


def first_row(node: ast.expr | ast.stmt) -> int:
    """The row of the first decorator, or else of the node, which begins behind them."""
    above = decorators(node)
    return min(node.lineno, above[0].lineno) if above else node.lineno


def decorators(node: ast.AST) -> list[ast.expr]:
    """The decorators of a function or class; none of anything else."""
    found: list[ast.expr] = node.__dict__.get("decorator_list", [])
    return found


def require_ast(node: object) -> None:
    """Refuse what is no node of `ast`.

    Raises:
        TypeError: for a node of LibCST or anything else.
    """
    if not isinstance(node, ast.AST):
        name = f"{type(node).__module__.partition('.')[0]}.{type(node).__name__}"
        raise TypeError(
            f"a node of `ast` is wanted, not `{name}`; `ctx.node(...)` gives that of a LibCST node"
        )
