"""What a function's signature and decorators tell of it."""

from __future__ import annotations

import ast
import re

from tpulint.knowledge.tracing import OF_MODULES, is_device_word
from tpulint.knowledge.training import MODULE_UPKEEP
from tpulint.model.names.annotations import qualified_text
from tpulint.model.names.evidence import is_surely_tensor
from tpulint.model.names.index import Index
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


def training_apart(index: Index) -> set[int]:
    """Functions that call `backward`, and after that no module that they are given or hold, by identity.

    What such a function gives, as an attack gives an image, bears no gradients of its own.
    """
    last: dict[int, tuple[Scope, int]] = {}
    for call, scope in index.calls.get("backward", ()):
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute) or call.args:
            continue
        around = scope.function
        while around is not None:
            last[id(around)] = around, max(call.lineno, last.get(id(around), (around, 0))[1])
            around = around.parent.function if around.parent is not None else None
    return {key for key, (scope, row) in last.items() if not _computes_after(scope, row)}


def _computes_after(scope: Scope, row: int) -> bool:
    given = {argument.arg for argument in _given(scope)}
    return any(
        isinstance(node, ast.Call)
        and node.lineno > row
        and (
            (isinstance(node.func, ast.Name) and node.func.id in given)
            or (
                isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "self"
                and node.func.attr not in MODULE_UPKEEP
            )
        )
        for node in ast.walk(scope.node)
    )


def _given(scope: Scope) -> list[ast.arg]:
    assert isinstance(scope.node, FunctionNode)
    return [argument for argument in parameters(scope.node) if argument.arg not in ("self", "cls")]
