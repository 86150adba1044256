"""Planned rewrites: plain values that name a node by its path, and what becomes of it.

A plan holds neither text positions nor trees, so it is small, picklable and comparable, and making one
needs no LibCST. `tpulint.rewrite.apply` finds the nodes in the LibCST tree of the file and rewrites them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

#: How a node of the `ast` tree is reached from the file's root: fields, with an index where they are lists.
NodePath: TypeAlias = tuple[tuple[str, int], ...]

#: The index of a step into a field that is no list.
ONLY = -1


class Kind(StrEnum):
    """What a rewrite does with its node, and what its `code` holds."""

    #: An expression or statement becomes other code. Parentheses around it go if there is a second code.
    REPLACE = "replace"
    #: Code is put around an expression: what stands before it, and after it. A statement gets a header,
    #: such as `with torch.no_grad():`.
    WRAP = "wrap"
    #: An expression becomes one of its parts.
    REDUCE = "reduce"
    #: A name, attribute, function, or keyword argument gets another name.
    RENAME = "rename"
    #: A call gets one more argument: its code, and its place among the others, the end by default.
    ADD_ARGUMENT = "add argument"
    #: An argument that is passed by position is passed by name; the node is the argument.
    NAME_ARGUMENT = "name argument"
    #: An argument of a call goes; the node is the argument.
    REMOVE_ARGUMENT = "remove argument"
    #: A statement goes, with its line if it has one to itself.
    DELETE = "delete"
    #: Statements are put before a statement, below its comments.
    INSERT_BEFORE = "insert before"
    #: Statements are put before a statement and its comments and decorators.
    INSERT_ABOVE = "insert above"
    #: Statements are put after a statement.
    INSERT_AFTER = "insert after"
    #: A statement and those after it, as many as the second code says, become other statements. The parts
    #: are those of them that stay, as many before the new code as the third code says.
    REPLACE_RUN = "replace run"
    #: A function is put before a statement and its comments: its head, its last line if any, and under what
    #: names it has attributes (`self.count=count`). The parts are the statements that are its body.
    OUTLINE = "outline"
    #: The statements on the line of a statement get a line each.
    SPLIT = "split"
    #: The last statements of a `with`, as many as the code says, move after it.
    MOVE_OUT = "move out"
    #: A function or class gets one more decorator, right above it, or above the others if there is a second
    #: code.
    ADD_DECORATOR = "add decorator"
    #: A decorator goes, with its line; the node is its expression.
    REMOVE_DECORATOR = "remove decorator"
    #: A context manager of a `with` goes, and with the last one the `with`; the node is the item.
    UNWRAP = "unwrap"
    #: An `if` gets an `else` with these statements, in the place of any that it has.
    ADD_ELSE = "add else"
    #: An expression or statement stays where a condition holds, and else is what other rewrites of the fix
    #: make of it. An expression is put in parentheses if there is a second code.
    KEEP_IF = "keep if"

    def __reduce_ex__(self, protocol: object) -> tuple[type[Kind], tuple[str]]:
        return Kind, (self.value,)  # see `Applicability`


#: Rewrites that leave the parts of their node as they are, so that these may be rewritten besides.
_KEEPS_PARTS = frozenset(
    {
        Kind.WRAP,
        Kind.RENAME,
        Kind.NAME_ARGUMENT,
        Kind.ADD_ARGUMENT,
        Kind.INSERT_BEFORE,
        Kind.INSERT_ABOVE,
        Kind.INSERT_AFTER,
        Kind.OUTLINE,
        Kind.ADD_DECORATOR,
    }
)
#: Rewrites that put statements beside another one.
INSERTS = frozenset({Kind.INSERT_BEFORE, Kind.INSERT_ABOVE, Kind.INSERT_AFTER, Kind.OUTLINE})


@dataclass(frozen=True, slots=True, order=True)
class Rewrite:
    """One change of one node.

    Args:
        path: the node.
        kind: what becomes of it.
        code: mostly the new Python code. Lines after the first are indented as those of the file, so that
            source of other nodes can be part of it.
        parts: other nodes that it moves or copies.
    """

    path: NodePath
    kind: Kind
    code: tuple[str, ...] = ()
    parts: tuple[NodePath, ...] = ()

    @property
    def changed(self) -> tuple[NodePath, ...]:
        """The nodes that it changes, moves or copies."""
        if self.kind in INSERTS or self.kind is Kind.ADD_DECORATOR:
            return self.parts
        return (self.path[:-1] if self.kind is Kind.UNWRAP else self.path, *self.parts)

    def conflicts_with(self, other: Rewrite) -> bool:
        """Whether the two cannot be applied together, since one changes what the other is about."""
        if self == other:
            return False
        if self.kind is other.kind is Kind.UNWRAP and self.path[:-1] == other.path[:-1]:
            return True
        if Kind.SPLIT in (self.kind, other.kind) and self.path[:-1] == other.path[:-1]:
            return True
        if _counts_arguments(self, other) or _counts_arguments(other, self):
            return True
        if self.path == other.path:
            return not (self.kind in INSERTS and other.kind in INSERTS and self.kind is not other.kind)
        return self._covers(other) or other._covers(self)

    def _covers(self, other: Rewrite) -> bool:
        if self.kind is Kind.REPLACE_RUN:
            *outer, (name, first) = self.path
            depth = len(self.path)
            if other.path[: depth - 1] == tuple(outer) and len(other.path) >= depth:
                field_name, index = other.path[depth - 1]
                return field_name == name and first <= index < first + int(self.code[1])
            return False
        within = other.path[: len(self.path)] == self.path
        if not within or self.kind in _KEEPS_PARTS:
            return False
        if self.kind is Kind.ADD_ELSE:
            return len(other.path) > len(self.path) and other.path[len(self.path)][0] == "orelse"
        if self.kind is Kind.REDUCE:
            [kept] = self.parts
            return other.path[: len(kept)] != kept
        return True


def _counts_arguments(one: Rewrite, other: Rewrite) -> bool:
    """Whether one puts an argument at a position of a call that another takes an argument out of."""
    return (
        (one.kind, other.kind) == (Kind.ADD_ARGUMENT, Kind.REMOVE_ARGUMENT)
        and len(one.code) > 1
        and one.path == other.path[:-1]
    )


def path_of(node: ast.AST, parent: Callable[[ast.AST], ast.AST | None]) -> NodePath:
    """The path of a node.

    Args:
        node: a node of a file's tree.
        parent: gives the node around a node, None for the tree itself.
    """
    steps: list[tuple[str, int]] = []
    outer = parent(node)
    while outer is not None:
        steps.append(_step(outer, node))
        node, outer = outer, parent(outer)
    return tuple(reversed(steps))


def _step(outer: ast.AST, node: ast.AST) -> tuple[str, int]:
    for name in outer._fields:
        value = getattr(outer, name, None)
        if value is node:
            return name, ONLY
        if isinstance(value, list):
            for index, item in enumerate(value):
                if item is node:
                    return name, index
    raise LookupError(f"{type(node).__name__} is no part of {type(outer).__name__}")


def node_at(tree: ast.AST, path: NodePath) -> ast.AST:
    """The node of a tree that a path leads to.

    Raises:
        LookupError: where the tree has no such node.
    """
    node = tree
    for name, index in path:
        value = getattr(node, name, None)
        found = value if index == ONLY else value[index] if isinstance(value, list) else None
        if not isinstance(found, ast.AST):
            raise LookupError(f"no {name} {index} in {type(node).__name__}")
        node = found
    return node


@dataclass(frozen=True, slots=True, order=True)
class Import:
    """An import that a fix needs.

    Args:
        statement: the statement, with one name; under a condition, with statements that need it.
        condition: the code of a condition under which it is imported, if any.
        ahead_of: the number of the statement of the file before which it has to stand, if any.
    """

    statement: str
    condition: str = ""
    ahead_of: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class TextEdit:
    """A change of a file that is not Python: the characters from `start` to `end` become other text."""

    start: int
    end: int
    text: str


#: What a fix is made of.
Change: TypeAlias = Rewrite | Import
