"""The dtypes of NumPy's arrays, where the text tells them."""

from __future__ import annotations

import ast

from tpulint.knowledge.arrays import DTYPES, OF_BOOLEANS, OF_GIVEN, OF_INTEGERS
from tpulint.model.names.scopes import Scope
from tpulint.model.syntax.parsed_file import ParsedFile


def dtype_of_array(module: ParsedFile, node: ast.expr, scope: Scope) -> str | None:
    """Whether the expression is a NumPy array of integers or Booleans; its torch dtype, or None."""
    if isinstance(node, ast.Name):
        found = module.names.lookup(node.id, scope)
        value = found[1][0].value if found is not None and len(found[1]) == 1 else None
        return dtype_of_array(module, value, found[0]) if found is not None and value is not None else None
    if not isinstance(node, ast.Call):
        return None
    if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and len(node.args) == 1:
        return _named(module, node.args[0], scope)
    name = module.names.qualified(node.func, scope) or ""
    told = [word.value for word in node.keywords if word.arg == "dtype"]
    if told:
        return _named(module, told[0], scope) if name.startswith("numpy.") else None
    if name in OF_INTEGERS:
        return "torch.int64"
    if name in OF_BOOLEANS:
        return "torch.bool"
    numbers = (
        node.args[1:2] if name == "numpy.full" else node.args if name == "numpy.arange" else node.args[:1]
    )
    return _of_numbers(numbers) if name in OF_GIVEN and not node.keywords else None


def _named(module: ParsedFile, dtype: ast.expr, scope: Scope) -> str | None:
    if isinstance(dtype, ast.Constant):
        return DTYPES.get(dtype.value) if isinstance(dtype.value, str) else None
    head, _, name = (module.names.qualified(dtype, scope) or "").partition(".")
    return DTYPES.get(name) if head in ("numpy", "builtins") else None


def _of_numbers(numbers: list[ast.expr]) -> str | None:
    """The dtype of literals, however deep they lie, if they all have one."""
    types: set[type] = set()
    waiting = list(numbers)
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.List | ast.Tuple):
            waiting += node.elts
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
            waiting.append(node.operand)
        else:
            types.add(type(node.value) if isinstance(node, ast.Constant) else object)
    return "torch.int64" if types == {int} else "torch.bool" if types == {bool} else None
