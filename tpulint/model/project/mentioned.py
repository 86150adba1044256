"""The functions that code mentions without a call that names them: what it passes on may be called there.

A program's work may be passed instead of called: `Thread(target=work)`, `for step in (load, train): step()`,
`pool.submit(work)`, `atexit.register(work)`, `parser.set_defaults(func=work)`, or `@app.command()` above it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

from tpulint.knowledge.runtime import is_of_runtime
from tpulint.knowledge.tracing import LIBRARIES
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import Binding, FunctionNode, Scope, ScopeKind

#: Packages whose decorators start nothing while the file runs: libraries, and those that run tests.
_START_NOTHING = LIBRARIES | {"pytest", "unittest", "hypothesis"}


def mentioned(module: str, index: Index, names: Names) -> dict[int, dict[str, tuple[int, int]]]:
    """The qualified names of such functions, each with a row and column, by the scope that mentions them.

    The scope of a function, or of the module, is given by its identity. Functions of libraries are left out.
    """
    found: dict[int, dict[str, tuple[int, int]]] = {}
    scopes = [*_scopes(index)]
    known = {name for scope in scopes for name, bound in scope.bindings.items() if any(map(_may_run, bound))}
    classes = {scope.name for scope in index.classes}
    for scope in scopes:
        own = found.setdefault(id(scope.function or index.module), {})
        for name in sorted(scope.loads.keys() & known):
            read = scope.loads[name]
            for function in _functions(name, scope, names):
                own.setdefault(function, (read.lineno, read.col_offset + 1))
        for name in (name for name in scope.passed if name in classes):
            calls = scope.passed[name]
            for function in _methods(name, calls, scope, names):
                own.setdefault(function, (calls[0].lineno, calls[0].col_offset + 1))
        for name in sorted(scope.evidence.keys() & known):
            for base in _imported(name, scope, names):
                for attribute in sorted(scope.evidence[name]):
                    own.setdefault(f"{base}.{attribute}", (0, 0))
    for scope in index.functions:
        outer, node = scope.parent, scope.node
        assert outer is not None
        own = found.setdefault(id(outer.function or index.module), {})
        if isinstance(node, ast.Lambda):
            if not any(binding.value is node for bound in outer.bindings.values() for binding in bound):
                own.setdefault(f"{module}.{scope.qualname}", (node.lineno, node.col_offset + 1))
            continue
        assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        registering = next(_registering(node.decorator_list, outer, names), None)
        if registering is not None:
            own.setdefault(f"{module}.{scope.qualname}", (registering.lineno, registering.col_offset + 1))
    return found


def _scopes(index: Index) -> Iterator[Scope]:
    """All scopes of a file."""
    waiting = [index.module]
    while waiting:
        scope = waiting.pop()
        yield scope
        waiting.extend(scope.children)


def _may_run(binding: Binding) -> bool:
    """Whether a binding is that of a function, or of an import that is not one of a library."""
    if binding.target is not None:
        return binding.target.partition(".")[0] not in LIBRARIES
    return isinstance(binding.node, FunctionNode) or binding.value.__class__ is ast.Lambda


def _functions(name: str, scope: Scope, names: Names) -> Iterator[str]:
    """The function of the file, or the import of the project, that a plain name stands for."""
    found = names.lookup(name, scope)
    if found is None:
        return
    owner, bindings = found
    around = "" if owner.kind is ScopeKind.MODULE else f"{owner.qualname}."
    for binding in bindings:
        if isinstance(binding.node, FunctionNode):
            yield f"{names.module}.{around}{name}"
        elif isinstance(binding.value, ast.Lambda):
            value = binding.value
            yield f"{names.module}.{around}<lambda:{value.lineno}:{value.col_offset}>"
    yield from _targets(name, scope, names)


def _methods(name: str, calls: list[ast.Call], scope: Scope, names: Names) -> Iterator[str]:
    """The methods of a class of the file that is passed to a library, as in `fire.Fire(App)`."""
    found = names.lookup(name, scope)
    if found is None or not any(isinstance(binding.node, ast.ClassDef) for binding in found[1]):
        return
    heads = ((names.qualified(call.func, scope) or "").partition(".")[0] for call in calls)
    if all(head in LIBRARIES or head == names.module.partition(".")[0] for head in heads):
        return
    for cls in found[0].children:
        if cls.kind is ScopeKind.CLASS and cls.name == name:
            yield from (
                f"{names.module}.{one.qualname}" for one in cls.children if one.kind is ScopeKind.FUNCTION
            )


def _imported(name: str, scope: Scope, names: Names) -> Iterator[str]:
    """The import of the project that a plain name stands for, of which attributes are taken."""
    if name not in ("self", "cls"):
        yield from _targets(name, scope, names)


def _targets(name: str, scope: Scope, names: Names) -> Iterator[str]:
    found = names.lookup(name, scope)
    for binding in found[1] if found is not None else ():
        if binding.target is not None and binding.target.partition(".")[0] not in LIBRARIES:
            yield binding.target


def _registering(decorators: Iterable[ast.expr], scope: Scope, names: Names) -> Iterator[ast.expr]:
    """Decorators that may hand the function to what calls it later, as `@app.command()` does."""
    for decorator in decorators:
        called = decorator.func if isinstance(decorator, ast.Call) else decorator
        while isinstance(called, ast.Attribute | ast.Call | ast.Subscript):
            called = called.func if isinstance(called, ast.Call) else called.value
        name = names.qualified(called, scope) or ""
        is_runtime = is_of_runtime(name)  # which lets JAX compute what it decorates, and keeps no list
        if isinstance(called, ast.Name) and name.partition(".")[0] not in _START_NOTHING and not is_runtime:
            yield decorator
