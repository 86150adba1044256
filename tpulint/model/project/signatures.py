"""What a function's signature and decorators tell of it."""

from __future__ import annotations

import ast
import re

from tpulint.knowledge.tracing import OF_MODULES, is_device_word
from tpulint.model.names.annotations import qualified_text
from tpulint.model.names.evidence import is_surely_tensor
from tpulint.model.names.qualified import Names
from tpulint.model.names.scopes import FunctionNode, Scope, ScopeKind, parameters

#: Annotations of plain numbers, which may stand before the tensor that a function is about.
_NUMBERS = frozenset({"builtins.int", "builtins.float", "builtins.bool"})

#: Words in the annotations of sizes, of numbers, and of how a tensor is to be made.
_SIZES = frozenset(
    {
        *("int", "float", "bool", "tuple", "Tuple", "list", "List", "Sequence", "Optional", "Union", "None"),
        *("torch", "typing", "dtype", "Size"),
    }
)
_WORD = re.compile(r"\w+")


def is_offered(scope: Scope, returns: str) -> bool:
    """Whether a function is public and gives something back."""
    node, outer = scope.node, scope.parent
    if isinstance(node, ast.Lambda) or outer is None or returns == "None":
        return False
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if outer.kind not in (ScopeKind.MODULE, ScopeKind.CLASS):
        return False
    return not node.name.startswith("_") or node.name == "__call__"


def first_taken(scope: Scope, names: Names) -> str:
    """The annotation of a function's first parameter that is more than a plain number; "" for none.

    The first parameter of a public function that bears none is a tensor where its use says so.
    """
    outer = scope.parent
    for argument in _given(scope) if outer is not None else ():
        if argument.annotation is None or outer is None:
            public = outer is not None and outer.kind is ScopeKind.MODULE and not scope.name.startswith("_")
            return "torch.Tensor" if public and is_surely_tensor(scope, argument.arg, names) else ""
        text = qualified_text(argument.annotation, outer, names)
        if text not in _NUMBERS:
            return text
    return ""


def makes_on_device(scope: Scope) -> bool:
    """Whether a function of the module takes a device, and nothing else but sizes, numbers and dtypes."""
    node = scope.node
    if not isinstance(node, ast.FunctionDef) or scope.owner is not None or node.returns is None:
        return False
    given = _given(scope)
    others = [argument for argument in given if not is_device_word(argument.arg)]
    return len(others) < len(given) and all(
        argument.annotation is not None and _SIZES.issuperset(_WORD.findall(ast.unparse(argument.annotation)))
        for argument in others
    )


def infers(scope: Scope, names: Names) -> bool:
    """Whether a function is decorated to keep no gradients."""
    node, outer = scope.node, scope.parent
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or outer is None:
        return False
    decorators = (d.func if isinstance(d, ast.Call) else d for d in node.decorator_list)
    return any(names.qualified(d, outer) in ("torch.no_grad", "torch.inference_mode") for d in decorators)


def takes_module(scope: Scope) -> bool:
    """Whether a function uses a parameter as a module."""
    return any(not OF_MODULES.isdisjoint(scope.evidence.get(a.arg, ())) for a in _given(scope))


def _given(scope: Scope) -> list[ast.arg]:
    assert isinstance(scope.node, FunctionNode)
    return [argument for argument in parameters(scope.node) if argument.arg not in ("self", "cls")]
