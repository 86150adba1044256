"""`ctx.types`: inferred types of values, and how values are used."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.model.names.scopes import Scope
from tpulint.model.project.keeping import OF_TORCH, is_of_torch, keeps_state
from tpulint.model.training.keras import creates_model
from tpulint.model.values.arrays import dtype_of_array
from tpulint.model.values.branches import Selection, is_selectable, selections
from tpulint.model.values.kinds import Instance, Kind
from tpulint.model.values.masked import Lifted, lifted
from tpulint.model.values.uses import (
    concretized,
    converts_dtypes,
    data_dependent_size,
    length_around,
    serves_as_tensor,
)
from tpulint.model.values.views import Copied, is_shared, is_slice, lost_write, read_after, value_of
from tpulint.rules_api.namespace import Namespace
from tpulint.source import require_ast


class Types(Namespace):
    """Inferred types of values, and how values are used."""

    __slots__ = ()

    def of(self, node: ast.expr) -> Kind:
        """The inferred type of an expression."""
        require_ast(node)
        return self._module.kind(node, self.scope)

    def is_reached(self, node: ast.expr) -> bool:
        """Whether the code can be reached with torchax tensors, as far as type inference shows."""
        return self._module.is_reached(node, self.scope)

    def returned(self, function: Scope) -> tuple[Kind, ...]:
        """The inferred types of the values that a function returns."""
        flow = self._module.flow(function)
        return tuple(flow.returned) if flow is not None else ()

    # classes

    def is_module(self, kind: Kind) -> bool:
        """Whether the value is a `torch.nn.Module`."""
        return isinstance(kind, Instance) and self.is_module_class(kind.cls)

    def is_module_class(self, cls: str) -> bool:
        """Whether the class with this qualified name is a `torch.nn.Module`."""
        return self._module.project.is_module_class(cls)

    def ancestors(self, cls: str) -> tuple[str, ...]:
        """The qualified names of a class and its ancestors, nearest first."""
        return self._module.project.mro(cls)

    def defines_class(self, cls: str) -> bool:
        """Whether this project defines the class with this qualified name."""
        return self._module.project.class_(self._module.project.resolve(cls)) is not None

    def defines_method(self, cls: str, name: str) -> bool:
        """Whether this project defines the method in the class."""
        return self._module.project.method(self._module.project.resolve(cls), name) is not None

    def is_tensor_attribute(self, cls: str, attribute: str) -> bool:
        """Whether the attribute of the class is a parameter or buffer."""
        return self._module.project.is_tensor_attribute(cls, attribute)

    def attribute_values(self, cls: str, attribute: str) -> list[tuple[ast.expr, Scope]]:
        """The values that this file assigns to an attribute of a class, each with its scope."""
        return self._module.assignments.get((cls, attribute), [])

    def all_attribute_values(self) -> Iterator[tuple[str, str, list[tuple[ast.expr, Scope]]]]:
        """All attributes of classes to which this file assigns: class, attribute, and values with scopes."""
        return ((cls, attribute, found) for (cls, attribute), found in self._module.assignments.items())

    def is_assigned_outside_init(self, attribute: str) -> bool:
        """Whether a method other than `__init__` assigns an attribute of this name, in any class."""
        assigned = self._module.index.attributes
        return any(name == attribute and at.name != "__init__" for name, _, at in assigned)

    def assigned_often(self, kind: Instance, attribute: str) -> bool:
        """Whether the class does not assign the attribute exactly once."""
        return len(self.attribute_values(kind.cls, attribute)) != 1

    def keeps_state(self, cls: str) -> bool:
        """Whether a module of a class, or one within it, may keep something from call to call."""
        return keeps_state(self._module.project, cls)

    def makes_stateful_layer(self) -> bool:
        """Whether this file creates a layer of torch that keeps statistics, such as `BatchNorm2d`."""
        names, project = self._module.names, self._module.project
        calls = (
            place
            for name, found in self._module.index.calls.items()
            if name.startswith(OF_TORCH)
            for place in found
        )
        made = (names.qualified(call.func, at) for call, at in calls if isinstance(call, ast.Call))
        return any(is_of_torch(project.resolve(name)) for name in made if name is not None)

    def is_new_keras_model(self, call: ast.Call) -> bool:
        """Whether the call creates a model of Keras, itself or in a function of the file.

        What the same block compiles with a loss or an optimizer is one, too, in a file that imports Keras.
        """
        return creates_model(self._module, call, self.scope)

    # values that have to be read

    def needs_value(self, test: ast.expr) -> ast.expr | None:
        """The part of a condition that needs a tensor's value; None if no part does."""
        return concretized(self._module, test, self.scope)

    def data_dependent_size(self, call: ast.Call) -> ast.expr | None:
        """The size in a call that depends on a tensor's value; None if no size does."""
        return data_dependent_size(self._module, call, self.scope)

    def sizes_a_factory(self, node: ast.expr) -> bool:
        """Whether the expression is part of the size of a new tensor, which is reported instead."""
        for outer in self._module.ancestors(node):
            if isinstance(outer, ast.stmt):
                return False
            if isinstance(outer, ast.Call) and self.data_dependent_size(outer) is not None:
                return True
        return False

    def serves_as_tensor(self, node: ast.expr) -> bool:
        """Whether a Python scalar could be a zero-dimensional tensor everywhere it is used."""
        return serves_as_tensor(self._module, node, self.scope)

    def converts_dtypes(self) -> bool:
        """Whether the function sets dtypes explicitly, which a tensor in place of a scalar could change."""
        return converts_dtypes(self.scope)

    def length_around(self, node: ast.expr) -> ast.expr | None:
        """The expression around a node that reads its length, such as `len(node)`; None if there is none."""
        return length_around(self._module, node, self.scope)

    def dtype_of_array(self, node: ast.expr) -> str | None:
        """The torch dtype of a NumPy array of integers or Booleans; None for other expressions."""
        return dtype_of_array(self._module, node, self.scope)

    # branches and masks

    def selections(self, node: ast.If) -> list[Selection] | None:
        """The assignments of both branches, in an order in which `torch.where` can replace them one by one.

        None if the branches do anything else.
        """
        return selections(self._module, node, self.scope)

    def is_selectable(self, then: ast.expr, other: ast.expr) -> bool:
        """Whether both expressions only compute tensors, of one shape and, as far as known, of one dtype."""
        return is_selectable(self._module, then, other, self.scope)

    def without_mask(self, node: ast.expr, mask: ast.expr) -> Lifted | None:
        """The expression without a mask; None where it does not work element by element."""
        return lifted(self._module, node, self.scope, mask)

    # views

    def is_slice(self, node: ast.expr) -> bool:
        """Whether the expression is known to be a basic slice of a device tensor, such as `x[:, 0]`."""
        return is_slice(self._module, node, self.scope)

    def is_shared(self, name: ast.Name) -> bool:
        """Whether a tensor may have another name; only a result of arithmetic certainly has none."""
        return is_shared(self._module, name, self.scope)

    def lost_write(self, node: ast.expr) -> Copied | None:
        """The view through which a write does not change the tensor on torchax, although that is read later.

        None if no write is lost.
        """
        return lost_write(self._module, node, self.scope)

    def is_read_after(self, tensor: Copied, write: ast.stmt) -> bool:
        """Whether the tensor is read after the write, under the same name."""
        return read_after(self._module, tensor, write, self.scope)

    def last_value(self, name: ast.Name) -> ast.expr | None:
        """The expression that was assigned to a name last; None if it is not certain."""
        return value_of(self._module, name)
