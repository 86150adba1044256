"""Names that a text uses and nothing in it defines."""

from __future__ import annotations

import builtins
import symtable
from collections.abc import Iterator
from functools import lru_cache

_ALWAYS = frozenset(dir(builtins)) | {"__file__", "__path__", "__builtins__", "__class__", "__annotations__"}


@lru_cache(maxsize=4)
def undefined_names(text: str) -> frozenset[str]:
    """Global names that are read but neither bound in the module nor built in; none after a star import.

    Raises:
        SyntaxError: when the text does not parse or does not compile.
    """
    top = symtable.symtable(text, "<text>", "exec")
    bound = {
        symbol.get_name() for symbol in top.get_symbols() if symbol.is_assigned() or symbol.is_imported()
    }
    bound |= {child.get_name() for child in top.get_children()}
    used: set[str] = set()
    for table in _tables(top):
        for symbol in table.get_symbols():
            name = symbol.get_name()
            if symbol.is_declared_global() and (symbol.is_assigned() or symbol.is_imported()):
                bound.add(name)
            if symbol.is_referenced() and (symbol.is_global() or table is top):
                used.add(name)
    if "import *" in text:
        return frozenset()
    return frozenset(used - bound - _ALWAYS)


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for child in table.get_children():
        yield from _tables(child)
