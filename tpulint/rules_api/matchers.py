"""`libcst.matchers`, imported late: patterns that need LibCST only where they are compared.

`tpulint check` imports every rule, and the import of `libcst.matchers` takes as long as a small project.
A rule therefore writes `from tpulint.rules_api import matchers as m`, and then patterns as LibCST has them:
`m.Call(func=m.Attribute(attr=m.Name("cuda")))`. Patterns of `libcst.matchers` itself are taken as well.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


class Matcher:
    """A pattern: what is called to make it, and with which arguments."""

    __slots__ = ("arguments", "keywords", "kind")

    def __init__(self, kind: str, arguments: tuple[object, ...], keywords: Mapping[str, object]) -> None:
        self.kind = kind
        self.arguments = arguments
        self.keywords = keywords

    def __or__(self, other: object) -> Matcher:
        return Matcher("OneOf", (self, other), {})

    def __and__(self, other: object) -> Matcher:
        return Matcher("AllOf", (self, other), {})

    def __invert__(self) -> Matcher:
        return Matcher("DoesNotMatch", (self,), {})


class MatcherType:
    """A name of `libcst.matchers`, such as `Call`, which makes patterns."""

    __slots__ = ("kind",)

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, *arguments: object, **keywords: object) -> Matcher:
        """Make a pattern."""
        return Matcher(self.kind, arguments, keywords)


def __getattr__(name: str) -> MatcherType:
    if name.startswith("_"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return MatcherType(name)


def in_libcst(pattern: object) -> Any:
    """A pattern as one of `libcst.matchers`.

    Raises:
        AttributeError: for a name that `libcst.matchers` does not have.
    """
    from libcst import matchers

    match pattern:
        case Matcher():
            arguments = map(in_libcst, pattern.arguments)
            keywords = {name: in_libcst(value) for name, value in pattern.keywords.items()}
            return getattr(matchers, pattern.kind)(*arguments, **keywords)
        case MatcherType():
            return getattr(matchers, pattern.kind)
        case list() | tuple():
            return [in_libcst(part) for part in pattern]
    return pattern


def matches(node: Any, pattern: object) -> bool:
    """Whether a node of LibCST matches a pattern."""
    from libcst import matchers

    return matchers.matches(node, in_libcst(pattern))


def extract(node: Any, pattern: object) -> dict[str, Any] | None:
    """The nodes that a pattern saves with `m.SaveMatchedNode`, by name; None if the node does not match."""
    from libcst import matchers

    found: dict[str, Any] | None = matchers.extract(node, in_libcst(pattern))
    return found


def findall(node: Any, pattern: object) -> list[Any]:
    """The nodes within a node of LibCST, or the node itself, that match a pattern."""
    from libcst import matchers

    return list(matchers.findall(node, in_libcst(pattern)))
