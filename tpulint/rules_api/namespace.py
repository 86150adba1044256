"""What the namespaces of a context have in common."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import TypeVar

from tpulint.finding import Span
from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.source import require_ast

_T = TypeVar("_T")


class Namespace:
    """Questions of one topic about a file, asked at one location."""

    __slots__ = ("_module", "scope")

    def __init__(self, module: Module, scope: Scope) -> None:
        self._module = module
        self.scope = scope

    def _once(self, analysis: Callable[[Module], _T]) -> _T:
        """The result of an analysis of the whole file, which is kept."""
        if analysis not in self._module.answers:
            self._module.answers[analysis] = analysis(self._module)
        result: _T = self._module.answers[analysis]
        return result

    def _span(self, node: ast.expr | ast.stmt | ast.keyword) -> Span:
        require_ast(node)
        return self._module.source.span(node)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        span = self._span(node)
        return self._module.source.text[span.start : span.end]
