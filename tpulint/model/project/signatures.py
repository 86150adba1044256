"""What a function's signature and decorators tell of it."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Container

from tpulint.knowledge.tensors import READS, TENSOR_ATTRIBUTES, TENSOR_LIKELY
from tpulint.knowledge.tracing import OF_MODULES, is_device_word
from tpulint.knowledge.training import MODULE_UPKEEP
from tpulint.model.names.annotations import qualified_text
from tpulint.model.names.docstrings import documented_tensors
from tpulint.model.names.evidence import attributes_of
from tpulint.model.names.index import Index
from tpulint.model.names.operands import Uses, sure_tensors
from tpulint.model.names.qualified import Names
from tpulint.model.names.references import defaults
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
#: Packages whose functions compute with no module that they are handed.
_LIBRARIES = frozenset({"torch", "numpy", "math"})
#: Functions of them, and of Python, that do.
_CALLS_WHAT_IT_IS_GIVEN = frozenset({"functional_call", "checkpoint", "checkpoint_sequential", "vmap", "map"})
_WORD, _PATH = re.compile(r"\w+"), re.compile(r"[\w.]+")
#: What a function gives that is not traced: texts and numbers of Python, and what holds them.
_ON_HOST = frozenset(
    {
        *(
            f"builtins.{kind}"
            for kind in ("str", "bytes", "int", "float", "bool", "list", "tuple", "dict", "set")
        ),
        *(f"typing.{kind}" for kind in ("List", "Tuple", "Dict", "Set", "Optional", "Union")),
        *("numpy.ndarray", "None"),
    }
)
#: Of these it is not said what they hold.
_BARE = frozenset(
    {"builtins.list", "builtins.tuple", "builtins.dict", "typing.List", "typing.Tuple", "typing.Dict"}
)


def declared(scope: Scope, names: Names) -> str:
    """What a function says that it gives; "" if nothing, or a tensor of which it gives the number."""
    node = scope.node
    assert isinstance(node, FunctionNode)
    if isinstance(node, ast.Lambda) or node.returns is None or scope.parent is None:
        return ""
    text = qualified_text(node.returns, scope.parent, names)
    if text != "torch.Tensor":
        return text
    return "" if scope.returned and all(map(_is_read_out, scope.returned)) else text


def _is_read_out(value: ast.expr | None) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in READS


def _is_of_host(returns: str) -> bool:
    return bool(returns) and returns not in _BARE and _ON_HOST.issuperset(_PATH.findall(returns))


def _reads_out(scope: Scope, names: Names) -> bool:
    """Whether all that a function gives was copied to the host: arrays, numbers, lists and pictures."""
    return bool(scope.returned) and all(_is_copied(value, scope, names) for value in scope.returned)


def _is_copied(value: ast.expr | None, scope: Scope, names: Names, *, follow: bool = True) -> bool:
    match value:
        case ast.Tuple(elts=items) if items:
            return all(_is_copied(item, scope, names, follow=follow) for item in items)
        case ast.Name(id=name) if follow:
            bound = [binding.value for binding in scope.bindings.get(name, ())]
            return bool(bound) and all(_is_copied(one, scope, names, follow=False) for one in bound)
        case ast.Call(func=function):
            called = names.qualified(function, scope) or ""
            is_read = isinstance(function, ast.Attribute) and function.attr in ("numpy", "tolist", "item")
            return is_read or called.startswith(("numpy.", "PIL.", "cv2.", "pandas."))
    return False


def is_offered(scope: Scope, returns: str, names: Names) -> bool:
    """Whether a function is public and gives something back that may be traced."""
    node, outer = scope.node, scope.parent
    if isinstance(node, ast.Lambda) or outer is None or _is_of_host(returns):
        return False
    if not returns and _reads_out(scope, names):
        return False
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    if outer.kind not in (ScopeKind.MODULE, ScopeKind.CLASS):
        return False
    return not node.name.startswith("_") or node.name == "__call__"


def first_taken(scope: Scope, names: Names, tensors: Container[str]) -> str:
    """The annotation of a function's first parameter that is more than a plain number; "" for none.

    The first parameter of a public function that bears none is a tensor where its use says so.
    """
    outer = scope.parent
    for argument in _given(scope) if outer is not None else ():
        if argument.annotation is None or outer is None:
            public = outer is not None and outer.kind is ScopeKind.MODULE and not scope.name.startswith("_")
            return "torch.Tensor" if public and argument.arg in tensors else ""
        text = qualified_text(argument.annotation, outer, names)
        if text not in _NUMBERS:
            return text
    return ""


def tensor_parameters(scope: Scope, used: Uses, names: Names) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The parameters without annotation, and those that are declared, or by their use, surely tensors."""
    node, outer = scope.node, scope.parent
    if not isinstance(node, ast.FunctionDef) or outer is None:
        return (), ()
    sure = sure_tensors(scope, used, names) | {
        name for name in documented_tensors(scope) if attributes_of(scope, name) <= TENSOR_ATTRIBUTES
    }
    constant = {
        name
        for name, default in defaults(node.args)
        if default is not None and not (isinstance(default, ast.Constant) and default.value is None)
    }
    undeclared = tuple(a.arg for a in _given(scope) if a.annotation is None and a.arg not in constant)
    declared = (
        a.arg
        for a in _given(scope)
        if a.annotation is not None and _is_tensor(qualified_text(a.annotation, outer, names))
    )
    return undeclared, (*declared, *(name for name in undeclared if name in sure))


def _is_tensor(text: str) -> bool:
    return text == "torch.Tensor" or text == "typing.Optional[torch.Tensor]"


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
    """Functions that call `backward`, and after that nothing that may compute with a module, by identity.

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
    return {key for key, (scope, row) in last.items() if not _computes_after(scope, row, index.module)}


def _computes_after(scope: Scope, row: int, module: Scope) -> bool:
    """Whether a function calls, below a row, what may be a module or a method of one, or is handed one."""
    nodes = list(ast.walk(scope.node))
    numbers = {
        name.id
        for node in nodes
        if isinstance(node, ast.BinOp | ast.AugAssign | ast.Compare)
        for name in ast.iter_child_nodes(node)
        if isinstance(name, ast.Name)
    }
    given = {
        argument.arg
        for argument in _given(scope)
        if argument.arg not in numbers and TENSOR_LIKELY.isdisjoint(scope.evidence.get(argument.arg, ()))
    }
    given |= {"self", "cls"}
    for name, bindings in scope.bindings.items():
        values = [binding.value for binding in bindings]
        if any(value is not None and _root(value) in given for value in values):
            given.add(name)
    for node in nodes:
        if not isinstance(node, ast.Call) or node.lineno <= row:
            continue
        function = node.func
        called = _root(function)
        if called is None or (isinstance(function, ast.Attribute) and function.attr in MODULE_UPKEEP):
            continue
        if called in given or _is_kept_outside(called, scope):
            return True
        if isinstance(function, ast.Name) and any(one.value for one in scope.bindings.get(called, ())):
            return True
        if not _is_of_library(function, called, module):
            handed = [_root(one) for one in (*node.args, *(keyword.value for keyword in node.keywords))]
            if any(one is not None and (one in given or _is_kept_outside(one, scope)) for one in handed):
                return True
    return False


def _is_kept_outside(name: str, scope: Scope) -> bool:
    """Whether a name is that of what is bound around a function: no definition, no import and no number."""
    around: Scope | None = scope
    while around is not None and name not in around.bindings:
        around = around.parent
    return (around is not None and around is not scope) and any(
        one.target is None and one.node is None and not isinstance(one.value, ast.Constant)
        for one in around.bindings[name]
    )


def _is_of_library(function: ast.expr, root: str, module: Scope) -> bool:
    """Whether a callee computes with no module that it is handed."""
    last = function.attr if isinstance(function, ast.Attribute) else root
    bound = module.bindings.get(root)
    if last in _CALLS_WHAT_IT_IS_GIVEN:
        return False
    if bound is None:
        return hasattr(builtins, root)
    return all((binding.target or "").split(".")[0] in _LIBRARIES for binding in bound)


def _root(value: ast.expr) -> str | None:
    """The name that attributes and items are taken of."""
    while isinstance(value, ast.Attribute | ast.Subscript | ast.Starred):
        value = value.value
    return value.id if isinstance(value, ast.Name) else None


def _given(scope: Scope) -> list[ast.arg]:
    assert isinstance(scope.node, FunctionNode)
    return [argument for argument in parameters(scope.node) if argument.arg not in ("self", "cls")]
