"""`ctx.trace`: whether and why code is traced, and what outlives a trace."""

from __future__ import annotations

import ast

from tpulint.model.names.scopes import Scope
from tpulint.model.project.trace_path import TracePath
from tpulint.model.tracing.jitted import Jitted, jitted_by
from tpulint.model.tracing.models import is_of_model
from tpulint.model.training.boundaries import is_without_gradient
from tpulint.model.training.called import is_differentiated
from tpulint.model.values.readers import Reader, Readers, handed_by_hooks, mentions
from tpulint.rules_api.namespace import Namespace


class Trace(Namespace):
    """Whether and why code is traced, and what outlives a trace."""

    __slots__ = ()

    @property
    def path(self) -> TracePath | None:
        """The call chain by which this code is traced; None if it is not traced."""
        return self._module.trace_path(self.scope)

    def path_to(self, function: str) -> TracePath | None:
        """The call chain by which the function with this qualified name is traced; None if it is not."""
        return self._module.project.trace_path(function)

    @property
    def outlasts_call(self) -> bool:
        """Whether values that this code stores outlive a trace, as in a `forward` or a jitted function."""
        return self._module.outlasts_trace(self.scope)

    @property
    def may_need_values(self) -> bool:
        """Whether the code runs without a trace, where it needs values, as the runtime makes it."""
        return self._module.may_need_values(self.scope)

    def jitted_by(self, call: ast.Call) -> Jitted | None:
        """The function or `forward` that a call jits; None if this file does not define it."""
        return jitted_by(self._module, call, self.scope)

    def is_differentiable(self, function: Scope) -> bool:
        """Whether the function is decorated with `@differentiable`."""
        return is_differentiated(self._module, function)

    def is_without_gradient(self, statement: ast.stmt) -> bool:
        """Whether a statement runs within `torch.no_grad()` or the like."""
        return is_without_gradient(self._module, statement, self.scope)

    @property
    def is_of_model(self) -> bool:
        """Whether this code is jitted by name, or runs in the `forward` of a module with layers or tensors.

        Data transforms are often modules, too, but they hold neither, and run on the host.
        """
        return is_of_model(self._module, self.scope)

    def is_hook_value(self, value: ast.expr) -> bool:
        """Whether the expression contains a value that torch passes to a hook of a module."""
        hooks = self._once(handed_by_hooks)
        return mentions(value, hooks.get(id(self.scope.function), set()))

    def reader_of(self, attribute: str, statement: ast.stmt) -> Reader | None:
        """The code that reads an attribute after the call that set it in a statement; None if none does."""
        return self._once(Readers).of(attribute, statement, self.scope)
