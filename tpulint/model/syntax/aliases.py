"""Fixes in a file's own words: torch has the name there that the file's import gives it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from tpulint.plan import Change, Import, Rewrite

if TYPE_CHECKING:
    from tpulint.model.syntax.parsed_file import ParsedFile

_TORCH = Import("import torch")
_USE = re.compile(r"(?<![\w.\"'])torch\.(?=\w)")


def in_own_words(module: ParsedFile, changes: Sequence[Change]) -> list[Change]:
    """Changes that use the name by which a file imports torch, such as `th`, instead of importing it."""
    alias = _alias(module)
    if alias is None or _TORCH not in changes:
        return list(changes)
    return [
        replace(one, code=tuple(_USE.sub(f"{alias}.", code) for code in one.code))
        if isinstance(one, Rewrite)
        else one
        for one in changes
        if one != _TORCH
    ]


def _alias(module: ParsedFile) -> str | None:
    """The name that the file imports torch by, if not its own."""
    bindings = module.index.module.bindings
    names = [name for name, ways in bindings.items() if [way.target for way in ways] == ["torch"]]
    return names[0] if names and "torch" not in names else None
