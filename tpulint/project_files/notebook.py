"""Notebooks: their cells, and the commands that these run in a shell, as `!pip install torch` does."""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Iterator, Sequence

from tpulint.finding import Span
from tpulint.project_files import shell
from tpulint.project_files.parts import Cell, Command, Directive, Part, Variable

_TOKEN = re.compile(r"\"(?:[^\"\\]|\\.)*\"|[{}\[\],:]")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)|[^\\]", re.DOTALL)
#: A line that IPython gives to a shell, or to pip and conda.
_COMMAND = re.compile(r"^[ \t]*(?:!|%(?=(?:pip|conda|mamba|micromamba)\b))(?P<command>[^\n]*)", re.MULTILINE)
_SHELL_CELL = re.compile(r"\s*%%(?:bash|sh|script (?:bash|sh))\b[^\n]*\n")


def parts(text: str) -> Iterator[Part]:
    """The code cells of a notebook, their commands, what these install, and the variables that they set."""
    for code, offsets in _cells(text):
        yield Cell(Span(offsets[0], offsets[-1]), None, code)
        cell = _SHELL_CELL.match(code)
        spans = [(cell.end(), len(code))] if cell else [m.span("command") for m in _COMMAND.finditer(code)]
        for start, end in spans:
            for part in shell.parts(code[:end], start, end):
                if not isinstance(part, Directive):
                    yield _placed(part, offsets)


def _placed(part: Part, offsets: Sequence[int]) -> Part:
    """A part of a cell at its place in the notebook; whole commands are not removed from their cells."""

    def placed(span: Span) -> Span:
        return Span(offsets[span.start], offsets[span.end])

    is_whole = isinstance(part, (Command, Variable))
    removal = None if is_whole or part.removal is None else placed(part.removal)
    part = dataclasses.replace(part, span=placed(part.span), removal=removal)
    if isinstance(part, Variable) and part.value_span is not None:
        return dataclasses.replace(part, value_span=placed(part.value_span))
    if isinstance(part, Command):
        words = tuple(dataclasses.replace(word, span=placed(word.span)) for word in part.words)
        return dataclasses.replace(part, words=words)
    return part


def _cells(text: str) -> Iterator[tuple[str, list[int]]]:
    """The code of each code cell, and the offset in the file of each of its characters and of its end."""
    try:
        cells = json.loads(text)["cells"]
        is_code = [cell["cell_type"] == "code" for cell in cells]
    except (ValueError, TypeError, KeyError, RecursionError):
        return
    found: dict[int, tuple[list[str], list[int]]] = {}
    for path, span in _strings(text):
        match path:
            case ["cells", int(number), "source", *_] if is_code[number]:
                pieces, offsets = found.setdefault(number, ([], []))
                for escape in _ESCAPE.finditer(text, span.start, span.end):
                    pieces.append(json.loads(f'"{escape[0]}"') if escape[0][0] == "\\" else escape[0])
                    offsets.append(escape.start())
    for pieces, offsets in found.values():
        # A character beyond 16 bits may be written as two escapes, which are no characters alone.
        if pieces and all(len(piece) == 1 and not "\ud800" <= piece <= "\udfff" for piece in pieces):
            yield "".join(pieces), [*offsets, offsets[-1] + 1]


def _strings(text: str) -> Iterator[tuple[list[str | int], Span]]:
    """The values in a JSON text that are strings, each with its path; spans are without the quotes."""
    path: list[str | int] = []
    is_key = False
    for token in _TOKEN.finditer(text):
        match token[0]:
            case "{" | "[":
                path.append(0 if token[0] == "[" else "")
                is_key = token[0] == "{"
            case "}" | "]":
                path.pop()
                is_key = False
            case ",":
                last = path[-1]
                path[-1] = last + 1 if isinstance(last, int) else ""
                is_key = not isinstance(last, int)
            case ":":
                is_key = False
            case literal if is_key:
                path[-1] = json.loads(literal)
            case _:
                yield path, Span(token.start() + 1, token.end() - 1)
