"""Dockerfiles: images, variables, and the commands of `RUN`."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator

from tpulint.finding import Span
from tpulint.project_files import shell
from tpulint.project_files.lines import whole_lines
from tpulint.project_files.parts import Command, Image, Part, Variable

_INSTRUCTION = re.compile(
    r"^[ \t]*(?P<name>[A-Za-z]+)[ \t]+(?P<value>(?:[^\n\\]|\\(?:[ \t]*\r?\n(?:[ \t]*#[^\n]*\n)*|.))*)",
    re.MULTILINE,
)
_IMAGE = re.compile(r"(?:--\S+[ \t]+)*(?P<name>\S+)")
_PAIR = re.compile(r"([A-Za-z_]\w*)=(\"(?:\\.|[^\"\\])*\"|'[^']*'|(?:\\.|[^\s\\\"'])*)", re.DOTALL)


def parts(text: str) -> Iterator[Part]:
    """The parts of a Dockerfile."""
    for match in _INSTRUCTION.finditer(text):
        name, start, end = match["name"].upper(), *match.span("value")
        if name == "FROM" and (image := _IMAGE.match(text, start, end)):
            yield Image(Span(*image.span("name")), None, image["name"])
        elif name in ("ENV", "ARG"):
            yield from _variables(text, match)
        elif name in ("RUN", "CMD", "ENTRYPOINT") and not match["value"].lstrip().startswith("["):
            for part in shell.parts(text, start, end):
                # The lines of a command continue those around it.
                is_whole = isinstance(part, (Command, Variable))
                yield dataclasses.replace(part, removal=None) if is_whole else part


def _variables(text: str, match: re.Match[str]) -> Iterator[Part]:
    start, end = match.span("value")
    line = whole_lines(text, match.start(), end)
    pairs = list(_PAIR.finditer(text, start, end))
    if not pairs:  # `ENV NAME value`
        name, _, value = text[start:end].partition(" ")
        if value.strip():
            yield Variable(Span(start, end), line, name, value.strip().strip("\"'"))
        return
    for pair in pairs:
        removal = line if len(pairs) == 1 else None
        yield Variable(Span(*pair.span()), removal, pair[1], pair[2].strip("\"'"), Span(*pair.span(2)))
