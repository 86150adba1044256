"""Inference of calls of builtin functions."""

from __future__ import annotations

from dataclasses import replace

from tpulint.model.values.kinds import (
    DATA,
    STATIC,
    UNKNOWN,
    Array,
    Data,
    Kind,
    Several,
    Static,
    Tensor,
    element_of,
    joined,
)

_PYTHON_SCALARS = frozenset({"builtins.float", "builtins.int", "builtins.bool", "builtins.complex"})
_STATIC_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in (
        "len",
        "isinstance",
        "hasattr",
        "str",
        "repr",
        "type",
        "id",
        "callable",
        "format",
        "issubclass",
    )
)


def builtin_call(name: str, arguments: list[Kind]) -> Kind:
    """What a builtin function gives."""
    first = arguments[0] if arguments else UNKNOWN
    if name in _PYTHON_SCALARS:
        if isinstance(first, Tensor | Data):
            return DATA
        return STATIC if isinstance(first, Static) or not arguments else UNKNOWN
    if name in _STATIC_BUILTINS:
        return STATIC
    if name in ("builtins.abs", "builtins.round", "builtins.sum"):
        if isinstance(first, Several) and name == "builtins.sum":
            first = first.element
        return first if isinstance(first, Tensor | Static | Data | Array) else UNKNOWN
    if name in ("builtins.max", "builtins.min"):
        kinds = (
            first.items or (first.element,)
            if isinstance(first, Several) and len(arguments) == 1
            else tuple(arguments)
        )
        if any(isinstance(kind, Tensor) for kind in kinds):
            return Tensor(certain=all(kind.is_tensor for kind in kinds))
        if kinds and all(isinstance(kind, Several) for kind in kinds):
            return joined(kinds)  # tuples are compared item by item
        if any(isinstance(kind, Data) for kind in kinds):
            return DATA
        return STATIC if all(isinstance(kind, Static) for kind in kinds) else UNKNOWN
    if name == "builtins.range":
        return Several(DATA if any(isinstance(kind, Tensor | Data) for kind in arguments) else STATIC)
    if name in (
        "builtins.list",
        "builtins.tuple",
        "builtins.sorted",
        "builtins.reversed",
        "builtins.iter",
        "builtins.set",
    ):
        if isinstance(first, Several):
            return first
        return Several(replace(first, scalar=False, root="") if isinstance(first, Tensor) else UNKNOWN)
    if name == "builtins.next":
        return element_of(first)
    if name == "builtins.enumerate":
        element = element_of(first) if isinstance(first, Several | Tensor) else UNKNOWN
        return Several(UNKNOWN if element is UNKNOWN else Several(element, (STATIC, element)))
    if name == "builtins.zip":
        elements = tuple(
            element_of(kind) if isinstance(kind, Several | Tensor) else UNKNOWN for kind in arguments
        )
        return Several(Several(UNKNOWN, elements))
    if name == "builtins.getattr":
        return UNKNOWN
    return UNKNOWN
