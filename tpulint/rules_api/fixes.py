"""Fixes put together from rewrites: what they cost decides how far they may be trusted."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from tpulint.finding import Applicability, Fix
from tpulint.knowledge.targets import TARGETS, Target
from tpulint.model.module import Module
from tpulint.model.syntax.aliases import in_own_words
from tpulint.model.syntax.imports import missing_imports
from tpulint.model.syntax.rewritten import text_lost
from tpulint.plan import Change, Import, Kind, Rewrite

#: The name of the torchax device, as a string of Python's.
_DEVICE = re.compile(r"""(["'])jax\1""")
#: Before Python 3.12, an f-string lets its expressions hold neither its own quotes nor these.
_NOT_IN_FORMATTED = "\\\n{}#"
_QUOTES = "\"'"


def assembled(
    module: Module,
    title: str,
    changes: Sequence[Change],
    applicability: Applicability,
    *,
    serves_cuda: bool,
    in_torchax: bool,
) -> Fix:
    """A fix from rewrites and imports; if a safe one would delete a comment, it is unsafe.

    So does one that writes the torchax device where a program does not enter the torchax environment
    (`in_torchax`). A rewrite within what another one deletes goes with it.
    """
    target = TARGETS[module.project.target]
    title, changes = target.spelled(title), [_spelled(one, target) for one in changes]
    changes = in_own_words(module, [*changes, *_needed(module, changes, target)])
    imports = tuple(dict.fromkeys(one for one in changes if isinstance(one, Import)))
    rewrites = list(dict.fromkeys(one for one in changes if isinstance(one, Rewrite)))
    deleted = [one.path for one in rewrites if one.kind is Kind.DELETE]
    rewrites = [one for one in rewrites if not any(_is_within(one, path) for path in deleted)]
    lost = [text_lost(module.source, one) for one in rewrites]
    if applicability is Applicability.SAFE:
        kept = "".join(code for one in rewrites for code in one.code)
        if any(comment not in kept for text in lost for comment in _comments(text)):
            applicability = Applicability.UNSAFE
        written = zip(rewrites, lost, strict=True)
        if not in_torchax and any(_writes_device(one, text) for one, text in written):
            applicability = Applicability.UNSAFE
    return Fix(title, tuple(rewrites), applicability, imports, serves_cuda)


def _spelled(change: Change, target: Target) -> Change:
    """A change with the device of the target instead of torchax's."""
    if isinstance(change, Import):
        return change
    return replace(change, code=tuple(map(target.spelled, change.code)))


def _needed(module: Module, changes: Sequence[Change], target: Target) -> list[Import]:
    """The import without which the device that the changes name does not exist."""
    codes = [code for one in changes if isinstance(one, Rewrite) for code in one.code]
    if not target.device_import or not any(
        f"{mark}{target.device}{mark}" in c for mark in _QUOTES for c in codes
    ):
        return []
    return [
        Import(one) for one in missing_imports(module, (target.device_import,), module.index.module) or ()
    ]


def within_formatted(module: Module, formatted: ast.JoinedStr, fix: Fix) -> Fix | None:
    """A fix whose code may stand within an f-string; None where it may not.

    Python before 3.12 lets an f-string hold neither its own quotes nor backslashes.
    """
    text = module.source.text[slice_of(module, formatted)]
    first = next((symbol for symbol in text if symbol in _QUOTES), "")
    other = _QUOTES.replace(first, "")
    rewrites = []
    for one in fix.rewrites:
        if any(node is formatted for node in module.nodes_on(one.path)):
            code = "".join(one.code)
            if any(symbol in code for symbol in _NOT_IN_FORMATTED) or (first in code and other in code):
                return None
            one = replace(one, code=tuple(part.replace(first, other) for part in one.code))
        rewrites.append(one)
    return replace(fix, rewrites=tuple(rewrites))


def slice_of(module: Module, node: ast.expr) -> slice:
    """The characters of a node, as a slice of the file's text."""
    span = module.source.span(node)
    return slice(span.start, span.end)


def _is_within(rewrite: Rewrite, path: tuple[tuple[str, int], ...]) -> bool:
    return rewrite.path != path and rewrite.path[: len(path)] == path


def _writes_device(rewrite: Rewrite, lost: str) -> bool:
    """Whether a rewrite names the torchax device where the code did not."""
    return any(map(_DEVICE.search, rewrite.code)) and _DEVICE.search(lost) is None


def _comments(text: str) -> Iterator[str]:
    """What may be comments of a text that holds a comment."""
    for line in text.splitlines():
        _, mark, comment = line.partition("#")
        if mark:
            yield comment.strip()


def one_line(text: str) -> str:
    """A message or title that may quote code of several lines."""
    return " ".join(text.split()) if "\n" in text or "\r" in text else text
