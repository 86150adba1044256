"""Which calls compute with the parameters of modules, so that a gradient flows through them."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING

from tpulint.knowledge.tensors import TENSOR_ATTRIBUTES
from tpulint.knowledge.training import MODULE_UPKEEP
from tpulint.model.kinds import Instance
from tpulint.model.references import method_around
from tpulint.model.scopes import Scope, ScopeKind
from tpulint.model.training.effects import effects

if TYPE_CHECKING:
    from tpulint.model.module import Module

#: What is asked of a module and of hardly anything else.
_ASKED = frozenset(
    {"parameters", "named_parameters", "state_dict", "load_state_dict", "zero_grad", "eval", "train"}
)
#: What people call a module that is handed to a function.
_NAMED = re.compile(
    r"(^|_)(model|net|network|module|encoder|decoder|generator|discriminator|critic|actor|policy|backbone"
    r"|unet|vae|gan|transformer|classifier|student|[a-z]*net_?[a-z]?|(?-i:[GD]))\d*(_|$)",
    re.IGNORECASE,
)
#: How people write the names of classes.
_CLASS = re.compile(r"[A-Z]+[a-z]+[A-Za-z]*$")
#: What people call an object that keeps what it is given.
_KEEPER = re.compile(r"buffer|pool|queue|memory|replay|history|meter|bank", re.IGNORECASE)
#: How methods of modules are called that make ready, rather than compute.
_MAKES_READY = (
    "init",
    "reset",
    "get_num",
    "set_",
    "configure",
    "load",
    "save",
    "freeze",
    "unfreeze",
    "print",
    "log",
)
_OF_BUILTINS = frozenset({*dir(dict), *dir(list), *dir(str)})
_DEPTH = 4


class Learned:
    """Answers for one file.

    Args:
        module: the file.
        settled: whether a function of it hands its gradients on already, so that its calls do not count.
        generous: whether calls that nobody knows count as well.
    """

    def __init__(self, module: Module, settled: Callable[[Scope], bool], *, generous: bool = False) -> None:
        self._module = module
        self._settled = settled
        self._generous = generous
        self._seen: set[int] = set()

    def within(self, statement: ast.AST, scope: Scope) -> bool:
        """Whether a statement calls what computes with the parameters of modules."""
        return any(self.call(node, scope) for node in ast.walk(statement) if isinstance(node, ast.Call))

    def leaves(self, scope: Scope) -> set[str]:
        """Tensors of the enclosing function, or of the module, that gradients are asked for by name."""
        found: set[str] = set()
        for place in (scope.function or self._module.index.module, self._module.index.module):
            for node in ast.walk(place.node):
                if isinstance(node, ast.Assign | ast.AnnAssign) and makes_leaf(node):
                    found |= set(effects([node]).writes)
                elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.List):
                    name = self._module.names.qualified(node.func, scope) or ""
                    if name.startswith("torch.optim."):
                        found |= set(effects(node.args[0].elts).reads)
        return found

    def keeps(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether a statement hands something to an object that keeps it, such as a replay buffer."""
        for node in ast.walk(statement):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                path = dotted(node.func.value)
                if (
                    path is not None
                    and _KEEPER.search(path)
                    and not self._is_module_kind(node.func.value, scope)
                ):
                    return True
        return False

    def is_settled(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether a statement calls a function that hands its gradients on already, and nothing else."""
        return isinstance(statement, ast.Assign) and self.is_handed_on(statement.value, scope)

    def is_handed_on(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a call of such a function."""
        own = self._own(node.func, scope) if isinstance(node, ast.Call) else None
        return own is not None and self._settled(own)

    def handed_on(self, before: ast.stmt, scope: Scope) -> set[str]:
        """What the enclosing function got from such calls above a statement."""
        around = (scope.function or self._module.index.module).node
        return {
            name
            for statement in ast.walk(around)
            if isinstance(statement, ast.Assign)
            and statement.lineno < before.lineno
            and self.is_settled(statement, scope)
            for name in effects([statement]).writes
        }

    def call(self, call: ast.Call, scope: Scope, depth: int = 0) -> bool:
        """Whether a call computes with the parameters of modules."""
        function = call.func
        if isinstance(function, ast.Attribute) and (
            function.attr in MODULE_UPKEEP or function.attr.startswith(_MAKES_READY)
        ):
            return False
        own = self._own(function, scope)
        if own is not None and self._settled(own):
            return False
        if self.is_module(function, scope):
            return True
        base = function.value if isinstance(function, ast.Attribute) else None
        if base is not None and self.is_module(base, scope):
            return True
        if self._is_of_project(function, scope):
            arguments = (*call.args, *(keyword.value for keyword in call.keywords))
            if any(self.is_module(argument, scope) for argument in arguments):
                return True
        if own is not None:
            return depth < _DEPTH and self._computes(own, depth + 1)
        return self._generous and not depth and self._is_unknown(function, scope)

    def _is_of_project(self, function: ast.expr, scope: Scope) -> bool:
        """Whether a callee is the project's own, or a variable."""
        name = self._module.names.qualified(function, scope)
        if name is None:
            return True
        head = name.partition(".")[0]
        return head in self._module.project.modules or self._module.project.split(name) is not None

    def _is_unknown(self, function: ast.expr, scope: Scope) -> bool:
        """Whether a callee may be anything: no library's function, no method of a tensor or builtin."""
        if not self._is_of_project(function, scope):
            return False
        if isinstance(function, ast.Attribute):
            return function.attr not in TENSOR_ATTRIBUTES | _OF_BUILTINS
        return True

    def is_module(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a module, by what is known of it, asked of it, or by its name."""
        path = dotted(node)
        if path is None:
            made = node.func if isinstance(node, ast.Call) else None
            return made is not None and self._is_module_kind(node, scope)
        if path == "self":
            owner = method_around(scope)
            cls = owner.owner if owner is not None else None
            project = self._module.project
            return cls is not None and project.is_module_class(f"{self._module.name}.{cls.qualname}")
        if self._is_module_kind(node, scope) or path in self._asked:
            return True
        if isinstance(node, ast.Name) and _CLASS.match(node.id):
            return False
        found = self._module.names.qualified(node, scope)
        if found is not None and not found.startswith(f"{self._module.name}."):
            return False
        return not self._is_other(node, scope) and bool(_NAMED.search(path.rpartition(".")[2]))

    def _is_module_kind(self, node: ast.expr, scope: Scope) -> bool:
        kind = self._module.kind(node, scope)
        return isinstance(kind, Instance) and self._module.project.is_module_class(kind.cls)

    def _is_other(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is known to be something else: a function, a class, a tensor."""
        kind = self._module.kind(node, scope)
        if kind.is_tensor or isinstance(kind, Instance):
            return True
        found = self._module.names.lookup(node.id, scope) if isinstance(node, ast.Name) else None
        return found is not None and all(binding.node is not None or binding.target for binding in found[1])

    @cached_property
    def _asked(self) -> frozenset[str]:
        """Dotted names of which the file asks what only modules know, the optimizers' left out."""
        asked: dict[str, set[str]] = {}
        for name in _ASKED:
            for call, _ in self._module.index.calls.get(name, ()):
                if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute):
                    path = dotted(call.func.value)
                    if path is not None:
                        asked.setdefault(path, set()).add(name)
        sure = {"parameters", "named_parameters", "eval", "train"}
        return frozenset(path for path, names in asked.items() if names & sure and path != "self")

    def _own(self, function: ast.expr, scope: Scope) -> Scope | None:
        """The function of this file that is called, where there is just one."""
        return own_function(self._module, function, scope)

    def _computes(self, function: Scope, depth: int) -> bool:
        if id(function) in self._seen:
            return False
        self._seen.add(id(function))
        try:
            return any(
                self.call(node, place, depth)
                for node, place in self._module.index.nodes[ast.Call]
                if isinstance(node, ast.Call) and _lies_in(place, function)
            )
        finally:
            self._seen.discard(id(function))


def own_function(module: Module, function: ast.expr, scope: Scope) -> Scope | None:
    """The scope of the function of this file that a callee means: a plain name, or a method of `self`."""
    node: ast.AST | None = None
    if isinstance(function, ast.Name):
        found = module.names.lookup(function.id, scope)
        nodes = [binding.node for binding in found[1]] if found is not None else []
        node = nodes[0] if len(nodes) == 1 else None
    elif isinstance(function, ast.Attribute) and _is_self(function.value):
        method = method_around(scope)
        if method is not None and method.owner is not None:
            name = module.project.method(f"{module.name}.{method.owner.qualname}", function.attr)
            return next((s for s in module.index.functions if f"{module.name}.{s.qualname}" == name), None)
    return next((s for s in module.index.functions if s.node is node), None) if node is not None else None


def dotted(node: ast.AST) -> str | None:
    """A plain or dotted name as text."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        head = dotted(node.value)
        return f"{head}.{node.attr}" if head is not None else None
    return None


def makes_leaf(statement: ast.stmt) -> bool:
    """Whether a statement makes a tensor whose gradient is wanted: `torch.zeros(3, requires_grad=True)`."""
    node = statement.value if isinstance(statement, ast.Assign | ast.AnnAssign | ast.Expr) else None
    if not isinstance(node, ast.Call):
        return False
    called = node.func.attr if isinstance(node.func, ast.Attribute) else dotted(node.func) or ""
    wanted = any(
        keyword.arg == "requires_grad"
        and isinstance(keyword.value, ast.Constant)
        and keyword.value.value is True
        for keyword in node.keywords
    )
    return wanted or called in ("requires_grad_", "Parameter")


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def _lies_in(scope: Scope, function: Scope) -> bool:
    current: Scope | None = scope
    while current is not None:
        if current is function:
            return True
        if current.kind is ScopeKind.MODULE:
            return False
        current = current.parent
    return False
