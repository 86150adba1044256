"""Parameters that a function's docstring says are tensors, in the styles of Google, NumPy and Sphinx."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.model.names.scopes import Scope

#: `name (type): text`, `name: text`, `name : type`, `:param type name: text`, `:type name: type`.
_ENTRY = re.compile(
    r"\s*(?:[-*]\s+)?(?::(?:param|type|arg|parameter)\s+(?P<before>[\w.\[\], ]+\s)?|@param\s+)?"
    r"`{0,2}\*{0,2}(?P<name>[A-Za-z_]\w*)\*{0,2}`{0,2}\s*(?:\((?P<type>[^()]*(?:\([^()]*\)[^()]*)*)\))?"
    r"\s*:(?P<text>.*)"
)
_TENSOR = re.compile(
    r"\b(?:(?:float|floating|int|integer|long|bool|boolean)[ -])?(?:torch\.)?(?:[A-Z]\w*)?[tT]ensor\b"
)
_OF_SHAPE = re.compile(r"\b(?:of|with|in) (?:the )?(?:shape|size)\W*\Z", re.IGNORECASE)
#: Names of dimensions, at least two of them: `[batch, features]`, `(B, T, C)`, `[batch x len x dim]`.
_DIMENSION = r"(?:b|bs|bsz|n|batch(?:[_ -]?size)?|nb?_?batch(?:es)?|seq\w*|len\w*|src_len|tgt_len|\.{3}|\*)"
_SHAPE = re.compile(rf"[\[(]\s*`?{_DIMENSION}`?\s*[,x×*]\s*[\w.,* +/×-]*[\])]", re.IGNORECASE)
#: Words ahead of which a text is about something that holds tensors, or takes them, or is none.
_OTHER = re.compile(
    r"\b(?:lists?|tuples?|dict\w*|iterables?|sequences? of|numpy|np|ndarray|arrays?|int|integers?|bool"
    r"|str\w*|callable|function|modules?|nn|number|size|shape|dimension|whether|if|type|dtype|device|float"
    r"|index of)\b",
    re.IGNORECASE,
)
_AHEAD = 48
#: No line that names a parameter is longer.
_LONGEST = 400


def documented_tensors(scope: Scope) -> Iterator[str]:
    """The names that a function's docstring declares tensors."""
    node = scope.node
    text = ast.get_docstring(node, clean=False) if isinstance(node, ast.FunctionDef) else None
    if text is None or ":" not in text:
        return
    found: dict[str, bool] = {}
    for line in text.splitlines():
        entry = _ENTRY.match(line[:_LONGEST])
        if entry is None:
            continue
        name = entry["name"]
        said = " ".join(
            part for part in (entry["before"], entry["type"] and f"({entry['type']})", entry["text"]) if part
        )
        found[name] = found.get(name, False) or _says_tensor(said)
    yield from (name for name, is_tensor in found.items() if is_tensor)


def _says_tensor(text: str) -> bool:
    """Whether the words about a parameter begin with saying that it is a tensor, or name its dimensions."""
    at = [match.start() for match in (_TENSOR.search(text), _SHAPE.search(text)) if match is not None]
    start = min(at, default=len(text))
    return bool(at) and start <= _AHEAD and _OTHER.search(_OF_SHAPE.sub("", text[:start])) is None
