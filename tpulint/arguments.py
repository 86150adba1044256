"""The arguments of a call as its file has them, so that changing one leaves the layout of the others."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection
from dataclasses import dataclass, replace

from tpulint.source import Source

_COMMENT = re.compile(r"#[^\r\n]*")
_NEW_LINE = re.compile(r"(\r\n|\r|\n)[ \t]*\Z")


@dataclass(frozen=True, slots=True)
class Arguments:
    """What is written behind the callee of a call; as a text, it is what is to be written there.

    `opening` is what stands before the first argument, `texts` are the arguments, and `tails` what stands
    behind each of them: a comma, comments, line ends, spaces.
    """

    opening: str
    texts: tuple[str, ...]
    tails: tuple[str, ...]

    def __str__(self) -> str:
        listed = "".join(map("".join, zip(self.texts, self.tails, strict=True)))
        return f"{self.opening}{listed})"

    def without(self, dropped: Collection[int]) -> Arguments:
        """All but those at some places; what stood behind the last one stands at the end still."""
        kept = [number for number in range(len(self.texts)) if number not in dropped]
        tails = [*(self.tails[number] for number in kept[:-1]), *self.tails[-1:]]
        return replace(
            self, texts=tuple(self.texts[number] for number in kept), tails=tuple(tails[: len(kept)])
        )

    def after(self, text: str) -> Arguments:
        """One more before the others."""
        return replace(self, texts=(text, *self.texts), tails=(", " if self.texts else "", *self.tails))

    def before(self, text: str) -> Arguments:
        """One more behind the others, on a line of its own where they have lines of their own."""
        if not self.texts:
            return replace(self, texts=(text,), tails=("",))
        gap, end = ", ", self.tails[-1]
        line = _NEW_LINE.search(self.tails[-2] if len(self.tails) > 1 else self.opening)
        last = _NEW_LINE.search(end)
        if line is not None and last is not None and "," in _blank(end):
            gap, end = f"{end[: last.start()]}{line.group()}", f",{last.group()}"
        return replace(self, texts=(*self.texts, text), tails=(*self.tails[:-1], gap, end))


def in_order(call: ast.Call) -> list[ast.expr | ast.keyword]:
    """The arguments of a call in the order in which they are written."""
    return sorted([*call.args, *call.keywords], key=lambda node: (node.lineno, node.col_offset))


def arguments(call: ast.Call, source: Source) -> Arguments:
    """The arguments of a call as its file has them, in the order in which they are written."""
    spans = [source.span(node) for node in in_order(call)]
    text, first, last = source.text, source.span(call.func).end, source.span(call).end - 1
    head = _blank(text[first : spans[0].start if spans else last])
    if not spans:
        return Arguments(text[first:last], (), ())
    if "(" not in head:  # the parentheses of a generator are those of the call
        return Arguments(f"{head}(", (text[spans[0].start : spans[0].end],), ("",))
    # Between two nodes stand the parentheses around either, and between these the comma.
    start = _opened(head, head.index("(") + 1, first, spans[0].start)
    opening, texts, tails = text[first:start], [], []
    for number, span in enumerate(spans):
        following = spans[number + 1].start if number + 1 < len(spans) else last
        gap = _blank(text[span.end : following])
        comma = gap.find(",") if "," in gap else len(gap)
        end = span.end + gap.rfind(")", 0, comma) + 1
        texts.append(text[start:end])
        start = following if following == last else _opened(gap, comma, span.end, following)
        tails.append(text[end:start])
    return Arguments(opening, tuple(texts), tuple(tails))


def _blank(gap: str) -> str:
    """Text between two nodes with its comments blanked."""
    return _COMMENT.sub(lambda comment: " " * len(comment.group()), gap) if "#" in gap else gap


def _opened(gap: str, after: int, offset: int, node: int) -> int:
    """Where what is written for a node begins: at the first parenthesis around it, or at itself."""
    found = gap.find("(", after)
    return offset + found if found >= 0 else node
