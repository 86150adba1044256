"""The LibCST node at the path of an `ast` node.

The two trees differ: LibCST has lines with several small statements, blocks, arguments and elements as nodes
of their own, and boolean operators and comparisons nested or listed otherwise. The steps of a path are
therefore followed in both trees at once.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import libcst as cst

from tpulint.plan import NodePath, node_at

#: The nodes from below a node down to one of its parts, which is the last one.
Chain: TypeAlias = tuple[cst.CSTNode, ...]


@dataclass(frozen=True, slots=True)
class _Step:
    """A step of a path: the node in either tree, and the field and index of the part."""

    outer: Any
    node: Any
    name: str
    index: int


_Follow: TypeAlias = Callable[[_Step], Chain]


class NotLocatedError(LookupError):
    """A node that cannot be found in the LibCST tree; the text says which."""


def locate(module: cst.Module, tree: ast.Module, path: NodePath) -> tuple[Chain, ast.AST]:
    """The LibCST nodes from the file down to the node at a path, and the node of `ast` there.

    Raises:
        NotLocatedError: where the trees do not agree, or the path leads into a pattern or a format.
    """
    chain: list[cst.CSTNode] = [module]
    node: ast.AST = tree
    for name, index in path:
        try:
            part = node_at(node, ((name, index),))
        except LookupError as error:
            raise NotLocatedError(str(error)) from error
        chain += below(chain[-1], node, name, index)
        node = part
    return tuple(chain), node


def below(outer: cst.CSTNode, node: ast.AST, name: str, index: int) -> Chain:
    """The nodes from below a node down to the one that a step of a path leads to.

    Args:
        outer: the node in the LibCST tree.
        node: the same node in the `ast` tree.
        name: the field of the step.
        index: its index.

    Raises:
        NotLocatedError: where there is no such node.
    """
    found = _STEPS.get((type(node), name)) or _STEPS.get((type(node), ""))
    try:
        if found is not None:
            return found(_Step(outer, node, name, index))
        if isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case | ast.Module) and name in _BLOCKS:
            return _in_block(_Step(outer, node, name, index))
        part = getattr(outer, name)
    except (AttributeError, IndexError, StopIteration, TypeError) as error:
        raise NotLocatedError(f"no {name} in {type(outer).__name__}") from error
    if not isinstance(part, cst.CSTNode):
        raise NotLocatedError(f"no {name} in {type(outer).__name__}")
    return (part,)


# statements

_BLOCKS = frozenset({"body", "orelse", "finalbody"})


def _in_block(at: _Step) -> Chain:
    outer = at.outer
    if isinstance(at.node, ast.Module):
        return _in_lines(outer.body)[at.index]
    ahead: Chain = ()
    if at.name == "orelse":
        outer = outer.orelse
        if isinstance(outer, cst.If):
            return (outer,)
        ahead = (outer,)
    elif at.name == "finalbody":
        outer = outer.finalbody
        ahead = (outer,)
    block = outer.body
    if isinstance(block, cst.SimpleStatementSuite):
        return (*ahead, block, block.body[at.index])
    return (*ahead, block, *_in_lines(block.body)[at.index])


def _in_lines(lines: Sequence[cst.CSTNode]) -> list[Chain]:
    found: list[Chain] = []
    for line in lines:
        if isinstance(line, cst.SimpleStatementLine):
            found += [(line, small) for small in line.body]
        else:
            found.append((line,))
    return found


def _deleted(at: _Step) -> Chain:
    target = at.outer.target
    if isinstance(target, cst.Tuple) and not target.lpar:
        element = target.elements[at.index]
        return (target, element, element.value)
    return (target,)


def _item(at: _Step) -> Chain:
    return (at.outer.items[at.index],)


def _item_part(at: _Step) -> Chain:
    return (at.outer.item,) if at.name == "context_expr" else (at.outer.asname, at.outer.asname.name)


def _bases(at: _Step) -> Chain:
    given = [*at.outer.bases, *at.outer.keywords]
    return _argument(given, at.name, at.index)


def _parameters(at: _Step) -> Chain:
    assert isinstance(at.node, ast.arguments)
    plain = [*at.outer.posonly_params, *at.outer.params]
    match at.name:
        case "posonlyargs":
            return (at.outer.posonly_params[at.index],)
        case "args":
            return (at.outer.params[at.index],)
        case "kwonlyargs":
            return (at.outer.kwonly_params[at.index],)
        case "vararg":
            return (at.outer.star_arg,)
        case "kwarg":
            return (at.outer.star_kwarg,)
        case "defaults":
            parameter = plain[len(plain) - len(at.node.defaults) + at.index]
        case _:
            parameter = at.outer.kwonly_params[at.index]
    return (parameter, parameter.default)


def _try_part(at: _Step) -> Chain:
    return (at.outer.handlers[at.index],) if at.name == "handlers" else _in_block(at)


# expressions


def _boolean(at: _Step) -> Chain:
    """`a and b and c` is `(a and b) and c` in LibCST."""
    outer = at.outer
    assert isinstance(at.node, ast.BoolOp)
    chain: list[cst.CSTNode] = []
    for _ in range(len(at.node.values) - 1 - at.index):
        chain.append(outer.left)
        outer = outer.left
    if at.index == 0:
        return tuple(chain)
    return (*chain, outer.right)


def _dictionary(at: _Step) -> Chain:
    element = at.outer.elements[at.index]
    return (element, element.key if at.name == "keys" else element.value)


def _elements(at: _Step) -> Chain:
    if isinstance(at.outer, cst.Subscript):
        element = at.outer.slice[at.index]
        plain: Any = element.slice
        is_whole = isinstance(plain, cst.Slice) or plain.star
        return (element, plain) if is_whole else (element, plain, plain.value)
    element = at.outer.elements[at.index]
    return (element,) if isinstance(element, cst.StarredElement) else (element, element.value)


def _generators(at: _Step) -> Chain:
    chain = [at.outer.for_in]
    for _ in range(at.index):
        chain.append(chain[-1].inner_for_in)
    return tuple(chain)


def _comprehension(at: _Step) -> Chain:
    if at.name == "ifs":
        return (at.outer.ifs[at.index], at.outer.ifs[at.index].test)
    return (getattr(at.outer, at.name),)


def _compared(at: _Step) -> Chain:
    if at.name == "left":
        return (at.outer.left,)
    comparison = at.outer.comparisons[at.index]
    return (comparison, comparison.comparator)


def _called(at: _Step) -> Chain:
    return (at.outer.func,) if at.name == "func" else _argument(at.outer.args, at.name, at.index)


def _argument(given: Sequence[cst.Arg], name: str, index: int) -> Chain:
    is_keyword = name == "keywords"
    named = [one for one in given if (one.keyword is not None or one.star == "**") is is_keyword]
    argument = named[index]
    if is_keyword or argument.star:
        return (argument,)
    return (argument, argument.value)


def _subscript(at: _Step) -> Chain:
    assert isinstance(at.node, ast.Subscript)
    if at.name == "value":
        return (at.outer.value,)
    elements = at.outer.slice
    plain: Any = elements[0].slice
    is_tuple = isinstance(at.node.slice, ast.Tuple)
    if is_tuple and not (len(elements) == 1 and isinstance(getattr(plain, "value", None), cst.Tuple)):
        return ()  # LibCST has no node for the tuple in `x[a, b]`; its elements belong to the subscript
    return (
        (elements[0], plain)
        if isinstance(plain, cst.Slice)
        else (elements[0], *_through(elements[0], ["slice", "value"]))
    )


def _formatted(at: _Step) -> Chain:
    assert isinstance(at.node, ast.JoinedStr)
    if not isinstance(at.node.values[at.index], ast.FormattedValue):
        raise NotLocatedError("text of an f-string has no node of its own")
    number = sum(isinstance(value, ast.FormattedValue) for value in at.node.values[: at.index])
    return list(_replacement_fields(at.outer))[number]


def _replacement_fields(node: cst.CSTNode) -> Iterator[Chain]:
    if isinstance(node, cst.ConcatenatedString):
        for side in (node.left, node.right):
            for chain in _replacement_fields(side):
                yield (side, *chain)
    elif isinstance(node, cst.FormattedString):
        for part in node.parts:
            if isinstance(part, cst.FormattedStringExpression):
                yield (part,)


def _part(*names: str) -> _Follow:
    """A step through the fields of these names."""

    def step(at: _Step) -> Chain:
        return _through(at.outer, names)

    return step


def _through(node: Any, names: Sequence[str]) -> Chain:
    """The nodes in fields of these names, each in the one before."""
    chain = []
    for name in names:
        node = getattr(node, name)
        if not isinstance(node, cst.CSTNode):
            raise NotLocatedError(f"no {name}")
        chain.append(node)
    return tuple(chain)


def _listed(field: str, *names: str) -> _Follow:
    """A step to an item of a field, and through the fields of these names."""

    def step(at: _Step) -> Chain:
        item = getattr(at.outer, field)[at.index]
        return (item, *_through(item, names))

    return step


def _yielded(at: _Step) -> Chain:
    return (
        (at.outer.value, at.outer.value.item) if isinstance(at.outer.value, cst.From) else (at.outer.value,)
    )


def _lambda(at: _Step) -> Chain:
    return (at.outer.params,) if at.name == "args" else (at.outer.body,)


def _branch(at: _Step) -> Chain:
    return (
        (at.outer.test,)
        if at.name == "test"
        else (at.outer.body,)
        if at.name == "body"
        else (at.outer.orelse,)
    )


_STEPS: dict[tuple[type[ast.AST], str], _Follow] = {
    (ast.AnnAssign, "annotation"): _part("annotation", "annotation"),
    (ast.Assign, "targets"): _listed("targets", "target"),
    (ast.AsyncFunctionDef, "args"): _part("params"),
    (ast.AsyncFunctionDef, "decorator_list"): _listed("decorators", "decorator"),
    (ast.AsyncFunctionDef, "returns"): _part("returns", "annotation"),
    (ast.AsyncWith, "items"): _item,
    (ast.Await, "value"): _part("expression"),
    (ast.BoolOp, "values"): _boolean,
    (ast.Call, ""): _called,
    (ast.ClassDef, "bases"): _bases,
    (ast.ClassDef, "decorator_list"): _listed("decorators", "decorator"),
    (ast.ClassDef, "keywords"): _bases,
    (ast.Compare, ""): _compared,
    (ast.Delete, "targets"): _deleted,
    (ast.Dict, ""): _dictionary,
    (ast.DictComp, "generators"): _generators,
    (ast.ExceptHandler, "type"): _part("type"),
    (ast.FormattedValue, "value"): _part("expression"),
    (ast.FunctionDef, "args"): _part("params"),
    (ast.FunctionDef, "decorator_list"): _listed("decorators", "decorator"),
    (ast.FunctionDef, "returns"): _part("returns", "annotation"),
    (ast.GeneratorExp, "generators"): _generators,
    (ast.IfExp, ""): _branch,
    (ast.Import, "names"): _listed("names"),
    (ast.ImportFrom, "names"): _listed("names"),
    (ast.JoinedStr, "values"): _formatted,
    (ast.Lambda, ""): _lambda,
    (ast.List, "elts"): _elements,
    (ast.ListComp, "generators"): _generators,
    (ast.Match, "cases"): _listed("cases"),
    (ast.Raise, "cause"): _part("cause", "item"),
    (ast.Set, "elts"): _elements,
    (ast.SetComp, "generators"): _generators,
    (ast.Subscript, ""): _subscript,
    (ast.Try, ""): _try_part,
    (ast.TryStar, ""): _try_part,
    (ast.Tuple, "elts"): _elements,
    (ast.UnaryOp, "operand"): _part("expression"),
    (ast.With, "items"): _item,
    (ast.YieldFrom, "value"): _yielded,
    (ast.arg, "annotation"): _part("annotation", "annotation"),
    (ast.arguments, ""): _parameters,
    (ast.comprehension, ""): _comprehension,
    (ast.withitem, ""): _item_part,
}
