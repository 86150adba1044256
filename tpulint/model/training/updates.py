"""Loops over the weights of modules that change them, as averages of weights and target networks are kept."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.effects import effects
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.boundaries import is_without_gradient
from tpulint.model.training.flow import taken_in
from tpulint.model.training.regions import Region
from tpulint.model.values.pending import statements

#: What lists the tensors of a module.
_LISTING = frozenset({"parameters", "named_parameters", "buffers", "named_buffers", "state_dict"})
#: Methods that change a tensor by computing.
_CHANGING = frozenset({"add_", "sub_", "mul_", "div_", "lerp_", "clamp_"})
#: Methods that give what a tensor is changed to, or tell what kind of one it is.
_METHODS = _LISTING | _CHANGING
_METHODS |= {"copy_", "add", "sub", "mul", "div", "lerp", "clamp", "clone", "detach", "to", "type", "type_as"}
_METHODS |= {"float", "is_floating_point", "is_complex", "items", "keys", "values", "get"}
_FUNCTIONS = frozenset({"zip", "enumerate", "list", "dict", "len", "hasattr", "getattr", "isinstance"})
_OF_TORCH = frozenset({"no_grad", "inference_mode", "lerp", "add", "mul", "sub", "is_floating_point"})
#: What a loop over weights may do beside computing, and what tells of a tensor but does not compute with it.
_BLOCKS = (ast.For, ast.If, ast.With)
_PLAIN = (ast.Assign, ast.AugAssign, ast.Expr, ast.Assert, ast.Pass, ast.Continue)
_APART = frozenset({"data", "detach", "requires_grad", "dtype", "shape", "device"})
_OTHER_CODE = (ast.Yield, ast.YieldFrom, ast.Await, ast.Lambda, ast.Global, ast.Nonlocal)


def update(module: ParsedFile, loop: ast.For, scope: Scope) -> Region | None:
    """Whether the loop only writes to weights, without gradients; the loop as a region, or None.

    None also where other code reads variables that the loop writes.
    """
    if loop.orelse or not all(isinstance(one, _BLOCKS + _PLAIN) for one in statements([loop])):
        return None
    nodes = list(ast.walk(loop))
    if not _only_computes(nodes) or any(isinstance(n, ast.Attribute) and n.attr == "grad" for n in nodes):
        return None
    if _looked_up(nodes) & _bound_around(module, loop):
        return None  # one entry for each round of another loop
    if not any(map(_writes, nodes)) or not _goes_over_weights(loop, scope):
        return None
    if not all(_is_without_gradient(module, one, loop, scope) for one in statements(loop.body)):
        return None
    written = set(effects([loop]).writes)
    if written & _read_elsewhere(loop, scope) or any(name.startswith("self.") for name in written):
        return None
    return Region((loop,), (), (), tuple(dict.fromkeys(taken_in(module, [loop], scope))), ())


def computes(loop: ast.For) -> bool:
    """Whether the loop computes the weights that it writes, and does not only copy them."""
    return any(
        isinstance(node, ast.BinOp | ast.AugAssign)
        or (isinstance(node, ast.Call) and getattr(node.func, "attr", "") in _CHANGING)
        for node in ast.walk(loop)
    )


def is_whole(function: ast.FunctionDef, loops: list[ast.For]) -> bool:
    """Whether a function does nothing but such updates, for which it lists tensors of modules at most."""
    inside = {id(one) for loop in loops for one in statements([loop])}
    others = [one for one in statements(function.body) if id(one) not in inside]
    return all(map(_only_lists, others)) and not any(isinstance(n, _OTHER_CODE) for n in ast.walk(function))


def _only_lists(statement: ast.stmt) -> bool:
    match statement:
        case ast.Expr(value=ast.Constant(value=str())) | ast.With() | ast.Pass():
            return True
        case ast.Assign(targets=[ast.Name()], value=value):
            nodes = list(ast.walk(value))
            is_computed = any(isinstance(node, ast.BinOp | ast.Compare) for node in nodes)
            return any(map(_lists, nodes)) and not is_computed and _only_computes(nodes)
    return False


def _only_computes(nodes: list[ast.AST]) -> bool:
    """Whether all that is called lists tensors, computes with them, or is one of Python's own."""
    return not any(isinstance(node, _OTHER_CODE) or not _is_known(node) for node in nodes)


def _is_known(node: ast.AST) -> bool:
    match node:
        case ast.Call(func=ast.Name(id=name)):
            return name in _FUNCTIONS
        case ast.Call(func=ast.Attribute(value=ast.Name(id="torch"), attr=name)):
            return name in _OF_TORCH
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _METHODS
    return not isinstance(node, ast.Call)


def _lists(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _LISTING


def _writes(node: ast.AST) -> bool:
    """Whether a node writes to a tensor, or to what holds tensors."""
    match node:
        case ast.Call(func=ast.Attribute(attr=name)):
            return name in _CHANGING or name == "copy_"
        case ast.AugAssign(target=ast.Name() | ast.Attribute(attr="data")):
            return True
        case ast.Assign(targets=[ast.Attribute(attr="data") | ast.Subscript()]):
            return True
    return False


def _is_without_gradient(module: ParsedFile, statement: ast.stmt, loop: ast.For, scope: Scope) -> bool:
    """Whether a statement within a loop computes without gradients, or with what is apart from the graph."""
    if is_without_gradient(module, statement, scope) or isinstance(statement, _BLOCKS):
        return True
    targets = {node.id for node in ast.walk(loop.target) if isinstance(node, ast.Name)}
    return all(
        _is_apart(module.parent(node))
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and node.id in targets
    )


def _is_apart(outer: ast.AST | None) -> bool:
    """Whether a name stands where its data, or what kind of tensor it is, is asked for, or as an index."""
    if isinstance(outer, ast.Attribute):
        return outer.attr in _APART
    return isinstance(outer, ast.Subscript | ast.Compare)


def _looked_up(nodes: list[ast.AST]) -> set[str]:
    """The names by which something is indexed."""
    indices = (node.slice for node in nodes if isinstance(node, ast.Subscript))
    return {index.id for index in indices if isinstance(index, ast.Name)}


def _bound_around(module: ParsedFile, loop: ast.For) -> set[str]:
    """What the loops around one go over."""
    outer = (node.target for node in module.ancestors(loop) if isinstance(node, ast.For))
    return {node.id for target in outer for node in ast.walk(target) if isinstance(node, ast.Name)}


def _goes_over_weights(loop: ast.For, scope: Scope) -> bool:
    """Whether the tensors of a module are listed for a loop, by itself or by the function it stands in."""
    if any(map(_lists, ast.walk(loop.iter))):
        return True
    read, function = set(effects([loop]).reads), scope.function
    return function is not None and any(
        isinstance(node, ast.Assign)
        and any(map(_lists, ast.walk(node.value)))
        and not read.isdisjoint(effects([node]).writes)
        for node in ast.walk(function.node)
    )


def _read_elsewhere(loop: ast.For, scope: Scope) -> set[str]:
    """The names that the function around a loop reads outside of it, but for what binds them anew."""
    function = scope.function
    return set(_read(function.node, loop, frozenset())) if function is not None else set()


def _read(node: ast.AST, apart: ast.AST, bound: frozenset[str]) -> Iterator[str]:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) and node.id not in bound:
        yield node.id
    targets: list[ast.AST] = []
    if isinstance(node, ast.For):
        targets = [node.target]
    elif isinstance(node, ast.GeneratorExp | ast.ListComp | ast.DictComp | ast.SetComp):
        targets = [generator.target for generator in node.generators]
    inner = bound.union(effects(targets).writes)
    for child in ast.iter_child_nodes(node):
        if child is not apart:
            yield from _read(child, apart, inner)
