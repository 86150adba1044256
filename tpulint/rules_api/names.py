"""`ctx.names`: qualified names, scopes, and what names are bound to."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable, Iterator

from tpulint.model.names.references import default_of, method_around
from tpulint.model.names.scopes import Binding, FunctionNode, Scope, parameters
from tpulint.model.project.device_mentions import default_types
from tpulint.model.syntax.handlers import optional
from tpulint.model.syntax.imports import first_import
from tpulint.model.training.called import is_decorated, own_function
from tpulint.model.values.at_hand import names_at_hand
from tpulint.model.values.kinds import Kind
from tpulint.rules_api.namespace import Namespace
from tpulint.source import require_ast


class Names(Namespace):
    """Qualified names, scopes, and what names are bound to."""

    __slots__ = ()

    # names

    def qualified(self, node: ast.AST) -> str | None:
        """The qualified name of a plain or dotted name, such as `torch.cuda.synchronize`."""
        name = self._module.names.qualified(node, self.scope)
        if name is None:
            require_ast(node)
            return None
        return self._module.project.resolve(name)

    def lookup(self, name: str) -> tuple[Scope, list[Binding]] | None:
        """The scope that binds a name, with its bindings there; None if the name is not defined here."""
        return self._module.names.lookup(name, self.scope)

    def is_bound(self, name: str) -> bool:
        """Whether the name is defined here."""
        return self.lookup(name) is not None

    def assigned_values(self, name: ast.expr) -> list[ast.expr]:
        """The values of plain assignments to a name, or to whatever is written like something else."""
        if not isinstance(name, ast.Name):
            return self._module.assigned.get(ast.unparse(name), [])
        found = self.lookup(name.id)
        return [binding.value for binding in found[1] if binding.value is not None] if found else []

    def default_of(self, parameter: str) -> ast.expr | None:
        """The default of a parameter of the function that binds this name; None if there is none."""
        found = self.lookup(parameter)
        return default_of(parameter, found[0]) if found is not None else None

    def loads(self, name: str) -> Iterator[ast.Name]:
        """The reads of a name in the file, whatever it means there."""
        return iter(self._module.loads.get(name, ()))

    def loads_after(self, name: str, statement: ast.stmt) -> list[ast.Name]:
        """The reads of a name below a statement, up to the end of the enclosing function or of the file."""
        function = self.scope.function
        end = getattr(function.node, "end_lineno", None) if function is not None else None
        start, loads = statement.lineno, self._module.loads.get(name, ())
        return [use for use in loads if start < use.lineno <= (end or use.lineno)]

    def attributes(self, name: str) -> Iterator[tuple[ast.Attribute, Scope]]:
        """The file's attributes of this name, of any object, each with its scope."""
        found = self._module.index.taken.get(name, ())
        return ((node, at) for node, at in found if isinstance(node, ast.Attribute))

    def attributes_of(self, owner: ast.expr, names: Collection[str]) -> Iterator[ast.Attribute]:
        """The file's attributes of one of these names, of whatever is written like `owner`."""
        text = self._text(owner)
        found = (node for name in names for node, _ in self.attributes(name))
        return (node for node in found if self._text(node.value) == text)

    def at_hand(self, node: ast.expr) -> Iterator[tuple[str, Kind]]:
        """Names that are certainly bound where a node is evaluated, nearest first, with their types."""
        return names_at_hand(self._module, node, self.scope)

    def has_string(self, text: str) -> bool:
        """Whether the file has a string constant with this text."""
        return text in self._module.index.texts

    def has_string_nearby(self, text: str) -> bool:
        """Whether the enclosing function, or the file outside of functions, has this string constant."""
        found = self._module.index.texts.get(text, ())
        return any(scope.function is self.scope.function for _, scope in found)

    def large_integers(self) -> Iterator[tuple[ast.expr, Scope]]:
        """Large integer constants, and powers and shifts, of the whole file, each with its scope."""
        return ((node, at) for node, at in self._module.index.large if isinstance(node, ast.expr))

    # functions and scopes

    @property
    def module_scope(self) -> Scope:
        """The scope of the file's top level."""
        return self._module.index.module

    @property
    def functions(self) -> list[Scope]:
        """The functions of the file."""
        return self._module.index.functions

    @property
    def scopes(self) -> Iterable[Scope]:
        """The file's top level, functions and classes."""
        index = self._module.index
        return (index.module, *index.functions, *index.classes)

    def function(self, node: ast.AST) -> Scope | None:
        """The scope of a function definition or lambda."""
        return self._module.index.function(node)

    def qualified_scope(self, scope: Scope) -> str:
        """The qualified name of a function or class of this file."""
        return f"{self._module.name}.{scope.qualname}"

    @property
    def method(self) -> Scope | None:
        """The method that the code is part of; None outside of methods."""
        return method_around(self.scope)

    def called_function(self, callee: ast.expr) -> Scope | None:
        """The function of this file that is called by a plain name or as a method of `self`."""
        return own_function(self._module, callee, self.scope)

    def is_function(self, node: ast.expr) -> bool:
        """Whether the expression is a lambda, or the name of a function that `def` defines."""
        if isinstance(node, ast.Lambda):
            return True
        found = self.lookup(node.id) if isinstance(node, ast.Name) else None
        return found is not None and all(isinstance(binding.node, FunctionNode) for binding in found[1])

    def is_parameter(self, node: ast.expr) -> bool:
        """Whether the expression is a parameter of the enclosing function, and so may be a tensor."""
        function = self.scope.function
        if not isinstance(node, ast.Name) or function is None or not isinstance(function.node, FunctionNode):
            return False
        names = {argument.arg for argument in parameters(function.node)} - {"self", "cls"}
        return node.id in names

    def has_runtime_decorator(self, function: Scope, decorator: str) -> bool:
        """Whether the function has a decorator of the runtime, such as `knowledge.runtime.DIFFERENTIABLE`."""
        return is_decorated(self._module, function, decorator)

    # calls

    def top_level_calls(self, name: str) -> Iterator[ast.Call]:
        """Calls whose callee ends in a name, outside of any function or class."""
        for node, scope in self._module.index.calls.get(name, ()):
            if scope is self.module_scope and isinstance(node, ast.Call):
                yield node

    def all_calls(self) -> Iterator[tuple[ast.Call, Scope]]:
        """All calls of the file, each with its scope."""
        return ((node, at) for node, at in self._module.index.nodes[ast.Call] if isinstance(node, ast.Call))

    def has_call(self, name: str) -> bool:
        """Whether the file has a call whose callee ends in a name."""
        return bool(self._module.index.calls.get(name))

    def calls_of(self, names: Collection[str]) -> Iterator[tuple[ast.Call, Scope]]:
        """The file's calls of functions or classes with these qualified names, each with its scope."""
        for last in {name.rpartition(".")[2] for name in names}:
            for call, scope in self._module.index.calls.get(last, ()):
                if isinstance(call, ast.Call):
                    qualified = self._module.names.qualified(call.func, scope)
                    if qualified is not None and self._module.project.resolve(qualified) in names:
                        yield call, scope

    def options(self, node: ast.expr, callee: str) -> dict[str, ast.expr]:
        """The items of a dictionary, by their keys, if the file unpacks a dictionary for a callee.

        The node is one of the keys, or the call of `dict`.
        """
        calls = self._module.index.calls.get(callee, ())
        if not any(isinstance(c, ast.Call) and any(w.arg is None for w in c.keywords) for c, _ in calls):
            return {}
        if isinstance(node, ast.Call):
            is_dict = self.qualified(node.func) == "builtins.dict"
            return {word.arg: word.value for word in node.keywords if word.arg} if is_dict else {}
        outer = self._module.parent(node)
        if not isinstance(outer, ast.Dict) or node not in outer.keys:
            return {}
        named = zip(outer.keys, outer.values, strict=True)
        return {str(one.value): value for one, value in named if isinstance(one, ast.Constant)}

    # imports

    def is_optional_import(self, statement: ast.stmt) -> bool:
        """Whether the import is optional; the program continues if it fails or is skipped."""
        return optional(self._module, statement, self.scope)

    def first_import(self, package: str) -> ast.stmt | None:
        """The first import of the package in this file that is not optional, if there is one."""
        return first_import(self._module, package)

    def default_tensor_types(self, call: ast.Call) -> Iterator[str]:
        """The types, or their names, that a call of `set_default_tensor_type` may make the default."""
        return default_types(self._module.names, [(call, self.scope)])
