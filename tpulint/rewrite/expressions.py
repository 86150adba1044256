"""What becomes of one expression, argument or name."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import Any

import libcst as cst

from tpulint.plan import Kind, NodePath, Rewrite, node_at
from tpulint.rewrite.code import Reader, UnwritableError
from tpulint.rewrite.gaps import has_comment, joined_gaps
from tpulint.rewrite.locate import NotLocatedError, below

#: Stands for the expression that code is put around.
_HOLE = "_expression_"
_SPACE = cst.SimpleWhitespace(" ")


def replaced(node: cst.CSTNode, code: cst.BaseExpression, *, is_subscripts: bool = False) -> Any:
    """An expression in the place of another, whose parentheses stay.

    Several subscripts have no node of their own (`is_subscripts`): the node is the subscript with them.
    """
    if isinstance(node, cst.Slice):
        return cst.Index(code)
    if is_subscripts and isinstance(node, cst.Subscript):
        return _with_subscripts(node, code)
    return _within(code, *_around(node))


def _with_subscripts(node: cst.Subscript, code: cst.BaseExpression) -> cst.Subscript:
    elements: Sequence[cst.SubscriptElement] = [cst.SubscriptElement(cst.Index(code))]
    if isinstance(code, cst.Tuple) and not code.lpar:
        elements = [
            cst.SubscriptElement(cst.Index(one.value), comma=one.comma)
            for one in code.elements
            if isinstance(one, cst.Element)
        ]
    return node.with_changes(slice=elements)


def _around(node: Any) -> tuple[list[cst.LeftParen], list[cst.RightParen]]:
    """The parentheses around an expression that are not its own, as those of a tuple are."""
    left, right = list(node.lpar), list(node.rpar)
    if isinstance(node, cst.Tuple | cst.GeneratorExp):
        return left[:-1], right[1:]
    return left, right


def _within(node: Any, left: Sequence[cst.LeftParen], right: Sequence[cst.RightParen]) -> Any:
    """An expression in more parentheses."""
    return node.with_changes(lpar=[*left, *node.lpar], rpar=[*node.rpar, *right])


def _without(node: Any, left: Sequence[cst.LeftParen], right: Sequence[cst.RightParen]) -> Any:
    """An expression without its outer parentheses, as many as these."""
    return node.with_changes(lpar=node.lpar[len(left) :], rpar=node.rpar[: len(node.rpar) - len(right)])


def wrapped(node: Any, before: str, after: str, margin: str, reader: Reader) -> Any:
    """An expression with code around it."""
    left, right = _around(node)
    template = reader.expression(f"{before}{_HOLE}{after}", margin)
    hole = _Hole(_without(node, left, right))
    made = template.visit(hole)
    if hole.filled != 1 or not isinstance(made, cst.BaseExpression):
        raise UnwritableError(f"{before}{_HOLE}{after}")
    return _within(made, left, right)


class _Hole(cst.CSTTransformer):
    """Puts an expression in the place of the name that stands for it."""

    def __init__(self, content: cst.BaseExpression) -> None:
        super().__init__()
        self._content = content
        self.filled = 0

    def on_leave(self, original_node: Any, updated_node: Any) -> Any:
        if not isinstance(original_node, cst.Name) or original_node.value != _HOLE:
            return updated_node
        self.filled += 1
        return self._content


def reduced(node: Any, tree: ast.AST, path: NodePath) -> Any:
    """One of the parts of an expression, at a path from it, with the parentheses around both."""
    part: Any = node
    for name, index in path:
        part = [part, *below(part, tree, name, index)][-1]
        tree = node_at(tree, ((name, index),))
    return _within(part, *_around(node))


def chosen(before: Any, now: Any, test: cst.BaseExpression, *, grouped: bool) -> cst.CSTNode:
    """An expression where a condition holds, and else what others make of it."""
    left, right = _around(before)
    was = _without(before.deep_clone(), left, right)
    if isinstance(was, cst.IfExp) and was.test.deep_equals(test):
        was = was.body
    elif isinstance(was, cst.IfExp | cst.Lambda):
        was = was.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()])
    now = _without(now, left, right)
    if grouped and not left:
        left, right = [cst.LeftParen()], [cst.RightParen()]
    return cst.IfExp(test=test, body=was, orelse=now, lpar=left, rpar=right)


def renamed(node: Any, name: str) -> cst.CSTNode:
    """A name, attribute, argument, parameter or function under another name."""
    match node:
        case cst.Name():
            return node.with_changes(value=name)
        case cst.Attribute():
            return node.with_changes(attr=cst.Name(name))
        case cst.Arg(keyword=cst.Name()):
            return node.with_changes(keyword=cst.Name(name))
        case cst.Param() | cst.FunctionDef() | cst.ClassDef():
            return node.with_changes(name=cst.Name(name))
    raise NotLocatedError(f"{type(node).__name__} has no name")


def with_argument(call: cst.Call, argument: cst.Arg, place: int) -> cst.Call:
    """A call with one more argument, on a line of its own where the others have theirs."""
    given = [_in_own_parentheses(one) for one in call.args]
    if not given:
        return call.with_changes(args=[argument])
    between = _between(call)
    if 0 <= place < len(given):
        added = argument.with_changes(comma=cst.Comma(whitespace_after=between))
        return call.with_changes(args=[*given[:place], added, *given[place:]])
    *ahead, last = given
    end = _gap_after(last)
    gap: cst.BaseParenthesizableWhitespace = _SPACE
    if isinstance(between, cst.ParenthesizedWhitespace) and isinstance(end, cst.ParenthesizedWhitespace):
        # A comment after the last argument stays after it.
        gap = between.with_changes(first_line=end.first_line, empty_lines=end.empty_lines)
        end = _without_comments(end)
    is_open = not isinstance(last.comma, cst.Comma)
    comma = last.comma if isinstance(last.comma, cst.Comma) else cst.Comma()
    last = last.with_changes(
        comma=comma.with_changes(whitespace_after=gap), whitespace_after_arg=cst.SimpleWhitespace("")
    )
    return call.with_changes(args=[*ahead, last, _ending(argument, end, is_open=is_open)])


def _in_own_parentheses(argument: cst.Arg) -> cst.Arg:
    """An argument that can stand beside others: a generator may have the parentheses of its call."""
    value = argument.value
    if not isinstance(value, cst.GeneratorExp) or value.lpar:
        return argument
    return argument.with_changes(value=value.with_changes(lpar=[cst.LeftParen()], rpar=[cst.RightParen()]))


def _between(call: cst.Call) -> cst.BaseParenthesizableWhitespace:
    """What stands between the arguments of a call: a line end, if they have lines of their own."""
    gap = _gap_after(call.args[-2]) if len(call.args) > 1 else call.whitespace_before_args
    return _without_comments(gap) if isinstance(gap, cst.ParenthesizedWhitespace) else _SPACE


def _without_comments(gap: cst.ParenthesizedWhitespace) -> cst.ParenthesizedWhitespace:
    plain = cst.TrailingWhitespace(newline=gap.first_line.newline)
    return gap.with_changes(first_line=plain, empty_lines=[])


def _gap_after(part: cst.Arg | cst.WithItem) -> cst.BaseParenthesizableWhitespace:
    """What stands after an argument, or an item of a `with`, and its comma, if any."""
    if isinstance(part.comma, cst.Comma):
        return part.comma.whitespace_after
    return part.whitespace_after_arg if isinstance(part, cst.Arg) else cst.SimpleWhitespace("")


def _ending(argument: cst.Arg, gap: cst.BaseParenthesizableWhitespace, *, is_open: bool) -> cst.Arg:
    """An argument as the last one, with or without a comma."""
    if is_open:
        return argument.with_changes(comma=cst.MaybeSentinel.DEFAULT, whitespace_after_arg=gap)
    comma = argument.comma if isinstance(argument.comma, cst.Comma) else cst.Comma()
    closed = comma.with_changes(whitespace_after=gap)
    return argument.with_changes(comma=closed, whitespace_after_arg=cst.SimpleWhitespace(""))


def _about_next(
    before: cst.BaseParenthesizableWhitespace, after: cst.BaseParenthesizableWhitespace
) -> cst.BaseParenthesizableWhitespace:
    """What is left of the gaps around an argument; comments on their own lines are about the next."""
    if not isinstance(before, cst.ParenthesizedWhitespace):
        return before
    if not isinstance(after, cst.ParenthesizedWhitespace):
        return before
    return before.with_changes(empty_lines=after.empty_lines)


def without_arguments(call: Any, dropped: Sequence[cst.Arg], original: Any) -> Any:
    """A call, or the head of a class, without some arguments; what ends the list stays as it is."""
    names = ("args",) if isinstance(call, cst.Call) else ("bases", "keywords")
    given = [one for name in names for one in getattr(original, name)]
    changes: dict[str, Any] = {}
    opening = call.whitespace_before_args if isinstance(call, cst.Call) else None
    for name in names:
        kept: list[cst.Arg] = []
        for old, new in zip(getattr(original, name), getattr(call, name), strict=True):
            if not any(old is one for one in dropped):
                kept.append(new)
            elif old is not given[-1] and kept:
                kept[-1] = _ending(
                    kept[-1], _about_next(_gap_after(kept[-1]), _gap_after(new)), is_open=False
                )
            elif old is not given[-1] and opening is not None:
                opening = _about_next(opening, _gap_after(new))
        changes[name] = kept
    if opening is not None:
        changes["whitespace_before_args"] = opening
    ending = next((name for name in reversed(names) if changes[name]), None)
    if ending is not None and any(given[-1] is one for one in dropped):
        *ahead, last = changes[ending]
        end = _gap_after(given[-1])
        if has_comment(_gap_after(last)):
            end = joined_gaps(_gap_after(last), end)
        is_open = not isinstance(given[-1].comma, cst.Comma)
        changes[ending] = [*ahead, _ending(last, end, is_open=is_open)]
    return call.with_changes(**changes)


def without_items(block: cst.With, dropped: Sequence[cst.CSTNode], original: cst.With) -> cst.With:
    """A `with` without some, but not all, of its items; a comment on an item that stays stays with it."""
    items = list(zip(original.items, block.items, strict=True))
    left = block.lpar if isinstance(block.lpar, cst.LeftParen) else None
    right = block.rpar if isinstance(block.rpar, cst.RightParen) else None
    kept: list[cst.WithItem] = []
    for old, new in items:
        if not any(old is one for one in dropped):
            kept.append(new)
        elif old is not original.items[-1] and kept:
            kept[-1] = _with_gap(kept[-1], _about_next(_gap_after(kept[-1]), _gap_after(new)))
        elif old is not original.items[-1] and left is not None:
            left = left.with_changes(whitespace_after=_about_next(left.whitespace_after, _gap_after(new)))
    if any(original.items[-1] is one for one in dropped):
        last, gap = block.items[-1], _gap_after(kept[-1])
        if right is not None and has_comment(gap):
            right = right.with_changes(whitespace_before=joined_gaps(gap, right.whitespace_before))
        if isinstance(last.comma, cst.Comma):
            kept[-1] = _with_gap(kept[-1], _gap_after(last))
        else:
            kept[-1] = kept[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
    return block.with_changes(
        items=kept,
        lpar=block.lpar if left is None else left,
        rpar=block.rpar if right is None else right,
    )


def _with_gap(item: cst.WithItem, gap: cst.BaseParenthesizableWhitespace) -> cst.WithItem:
    comma = item.comma if isinstance(item.comma, cst.Comma) else cst.Comma()
    return item.with_changes(comma=comma.with_changes(whitespace_after=gap))


def rewritten(node: cst.CSTNode, tree: ast.AST, rewrite: Rewrite, margin: str, reader: Reader) -> Any:
    """What a rewrite makes of an expression, argument or name."""
    code = rewrite.code
    match rewrite.kind:
        case Kind.REPLACE if isinstance(node, cst.Arg):
            return reader.argument(code[0], margin).with_changes(
                comma=node.comma, whitespace_after_arg=node.whitespace_after_arg
            )
        case Kind.REPLACE if len(code) > 1:
            return reader.expression(code[0], margin)
        case Kind.REPLACE:
            return replaced(
                node, reader.expression(code[0], margin), is_subscripts=isinstance(tree, ast.Tuple)
            )
        case Kind.WRAP:
            return wrapped(node, code[0], code[1], margin, reader)
        case Kind.REDUCE:
            return reduced(node, tree, rewrite.parts[0][len(rewrite.path) :])
        case Kind.NAME_ARGUMENT if isinstance(node, cst.Arg):
            return node.with_changes(
                keyword=cst.Name(code[0]),
                equal=cst.AssignEqual(cst.SimpleWhitespace(""), cst.SimpleWhitespace("")),
            )
        case Kind.RENAME:
            return renamed(node, code[0])
        case Kind.ADD_ARGUMENT if isinstance(node, cst.Call):
            place = int(code[1]) if len(code) > 1 else len(node.args)
            return with_argument(node, reader.argument(code[0], margin), place)
    raise NotLocatedError(f"{rewrite.kind} of {type(node).__name__}")
