"""What fixes change of a file's text: the edits that reports give, each fix by itself."""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping, Sequence

import libcst as cst

from tpulint.finding import Edit, Fix, Span
from tpulint.rewrite.apply import File
from tpulint.rewrite.code import BrokenCodeError
from tpulint.source import Source


class Rendering:
    """One file whose fixes are rendered.

    Args:
        source: the file.
        fixes: those that are.

    Raises:
        RefusedError: when LibCST does not give the file's text back.
    """

    def __init__(self, source: Source, fixes: Sequence[Fix]) -> None:
        self._source = source
        self._file = File(source, fixes)
        module = self._file.module
        #: The code of what stands in the file, in order: its header, its statements, and what is after them.
        self._parts = _parts(module, {})
        self._known = {key: code for code, key in self._parts}
        self._ends = [0]
        for code, _ in self._parts:
            self._ends.append(self._ends[-1] + len(self._file.unfolded(code)))

    def edits(self, fix: Fix) -> tuple[Edit, ...]:
        """The edits of the text that a fix by itself makes; none where it cannot be carried out."""
        try:
            changed, applied = self._file.rewritten([fix])
        except BrokenCodeError:
            return ()
        if not applied:
            return ()
        now = _parts(changed, self._known)
        keys, new_keys = [key for _, key in self._parts], [key for _, key in now]
        matcher = difflib.SequenceMatcher(None, keys, new_keys, autojunk=False)
        edits: list[Edit] = []
        for tag, first, last, start, end in matcher.get_opcodes():
            if tag != "equal":
                content = self._file.unfolded("".join(code for code, _ in now[start:end]))
                edits += self._within(Span(self._ends[first], self._ends[last]), content)
        return tuple(edits)

    def _within(self, span: Span, content: str) -> Iterator[Edit]:
        """The edits that make other text of a span: lines, without what is equal at their ends."""
        before = self._source.text[span.start : span.end].splitlines(keepends=True)
        after = content.splitlines(keepends=True)
        starts = [span.start]
        for line in before:
            starts.append(starts[-1] + len(line))
        for tag, first, last, start, end in difflib.SequenceMatcher(
            None, before, after, autojunk=False
        ).get_opcodes():
            if tag != "equal":
                yield self._trimmed(Span(starts[first], starts[last]), "".join(after[start:end]))

    def _trimmed(self, span: Span, content: str) -> Edit:
        old = self._source.text[span.start : span.end]
        head = _common(old, content)
        tail = _common(old[head:][::-1], content[head:][::-1])
        start, end = span.start + head, span.end - tail
        source = self._source
        text = content[head : len(content) - tail]
        return Edit(Span(start, end), text, source.location(start), source.location(end))


def _parts(module: cst.Module, known: Mapping[int, str]) -> list[tuple[str, int]]:
    """The code of the parts of a file, each with the identity of its node, by which some are `known`."""
    parts = [(known.get(id(one)) or module.code_for_node(one), id(one)) for one in _nodes(module)]
    if parts and not module.has_trailing_newline:
        code, key = parts[-1]
        parts[-1] = (code.rstrip("\r\n"), key)
    return parts


def _nodes(module: cst.Module) -> list[cst.CSTNode]:
    return [*module.header, *module.body, *module.footer]


def _common(one: str, other: str) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count
