"""References: what a callee may be, as strings that another module's reader can look up.

name:pkg.module.function      a qualified name
self:attribute.method         a path from the instance whose method makes the call
super:method                  a method of the bases
new:pkg.module.Class:method   a path from an instance of the class, or of what a function of that name makes
given:pkg.function:model      what calls hand to a parameter of a function
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from tpulint.knowledge.tracing import GIVE_MODULE, WRAPPERS
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind, parameters

#: Methods that give the same tensor elsewhere, or with another dtype.
_MOVES = frozenset({"to", "type_as", "cuda", "cpu", "float"})

#: A name that is bound more often may be anything.
_MOST_VALUES = 8


def references(node: ast.AST, scope: Scope, names: Names, *, depth: int = 0) -> tuple[str, ...]:
    """What a callee expression may refer to, as references; empty where nobody knows."""
    path: list[str] = []
    while True:
        if not path:
            node = itself(node)
        if isinstance(node, ast.Attribute):
            path.append(node.attr)
            node = node.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            break
    tail = ".".join(reversed(path))
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.func.id == "super" and tail:
            return (f"super:{tail}",)
        made = names.qualified(node.func, scope)
        return (f"new:{made}:{tail or '__call__'}",) if made is not None else ()
    if not isinstance(node, ast.Name):
        return ()
    if node.id in ("self", "cls") and method_around(scope) is not None:
        return (f"self:{tail}",) if tail else ()
    found = names.lookup(node.id, scope)
    if found is not None and depth < 3:
        owner, bindings = found
        if node.id in owner.loops:
            return tuple(
                _extend(ref, tail)
                for ref in references(_looped(owner.loops[node.id]), scope, names, depth=depth + 1)
            )
        values = [binding.value for binding in bindings if binding.value is not None]
        if values and len(values) == len(bindings) <= _MOST_VALUES and owner.kind is not ScopeKind.CLASS:
            refs = [
                ref
                for value in values
                for ref in _value_references(value, tail, owner, names, depth=depth + 1)
            ]
            if refs:
                return tuple(refs)
        if not bindings[0].value and not tail:
            default = default_of(node.id, owner)
            if isinstance(default, ast.Name | ast.Attribute) and owner.parent is not None:
                return references(default, owner.parent, names, depth=depth + 1)
    qualified = names.qualified(node, scope)
    if qualified is None:
        cls = _annotated_class(node.id, found[0], names) if found is not None else None
        return (f"new:{cls}:{tail or '__call__'}",) if cls is not None else ()
    return (f"name:{qualified}.{tail}" if tail else f"name:{qualified}",)


def itself(node: ast.AST) -> ast.AST:
    """What methods are called on that give a module itself: `Net()`, of `Net().to(device).eval()`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        if node.func.attr not in GIVE_MODULE:
            break
        node = node.func.value
    return node


def _value_references(value: ast.expr, tail: str, scope: Scope, names: Names, *, depth: int) -> Iterator[str]:
    """What a value that a name holds may refer to."""
    match itself(value):
        case ast.Call() as call:
            made = names.qualified(call.func, scope)
            if made in WRAPPERS and call.args:
                yield from references(call.args[0], scope, names, depth=depth)
            elif made is not None:
                yield f"new:{made}:{tail or '__call__'}"
                if made in ("torch.nn.Sequential", "torch.nn.DataParallel") and not tail:
                    for part in call.args:
                        yield from _value_references(part, "", scope, names, depth=depth)
        case ast.IfExp(body=body, orelse=orelse):
            yield from _value_references(body, tail, scope, names, depth=depth)
            yield from _value_references(orelse, tail, scope, names, depth=depth)
        case ast.Attribute() | ast.Subscript() | ast.Name() as held:
            for reference in references(held, scope, names, depth=depth):
                yield _extend(reference, tail)


def instances(value: ast.expr, scope: Scope, names: Names) -> tuple[str, ...]:
    """References to the calls of the instances that an expression may be."""
    match itself(value):
        case ast.Name() | ast.Attribute() as held:
            found: Iterator[str] = iter(references(held, scope, names))
        case ast.Call() as call:
            found = _value_references(call, "", scope, names, depth=0)
        case _:
            return ()
    return tuple(ref for ref in found if ref.startswith("new:") and not ref.startswith("new:torch."))


def given(node: ast.AST, scope: Scope, names: Names) -> str | None:
    """The reference to what calls hand to the parameter that an expression is; None if it is none."""
    found = names.lookup(node.id, scope) if isinstance(node, ast.Name) else None
    function = found[0].node if found is not None else None
    if found is None or not isinstance(function, FunctionNode) or not isinstance(node, ast.Name):
        return None
    is_parameter = any(argument.arg == node.id for argument in parameters(function))
    return f"given:{names.module}.{found[0].qualname}:{node.id}" if is_parameter else None


def held_functions(value: ast.expr, scope: Scope, names: Names) -> tuple[str, ...]:
    """References to the functions that a value is or holds, but for those of torch; none for plain values."""
    match value:
        case ast.Call(args=[first, *_]) if names.qualified(value.func, scope) in WRAPPERS:
            return held_functions(first, scope, names)
        case ast.IfExp():
            return (*held_functions(value.body, scope, names), *held_functions(value.orelse, scope, names))
        case ast.Dict(values=parts) | ast.List(elts=parts) | ast.Tuple(elts=parts):
            return tuple(ref for part in parts for ref in held_functions(part, scope, names))
        case ast.Attribute(value=ast.Name(id="self"), attr=attr):
            method = method_around(scope)
            owner = method.owner if method is not None else None
            bound = owner.bindings.get(attr, ()) if owner is not None else ()
            return (f"self:{attr}",) if any(isinstance(b.node, FunctionNode) for b in bound) else ()
        case ast.Name() | ast.Attribute():
            found = references(value, scope, names)
            return tuple(
                ref for ref in found if ref.startswith("name:") and not ref.startswith("name:torch.")
            )
    return ()


def default_of(parameter: str, scope: Scope) -> ast.expr | None:
    """The default of a function's parameter."""
    pairs = defaults(scope.node.args) if isinstance(scope.node, FunctionNode) else ()
    return next((default for name, default in pairs if name == parameter), None)


def is_none_by_default(parameter: str, scope: Scope) -> bool:
    """Whether a function's parameter is None where a call leaves it out."""
    default = default_of(parameter, scope)
    return isinstance(default, ast.Constant) and default.value is None


def defaults(arguments: ast.arguments) -> Iterator[tuple[str, ast.expr | None]]:
    """The parameters that may have a default, each with its own."""
    by_place = reversed([*arguments.posonlyargs, *arguments.args])
    yield from ((a.arg, default) for a, default in zip(by_place, reversed(arguments.defaults), strict=False))
    by_name = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
    yield from ((argument.arg, default) for argument, default in by_name)


def positional(function: Scope) -> list[str]:
    """The parameters that a call's arguments fill by position; the instance is none of them."""
    if not isinstance(function.node, FunctionNode):
        return []
    names = [argument.arg for argument in (*function.node.args.posonlyargs, *function.node.args.args)]
    return names[1:] if function.owner is not None and names[:1] in (["self"], ["cls"]) else names


def by_name(call: ast.Call, parameters: Sequence[str]) -> dict[str, ast.expr]:
    """A call's arguments by the names of the parameters; mappings that it unpacks are left out."""
    given = dict(zip(parameters, call.args, strict=False))
    return given | {word.arg: word.value for word in call.keywords if word.arg is not None}


def _annotated_class(parameter: str, scope: Scope, names: Names) -> str | None:
    """The class that a parameter is annotated with, optional or not."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or scope.parent is None:
        return None
    annotation = next((a.annotation for a in parameters(node) if a.arg == parameter), None)
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        try:
            annotation = ast.parse(annotation.value, mode="eval").body
        except (SyntaxError, ValueError):
            return None
    match annotation:
        case ast.BinOp(left=inner, op=ast.BitOr(), right=ast.Constant(value=None)):
            annotation = inner
        case ast.Subscript(value=ast.Name(id="Optional") | ast.Attribute(attr="Optional"), slice=inner):
            annotation = inner
    if isinstance(annotation, ast.Name | ast.Attribute):
        return names.qualified(annotation, scope.parent)
    return None


def _extend(reference: str, tail: str) -> str:
    if not tail:
        return reference
    if reference.startswith("new:") and reference.endswith(":__call__"):
        return f"{reference[: -len('__call__')]}{tail}"
    return f"{reference}.{tail}"


def _looped(node: ast.expr) -> ast.expr:
    """What is iterated over, `enumerate`, `zip`, `reversed` and dictionary views looked through."""
    while isinstance(node, ast.Call):
        if isinstance(node.func, ast.Name) and node.args:
            node = node.args[0]
        elif isinstance(node.func, ast.Attribute) and node.func.attr in ("values", "children", "items"):
            node = node.func.value
        else:
            break
    return node


def attributes_by_class(index: Index) -> dict[str, list[tuple[str, ast.expr, Scope]]]:
    """The assignments to attributes of instances: the attribute, the value, the scope; by class."""
    found: dict[str, list[tuple[str, ast.expr, Scope]]] = {}
    for assigned in index.attributes:
        method = method_around(assigned[2])
        if method is not None and method.owner is not None:
            found.setdefault(method.owner.qualname, []).append(assigned)
    return found


def method_around(scope: Scope) -> Scope | None:
    """The method that a scope is or lies in."""
    current: Scope | None = scope
    while current is not None:
        if current.kind is ScopeKind.FUNCTION and current.owner is not None:
            return current
        current = current.parent
    return None


def is_put_back(value: ast.expr, attribute: str) -> bool:
    """Whether `self.<attribute>` is put back elsewhere, or with another dtype: `self.x = self.x.to(...)`.

    So is a list of tensors: `self.xs = [x.to(...) for x in self.xs]`.
    """
    match value:
        case ast.Call(
            func=ast.Attribute(value=ast.Attribute(value=ast.Name(id="self"), attr=held), attr=moves)
        ):
            return held == attribute and moves in _MOVES
        case ast.ListComp(
            elt=ast.Call(func=ast.Attribute(value=ast.Name(id=moved), attr=moves)),
            generators=[
                ast.comprehension(
                    target=ast.Name(id=each),
                    iter=ast.Attribute(value=ast.Name(id="self"), attr=held),
                    ifs=[],
                )
            ],
        ):
            return held == attribute and moved == each and moves in _MOVES
        case _:
            return False
