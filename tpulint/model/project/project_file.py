"""A parsed file within its project: how tracing reaches its code, and what calls pass to a parameter."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import by_name, positional
from tpulint.model.names.scopes import Scope
from tpulint.model.project.project import ProjectFacts
from tpulint.model.project.trace_path import Certainty, TracePath
from tpulint.model.syntax.parsed_file import ModulePath, ParsedFile
from tpulint.source import Source


class ProjectFile(ParsedFile):
    """A parsed file, and what the project says about it. The project is empty until the file enters one."""

    def __init__(self, source: Source, path: ModulePath) -> None:
        super().__init__(source, path)
        self.project = ProjectFacts(())
        self._traced: dict[int, TracePath | None] = {}

    def enter(self, project: ProjectFacts) -> None:
        """Answer from now on with what the whole project says."""
        self.project = project
        self.names.enter(project.resolve, project.is_defined)
        self.answers.clear()
        self._traced.clear()

    def trace_path(self, scope: Scope) -> TracePath | None:
        """The call chain by which the code of a scope is traced; None for code that is not traced."""
        key = id(scope)
        if key not in self._traced:
            self._traced[key] = self._trace_path(scope)
        return self._traced[key]

    def _trace_path(self, scope: Scope) -> TracePath | None:
        # A lambda counts by itself: one that only makes a message is never called while tracing.
        function = scope.function
        return self.project.trace_path(f"{self.name}.{function.qualname}") if function is not None else None

    def may_need_values(self, scope: Scope) -> bool:
        """Whether the code runs without a trace, where it needs values, as the runtime makes it.

        That is code that the project does not jit by name, in a program with the runtime.
        """
        path = self.trace_path(scope)
        is_jitted = path is not None and path.certainty is Certainty.JIT
        return not is_jitted and self.project.uses_runtime

    def outlasts_trace(self, scope: Scope) -> bool:
        """Whether values that this code stores outlive a trace, as in a `forward` or a jitted function."""
        path = self.trace_path(scope)
        return path is not None and path.certainty <= Certainty.FORWARD

    def handed(self, parameter: str, scope: Scope) -> Iterator[tuple[ast.expr, Scope]]:
        """What calls in this file pass as a parameter of the function around a scope, and where."""
        function = scope.function
        if function is None or not isinstance(function.node, ast.FunctionDef):
            return
        is_init = function.node.name == "__init__" and function.parent is not None
        called = function.parent if is_init and function.parent is not None else function
        names = positional(function)
        for call, place in self.index.calls.get(called.name, ()):
            assert isinstance(call, ast.Call)
            qualified = self.names.qualified(call.func, place)
            named = (
                qualified is not None and self.project.resolve(qualified) == f"{self.name}.{called.qualname}"
            )
            of_self = isinstance(call.func, ast.Attribute) and dotted(call.func.value) == "self"
            if named or of_self:
                arguments = by_name(call, names)
                if parameter in arguments:
                    yield arguments[parameter], place
