"""Whether a file counts on the wrapper of models: on its `module`, or on names that start with it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tpulint.knowledge.distributed import WRAPPERS
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import Scope

#: What functions are called that ask, such as `is_parallel`.
_ASKS = re.compile("is_(data_?)?(parallel|wrapped|distributed|ddp)")


#: What stands in front of the names of parameters behind a wrapper.
_PREFIX = "module."


def asks_for_prefix(index: Index) -> bool:
    """Whether a file puts the prefix `module.` in front of names, or takes it away, as `name[7:]` does.

    Where a state is loaded, `".".join(name.split(".")[1:])` does so, too.
    """
    if any(text.startswith(_PREFIX) for text in index.texts):
        return True
    loads = "load_state_dict" in index.calls
    return any(_cuts_prefix(node, loads=loads) for node, _ in index.nodes[ast.Subscript])


def _cuts_prefix(node: ast.AST, *, loads: bool) -> bool:
    match node:
        case ast.Subscript(ast.Name(), ast.Slice(ast.Constant(value), None, None)):
            return value is not True and value == len(_PREFIX)
        case ast.Subscript(
            ast.Call(ast.Attribute(attr="split"), [ast.Constant("."), *_]),
            ast.Slice(ast.Constant(1), None, None) | ast.Constant(1),
        ):
            return loads
        case ast.Subscript(
            ast.Call(ast.Attribute(attr="partition"), [ast.Constant(".")]), ast.Constant(2 | -1)
        ):
            return loads
    return False


def asks_for_module(index: Index, names: Names) -> bool:
    """Whether a function that does not look takes the `module` of something that is not wrapped here.

    So does `next(model.children())`, and `assert isinstance(model, DataParallel)` wants the wrapper itself.
    """
    if any(_takes_first_child(call) for call, _ in index.calls.get("next", ())):
        return True
    if any(_insists(node) for node, _ in index.nodes[ast.Assert]):
        return True
    taken = index.taken.get("module", ())
    if not taken:
        return False
    looking = _looking(index)
    asked = (node for node, scope in taken if scope.function not in looking)
    owners = {
        ast.unparse(node.value)
        for node in asked
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Load)
    }
    owners -= {"self", "cls"}
    return not owners <= set(_wrapped(index.module.node, index, names)) or _asks_instead(index, names)


def _asks_instead(index: Index, names: Names) -> bool:
    """Whether a file takes the `module` of something in one branch, and wraps it in the other."""
    for node, _ in index.nodes[ast.If]:
        if not isinstance(node, ast.If):
            continue
        for here, instead in ((node.body, node.orelse), (node.orelse, node.body)):
            wrapped = {name for one in here for name in _wrapped(one, index, names)}
            taken = (part for one in instead for part in ast.walk(one) if wrapped)
            if any(_takes_module(part, wrapped) for part in taken):
                return True
    return False


def _takes_module(node: ast.AST, wrapped: set[str]) -> bool:
    match node:
        case ast.Attribute(value=owner, attr="module"):
            return ast.unparse(owner) in wrapped
    return False


def _takes_first_child(call: ast.AST) -> bool:
    """Whether a call is `next(model.children())`, which is the module in a wrapper."""
    match call:
        case ast.Call(args=[ast.Call(func=ast.Attribute(attr="children"), args=[])]):
            return True
    return False


def _insists(node: ast.AST) -> bool:
    """Whether a statement raises for what is no wrapper."""
    match node:
        case ast.Assert(ast.Call(ast.Name("isinstance")) as call):
            return _looks(call)
    return False


def _looking(index: Index) -> set[Scope | None]:
    """The functions that ask whether something is wrapped, as by `hasattr(model, "module")`."""
    asking = [scope for _, scope in index.texts.get("module", ())]
    asking += [scope for call, scope in index.calls.get("isinstance", ()) if _looks(call)]
    asking += [
        scope for name, calls in index.calls.items() if _ASKS.match(name) is not None for _, scope in calls
    ]
    return {scope.function for scope in asking}


def _wrapped(root: ast.AST, index: Index, names: Names) -> Iterator[str]:
    """What assignments give a wrapper to."""
    for node in ast.walk(root):
        if isinstance(node, ast.Assign) and any(
            isinstance(call, ast.Call) and names.qualified(call.func, index.module) in WRAPPERS
            for call in ast.walk(node.value)
        ):
            yield from map(ast.unparse, node.targets)


def _looks(call: ast.AST) -> bool:
    return isinstance(call, ast.Call) and any("Parallel" in ast.unparse(kind) for kind in call.args[1:])
