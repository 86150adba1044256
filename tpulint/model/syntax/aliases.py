"""Fixes in a file's own words: torch has the name there that the file's import gives it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from tpulint.finding import Edit

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile

_IMPORT = re.compile(r"^import torch\r?\n", re.MULTILINE)
_USE = re.compile(r"(?<![\w.\"'])torch\.(?=\w)")
_IMPORTS = ("import ", "from ")


def in_own_words(module: ParsedFile, edits: Iterable[Edit]) -> Iterator[Edit]:
    """Edits without `import torch` where a file has it by another name, such as `th`, which they use then."""
    edits, alias = list(edits), _alias(module)
    if alias is None or not any(map(_imports_torch, edits)):
        yield from edits
        return
    for edit in edits:
        if _imports_torch(edit):
            rest = _IMPORT.sub("", edit.content)
            if rest.strip():
                yield replace(edit, content=rest)
        elif edit.content.lstrip().startswith(_IMPORTS):
            yield edit
        else:
            yield replace(edit, content=_USE.sub(f"{alias}.", edit.content))


def _imports_torch(edit: Edit) -> bool:
    return edit.content.lstrip().startswith(_IMPORTS) and _IMPORT.search(edit.content) is not None


def _alias(module: ParsedFile) -> str | None:
    """The name that the file imports torch by, if not its own."""
    bindings = module.index.module.bindings
    names = [name for name, ways in bindings.items() if [way.target for way in ways] == ["torch"]]
    return names[0] if names and "torch" not in names else None
