"""What a program chooses when it runs: modules, by names that it makes then, and functions that it looks up.

Modules as in `import_module("models." + name)`, or by names that a list or a dictionary holds, as in
`import_module(COMMANDS[name])`, or by the `_target_` of a file, as in Hydra's `instantiate(cfg)`; functions
and classes as in `COMMANDS[name]()`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.tracing import LIBRARIES
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import Scope

_IMPORTING = frozenset({"importlib.import_module", "builtins.__import__"})
#: What makes that which a configuration names.
MAKING = frozenset(
    {
        *(f"hydra.utils.{name}" for name in ("call", "get_class", "get_method", "get_object", "instantiate")),
        *("hydra.utils.get_static_method", "pkgutil.resolve_name", "pydoc.locate"),
    }
)
_TABLES_OF_NAMES = frozenset({"builtins.globals", "builtins.locals", "builtins.vars"})
#: The beginning of all names.
ANYTHING = ""


def chosen_imports(module: str, names: Names) -> Iterator[str]:
    """The beginnings of the names of such modules, as far as the text of module `module` has them."""
    if any(names.calls_of(MAKING)):
        yield ANYTHING
    for call, scope in names.calls_of(_IMPORTING):
        text = next((_beginning(one, scope, names) for one in call.args[:1]), "")
        if text.startswith("."):
            text = _package(call, module) + text
        if "." in text:
            yield text
        elif not text:
            yield from (one for given in call.args[:1] for one in _held(given, scope, names))


def _beginning(node: ast.expr | None, scope: Scope, names: Names) -> str:
    """What a text begins with that is put together, up to its first unknown part."""
    match node:
        case ast.Constant(value=str() as text):
            return text
        case ast.JoinedStr(values=[first, *_]) | ast.BinOp(left=first, op=ast.Add()):
            return _beginning(first, scope, names)
        case ast.BinOp(left=ast.Constant(value=str() as text), op=ast.Mod()):
            return text.partition("%")[0]
        case ast.Call(func=ast.Attribute(value=ast.Constant(value=str() as text), attr="format")):
            return text.partition("{")[0]
        case ast.Name(id=name):
            found = names.lookup(name, scope)
            values = [one.value for one in found[1]] if found is not None else []
            if found is not None and len(values) == 1 and not isinstance(values[0], ast.Name):
                return _beginning(values[0], found[0], names)
    return ""


def _held(node: ast.expr, scope: Scope, names: Names) -> Iterator[str]:
    """The texts that a list or a dictionary holds which a name is looked up in."""
    if not isinstance(node, ast.Subscript) or not isinstance(node.value, ast.Name):
        return
    found = names.lookup(node.value.id, scope)
    for value in (binding.value for binding in found[1]) if found is not None else ():
        match value:
            case ast.List(elts=held) | ast.Tuple(elts=held) | ast.Dict(values=held):
                texts = (one.value for one in held if isinstance(one, ast.Constant))
                yield from (text for text in texts if isinstance(text, str))


def _package(call: ast.Call, module: str) -> str:
    """The package that a relative name is of: the one that is given as a text, or that of the file."""
    given = [*call.args[1:2], *(one.value for one in call.keywords if one.arg == "package")]
    match given:
        case [ast.Constant(value=str() as text)]:
            return text
        case [ast.Name(id="__name__")]:
            return module  # of the file that is a package itself
    return module.rpartition(".")[0]


def is_chosen(call: ast.Call, scope: Scope, names: Names) -> bool:
    """Whether a call is of what is looked up when the program runs, but for the functions of libraries."""
    match call.func:
        case ast.Subscript(value=ast.Name() | ast.Dict(), slice=key):
            return not isinstance(key, ast.Constant)
        case ast.Attribute(value=ast.Subscript(value=ast.Name() | ast.Dict(), slice=key)):
            return not isinstance(key, ast.Constant)
        case ast.Subscript(value=ast.Call(func=table)):  # `globals()[name]()`
            return names.qualified(table, scope) in _TABLES_OF_NAMES
        case ast.Call():
            return _looks_up(call.func, scope, names)
        case ast.Attribute(value=ast.Name(id=given), attr="func"):  # of `set_defaults(func=train)`
            return any(isinstance(one, ast.Name) and one.id == given for one in call.args)
        case ast.Name(id=name):
            found = names.lookup(name, scope)
            values = [one.value for one in found[1]] if found is not None else []
            return any(isinstance(one, ast.Subscript) or _looks_up(one, scope, names) for one in values)
    return False


def _looks_up(value: ast.expr | None, scope: Scope, names: Names) -> bool:
    """Whether a value is looked up by its name, as `getattr(app, name)` and `commands.get(name)` are."""
    match value:
        case ast.Call(func=ast.Name(id="getattr"), args=[of, *_]):
            return (names.qualified(of, scope) or "").partition(".")[0] not in LIBRARIES
        case ast.Call(func=ast.Attribute(attr="get")):
            return True
    return False
