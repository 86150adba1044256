"""What a file hands to functions that call `backward` on it, or on a loss that they make of it."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property

from tpulint.knowledge.tensors import TENSOR_ATTRIBUTES
from tpulint.model.names.scopes import Scope
from tpulint.model.training.boundaries import is_without_gradient
from tpulint.model.training.called import own_function
from tpulint.model.training.collected import Filling, filled_here
from tpulint.model.training.detached import gives_none_on
from tpulint.model.training.learned import Learned
from tpulint.model.training.losses import Handed, backward_calls, handed_losses
from tpulint.model.values.pending import statements
from tpulint.model.values.typed_file import TypedFile

#: What is asked of a dictionary of losses.
_OF_DICTIONARIES = frozenset({"get", "items", "keys", "values"})
#: What may make a value of what modules compute.
_COMPUTING = (ast.Attribute, ast.BinOp, ast.Call, ast.Subscript)


class Handing:
    """Answers for one file.

    Args:
        module: the file.
        learned: what computes with the parameters of modules there.
    """

    def __init__(self, module: TypedFile, learned: Learned) -> None:
        self._module, self._learned = module, learned

    @cached_property
    def handed(self) -> list[Handed]:
        """The calls that hand a loss to a function of the project which calls `backward` on it."""
        found = self._all_handed
        return [one for one in found if one.taker.is_whole or self._is_computed(one.loss, one.scope)]

    @cached_property
    def _all_handed(self) -> list[Handed]:
        found = handed_losses(self._module)
        return [one for one in found if not self._learned.is_module(one.loss, one.scope)]

    @cached_property
    def listed(self) -> list[tuple[Handed, list[Filling]]]:
        """The calls that hand such a function lists of what modules computed, with what fills these."""
        found = (
            (one, list(filled_here(self._module, self._learned, one.loss.id, one.scope)))
            for one in self._all_handed
            if isinstance(one.loss, ast.Name) and not one.taker.is_whole
        )
        return [(one, filled) for one, filled in found if filled]

    def parameters(self, scope: Scope) -> frozenset[str]:
        """The parameters that a function makes a loss of; no modules, objects, or lists that others fill."""
        function = scope.function
        if function is None:
            return frozenset()
        name, listed = f"{self._module.name}.{function.qualname}", {one.taker for one, _ in self.listed}
        takers = {one for one in self._module.project.takers if one.function == name and not one.is_whole}
        given = {one.parameter for one in takers - listed}
        read = [node for node in ast.walk(function.node) if isinstance(node, ast.Name) and node.id in given]
        asked = ((node.id, self._module.parent(node)) for node in read)
        others = {
            name
            for name, around in asked
            if isinstance(around, ast.Attribute) and around.attr not in TENSOR_ATTRIBUTES | _OF_DICTIONARIES
        }
        modules = {node.id for node in read if self._learned.is_module(node, function)}
        return frozenset(given - others - modules)

    def _is_computed(self, value: ast.expr, scope: Scope) -> bool:
        """Whether a value is what modules compute, or is made of a variable that is bound to that."""
        if is_without_gradient(self._module, self._module.statement(value), scope):
            return False
        waiting: list[ast.expr] = [value]
        seen = {id(value)}
        while waiting:
            one = waiting.pop()
            if isinstance(one, ast.Name):
                found = self._module.names.lookup(one.id, scope)
                bound = (binding.value for binding in found[1]) if found is not None else ()
                unpacked = _unpacked(one.id, found[0]) if found is not None else ()
                new: list[ast.expr] = [made for made in (*bound, *unpacked) if isinstance(made, _COMPUTING)]
            elif gives_none_on(one) or self._is_of_training(one, scope):
                continue
            elif self._learned.within(one, scope) or self._learned.is_handed_on(one, scope):
                return True
            else:
                new = [node for node in ast.walk(one) if isinstance(node, ast.Name)]
            waiting += [node for node in new if id(node) not in seen]
            seen.update(map(id, new))
        return False

    def _is_of_training(self, value: ast.expr, scope: Scope) -> bool:
        """Whether a function that calls `backward` gives a value: it is trained, if anything."""
        own = own_function(self._module, value.func, scope) if isinstance(value, ast.Call) else None
        return id(own) in self._training

    @cached_property
    def _training(self) -> frozenset[int]:
        """The `id`s of the functions that call `backward`."""
        return frozenset(id(at.function) for _, at in backward_calls(self._module) if at.function is not None)


def _unpacked(name: str, scope: Scope) -> Iterator[ast.expr]:
    """The values of which a part is bound to a name, as in `losses, output = compute(x)`."""
    body = getattr(scope.node, "body", [])
    for statement in statements(body) if isinstance(body, list) else ():
        match statement:
            case ast.Assign(targets=[ast.Tuple(elts=elements)], value=value):
                if any(isinstance(one, ast.Name) and one.id == name for one in elements):
                    yield value
