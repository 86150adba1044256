"""What the variables of loops are taken from."""

from __future__ import annotations

import ast


def unpacked(target: ast.expr, iterated: ast.expr) -> dict[str, ast.expr]:
    """What the names are one of that a loop unpacks, as in `for name, value in settings.items()`."""
    match target, iterated:
        case (
            ast.Tuple(elts=[_, ast.Name(id=name)]),
            ast.Call(func=ast.Attribute(value=held, attr="items"))
            | ast.Call(func=ast.Name(id="enumerate"), args=[held, *_]),
        ):
            return {name: held}
        case ast.Name(id=name), ast.Call(func=ast.Attribute(value=held, attr="values"), args=[]):
            return {name: held}
        case ast.Tuple(elts=names), ast.Call(func=ast.Name(id="zip"), args=several):
            pairs = zip(names, several, strict=False)
            return {one.id: held for one, held in pairs if isinstance(one, ast.Name)}
    return {}
