"""Whether a file asks models for the module that a wrapper has, without having wrapped them itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.distributed import WRAPPERS
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names


def asks_for_module(index: Index, names: Names) -> bool:
    """Whether the `module` of something is taken that is not wrapped here, without a look beforehand."""
    taken = [node for node, _ in index.taken.get("module", ()) if isinstance(node, ast.Attribute)]
    owners = {ast.unparse(node.value) for node in taken if isinstance(node.ctx, ast.Load)}
    owners -= {"self", "cls"}
    if not owners or "module" in index.texts or any(map(_looks, _calls(index, "isinstance"))):
        return False
    return not owners <= set(_wrapped(index, names))


def _wrapped(index: Index, names: Names) -> Iterator[str]:
    """What assignments give a wrapper to."""
    for node in ast.walk(index.module.node):
        if isinstance(node, ast.Assign) and any(
            isinstance(call, ast.Call) and names.qualified(call.func, index.module) in WRAPPERS
            for call in ast.walk(node.value)
        ):
            yield from map(ast.unparse, node.targets)


def _calls(index: Index, name: str) -> Iterator[ast.Call]:
    return (node for node, _ in index.calls.get(name, ()) if isinstance(node, ast.Call))


def _looks(call: ast.Call) -> bool:
    return any("Parallel" in ast.unparse(kind) for kind in call.args[1:])
