"""What a pattern of `libcst.matchers` asks of a file, derived without LibCST: node types, and names."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from tpulint.rules_api.matchers import Matcher, MatcherType

#: The nodes of `ast` that are the same code as a node of LibCST.
_NODES: dict[str, tuple[type[ast.AST], ...]] = {
    "AnnAssign": (ast.AnnAssign,),
    "Assert": (ast.Assert,),
    "Assign": (ast.Assign,),
    "Attribute": (ast.Attribute,),
    "AugAssign": (ast.AugAssign,),
    "Await": (ast.Await,),
    "BinaryOperation": (ast.BinOp,),
    "BooleanOperation": (ast.BoolOp,),
    "Call": (ast.Call,),
    "ClassDef": (ast.ClassDef,),
    "Comparison": (ast.Compare,),
    "ConcatenatedString": (ast.Constant, ast.JoinedStr),
    "Del": (ast.Delete,),
    "Dict": (ast.Dict,),
    "DictComp": (ast.DictComp,),
    "ExceptHandler": (ast.ExceptHandler,),
    "Expr": (ast.Expr,),
    "Float": (ast.Constant,),
    "For": (ast.For, ast.AsyncFor),
    "FormattedString": (ast.JoinedStr,),
    "FormattedStringExpression": (ast.FormattedValue,),
    "FunctionDef": (ast.FunctionDef, ast.AsyncFunctionDef),
    "GeneratorExp": (ast.GeneratorExp,),
    "If": (ast.If,),
    "IfExp": (ast.IfExp,),
    "Import": (ast.Import,),
    "ImportFrom": (ast.ImportFrom,),
    "Integer": (ast.Constant,),
    "Lambda": (ast.Lambda,),
    "List": (ast.List,),
    "ListComp": (ast.ListComp,),
    "Name": (ast.Name, ast.Constant),  # `True`, `False` and `None` are names in LibCST
    "NamedExpr": (ast.NamedExpr,),
    "Raise": (ast.Raise,),
    "Return": (ast.Return,),
    "Set": (ast.Set,),
    "SetComp": (ast.SetComp,),
    "SimpleString": (ast.Constant,),
    "Subscript": (ast.Subscript,),
    "Try": (ast.Try,),
    "TryStar": (ast.TryStar,),
    "Tuple": (ast.Tuple,),
    "UnaryOperation": (ast.UnaryOp,),
    "While": (ast.While,),
    "With": (ast.With, ast.AsyncWith),
}
#: Nodes whose value is a piece of the file's text.
_LEAVES = frozenset({"Float", "Imaginary", "Integer", "Name", "SimpleString"})
_ALTERNATIVES, _SAVED = frozenset({"OneOf"}), frozenset({"SaveMatchedNode", "_ExtractMatchingNode"})
#: What may match where its parts do not.
_OPEN = frozenset(
    {
        *("AtMostN", "DoesNotMatch", "MatchIfTrue", "MatchMetadata", "MatchMetadataIfTrue", "MatchRegex"),
        *("TypeOf", "ZeroOrMore", "ZeroOrOne", "_InverseOf", "DoNotCare", "DoNotCareSentinel"),
    }
)


@dataclass(frozen=True)
class Pattern:
    """A pattern, and what a file and a node must have so that it can match.

    Args:
        matcher: the pattern, of `libcst.matchers` or of `tpulint.rules_api.matchers`.
        nodes: the types of nodes of `ast` that it can match.
        names: sets of names and literals; the code of the node has at least one of each set.
        called: the names in which the callee of a call may end, also if it is imported under another name;
            none for any.
    """

    matcher: object
    nodes: tuple[type[ast.AST], ...]
    names: tuple[frozenset[str], ...]
    called: frozenset[str] = frozenset()

    @cached_property
    def searches(self) -> tuple[re.Pattern[str], ...]:
        """Regular expressions for `names`."""
        return tuple(re.compile("|".join(map(_word, sorted(names)))) for names in self.names)

    def may_be_in(self, text: str) -> bool:
        """Whether the pattern may match something in a text."""
        if self.called and not any(name in text for name in self.called):
            return False
        return all(any(name in text for name in names) for names in self.names) and all(
            search.search(text) for search in self.searches
        )


def pattern_of(matcher: object, called: Iterable[str] = ()) -> Pattern:
    """A pattern with what it asks of a file.

    Raises:
        TypeError: if it is no pattern, or may match code that is no expression or statement by itself, or no
            call although there are names of callees.
    """
    nodes = tuple(dict.fromkeys(_nodes(matcher)))
    found = Pattern(matcher, nodes, tuple(dict.fromkeys(_names(matcher))), frozenset(called))
    if found.called and nodes != (ast.Call,):
        raise TypeError("`named` is for patterns of calls")
    return found


def _word(name: str) -> str:
    return rf"\b{name}\b" if name.isidentifier() else re.escape(name)


def _parts(matcher: object) -> tuple[str, list[object]]:
    """The name of a pattern's type in LibCST, and its parts; an empty name for what is no pattern."""
    if isinstance(matcher, Matcher):
        return matcher.kind, [*matcher.arguments, *matcher.keywords.values()]
    if isinstance(matcher, MatcherType):
        return matcher.kind, []
    cls = matcher if isinstance(matcher, type) else type(matcher)
    if not cls.__module__.startswith("libcst.matchers"):
        return "", []
    held = vars(matcher) if cls is not matcher else {}
    return cls.__name__, [*held.get("_options", held.get("_raw_options", held.values()))]


def _nodes(matcher: object) -> Iterable[type[ast.AST]]:
    kind, parts = _parts(matcher)
    if kind in _NODES:
        return _NODES[kind]
    if kind in ("OneOf", "AllOf", "TypeOf"):
        return [node for part in parts for node in _nodes(part)]
    if kind in _SAVED:
        return _nodes(parts[0])
    raise TypeError(f"no pattern of an expression or statement: {kind or repr(matcher)}")


def _names(matcher: object, *, is_value: bool = False) -> list[frozenset[str]]:
    """The sets of names of a pattern.

    Args:
        matcher: a part of a pattern.
        is_value: whether it is the value of a leaf, so that a string is text of the file.
    """
    if isinstance(matcher, str):
        return [frozenset({matcher})] if is_value and matcher else []
    if isinstance(matcher, list | tuple):
        return [names for part in matcher for names in _names(part, is_value=is_value)]
    kind, parts = _parts(matcher)
    if kind in _OPEN or (kind == "AtLeastN" and 0 in parts):
        return []
    if kind in _ALTERNATIVES:
        # One set of each alternative: whichever matches, its name is among them.
        chosen = [min(_names(part, is_value=is_value), key=len, default=frozenset()) for part in parts]
        return [frozenset().union(*chosen)] if chosen and all(chosen) else []
    if kind in _SAVED:
        return _names(parts[0], is_value=is_value)
    is_value = kind in _LEAVES or (kind == "AllOf" and is_value)
    return [names for part in parts for names in _names(part, is_value=is_value)]
