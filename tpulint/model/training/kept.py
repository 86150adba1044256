"""Losses that an object keeps in an attribute, on which code of others calls `backward`.

So do runners that leave the optimizer to hooks, `runner.outputs["loss"].backward()`, and other methods of the
same object, as those of a learner whose events lie between.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import method_around
from tpulint.model.names.scopes import Scope
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.training.called import is_differentiated
from tpulint.model.training.losses import backward_calls
from tpulint.model.values.pending import statements


def asked_of_others(module: ParsedFile) -> tuple[str, ...]:
    """The attributes of other objects, and of other methods, on which a file calls `backward`."""
    found = (name for loss, scope in backward_calls(module) for name in _attributes(loss, scope))
    return tuple(dict.fromkeys(found))


def _attributes(loss: ast.expr, scope: Scope, *, is_bound: bool = False) -> Iterator[str]:
    match loss:
        case ast.BinOp(left=left, op=ast.Mult() | ast.Div()):
            yield from _attributes(left, scope, is_bound=is_bound)
        case ast.Call(func=ast.Attribute(attr="scale"), args=[scaled]):
            yield from _attributes(scaled, scope, is_bound=is_bound)
        case ast.Subscript(value=ast.Attribute() as value, slice=ast.Constant(value=str())):
            yield from _attributes(value, scope, is_bound=is_bound)
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner != "self":
            yield name
        case ast.Attribute(value=ast.Name(id="self"), attr=name) if not is_bound and not _writes(name, scope):
            yield name
        case ast.Attribute(value=ast.Attribute(value=ast.Name(id="self")), attr=name):
            yield name
        case ast.Name(id=name) if scope.function is not None and not is_bound:
            for binding in scope.function.bindings.get(name, ()):
                if binding.value is not None:
                    yield from _attributes(binding.value, scope, is_bound=True)


def _writes(attribute: str, scope: Scope) -> bool:
    """Whether the function around puts something into an attribute of `self`."""
    return scope.function is None or any(
        isinstance(node, ast.Attribute) and node.attr == attribute and isinstance(node.ctx, ast.Store)
        for node in ast.walk(scope.function.node)
    )


def kept_by_marked(module: ParsedFile) -> tuple[str, ...]:
    """The attributes of `self` that a file's methods put into what functions give that JAX differentiates."""
    marked = {one.name for one in module.index.functions if is_differentiated(module, one)}
    bodies = (getattr(one.node, "body", None) for one in module.index.functions) if marked else ()
    found = dict[str, None]()
    for statement in (one for body in bodies if isinstance(body, list) for one in statements(body)):
        match statement:
            case ast.Assign(targets=[target], value=ast.Call(called)):
                if (dotted(called) or "").rpartition(".")[2] in marked:
                    bound = target.elts if isinstance(target, ast.Tuple) else [target]
                    names = (dotted(one) or "" for one in bound)
                    found.update((name[5:], None) for name in names if name.startswith("self."))
    return tuple(found)


def is_kept_by_marked(module: ProjectFile, loss: ast.expr, scope: Scope) -> bool:
    """Whether a loss is in an attribute into which others put what such a function gives."""
    return not module.project.kept_by_marked.isdisjoint(_attributes(loss, scope))


def left_by_others(loss: ast.expr, scope: Scope, kept: Iterable[ast.Assign]) -> bool:
    """Whether a loss is in an attribute of `self` that another method puts it into."""
    names = {target.attr for one in kept for target in one.targets if isinstance(target, ast.Attribute)}
    is_own = isinstance(loss, ast.Attribute) and isinstance(loss.value, ast.Name) and loss.value.id == "self"
    return is_own and not names.isdisjoint(_attributes(loss, scope))


def keeping(module: ProjectFile) -> Iterator[tuple[ast.Assign, Scope]]:
    """The assignments of methods to attributes of `self` on which others call `backward`.

    What a `forward` leaves is read where it is called, as by what computes a loss.
    """
    asked = module.project.asked_of_others
    for function in module.index.functions if asked else ():
        body = getattr(function.node, "body", [])
        if method_around(function) is not function or function.name == "forward":
            continue
        for statement in statements(body) if isinstance(body, list) else ():
            match statement:
                case ast.Assign(targets=[ast.Attribute(value=ast.Name(id="self"), attr=name)]):
                    if name in asked:
                        yield statement, function
