"""Which calls compute with the parameters of modules, so that a gradient flows through them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Set
from functools import cached_property

from tpulint.knowledge.tensors import TENSOR_ATTRIBUTES
from tpulint.knowledge.training import MODULE_UPKEEP
from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import method_around, positional
from tpulint.model.names.scopes import Scope, ScopeKind
from tpulint.model.project.facts import FunctionFacts
from tpulint.model.syntax.effects import effects
from tpulint.model.training.called import is_differentiated, own_function
from tpulint.model.training.detached import is_number
from tpulint.model.training.leaves import listed, listed_by_name, makes_leaf, wants_gradients
from tpulint.model.training.naming import (
    asked_path,
    is_option,
    sounds_like_class,
    sounds_like_keeper,
    sounds_like_module,
    sounds_like_modules,
    sounds_like_upkeep,
)
from tpulint.model.values.kinds import Instance
from tpulint.model.values.typed_file import TypedFile

_PARAMETERS = ("parameters", "named_parameters")
_CONTAINERS = frozenset({"dict", "list", "tuple", "OrderedDict"})
#: What gives the module itself.
_SETS_MODE = ("eval", "train")
#: What is asked of a module and of hardly anything else.
_ASKED = (*_PARAMETERS, *_SETS_MODE)
_CLASSES_OF_PARAMETERS = ("torch.nn.Parameter", "torch.nn.parameter.Parameter")
#: The parameters of torch's modules.
_LEARNED = ("weight", "bias")
#: What is asked of a parameter that computes nothing.
_LOOKED_AT = frozenset(
    {"data", "grad", "requires_grad", "shape", "size", "ndim", "numel", "device", "dtype", "detach", "cpu"}
)
_OF_BUILTINS = frozenset({*dir(dict), *dir(list), *dir(str)})


class Learned:
    """Answers for one file.

    Calls of functions that JAX differentiates do not count: they hand their gradients on already.

    Args:
        module: the file.
        generous: whether calls that nobody knows count as well.
    """

    def __init__(self, module: TypedFile, *, generous: bool = False) -> None:
        self._module = module
        self._generous = generous
        self._called_in: dict[int, list[Scope | bool | None]] = {}
        self._leaves: dict[int, set[str]] = {}
        self._handing: dict[int, bool] = {}
        self._settled: dict[int, list[ast.Assign]] = {}

    def within(self, statement: ast.AST, scope: Scope, apart: Set[int] = frozenset()) -> bool:
        """Whether a statement calls what computes with the parameters of modules, nodes `apart` left out."""
        return any(
            isinstance(node, ast.Call) and id(node) not in apart and self.call(node, scope)
            for node in ast.walk(statement)
        )

    def goes_through_parameters(self, statement: ast.AST, scope: Scope) -> bool:
        """Whether a statement goes through the parameters of a module, as a penalty on weights does."""
        return any(
            isinstance(node, ast.For | ast.comprehension)
            and isinstance(node.iter, ast.Call)
            and isinstance(node.iter.func, ast.Attribute)
            and node.iter.func.attr in _PARAMETERS
            and self.is_module(node.iter.func.value, scope)
            for node in ast.walk(statement)
        )

    def reads_parameters(self, statement: ast.AST, scope: Scope) -> bool:
        """Whether a statement computes with a parameter of a module, as `users.weight @ x` does.

        So does what takes them for values to start from: `weights = dict(model.named_parameters())`.
        """
        return any(
            self._lists_parameters(node, scope)
            or (
                isinstance(node, ast.Attribute)
                and isinstance(node.ctx, ast.Load)
                and not _is_asked_about(self._module.parent(node))
                and self._is_parameter(node, scope)
            )
            for node in ast.walk(statement)
        )

    def _lists_parameters(self, node: ast.AST, scope: Scope) -> bool:
        match node:
            case ast.Assign(value=ast.Call(func=called, args=[ast.Call(func=ast.Attribute() as asked)])):
                is_container = (dotted(called) or "").rpartition(".")[2] in _CONTAINERS
                return is_container and asked.attr in _PARAMETERS and self.is_module(asked.value, scope)
        return False

    def _is_parameter(self, node: ast.Attribute, scope: Scope) -> bool:
        if node.attr in _LEARNED:
            return self.is_module(node.value, scope)
        kind = self._module.kind(node.value, scope)
        held = self._module.assignments.get((kind.cls, node.attr), ()) if isinstance(kind, Instance) else ()
        return any(
            isinstance(value, ast.Call)
            and self._module.names.qualified(value.func, at) in _CLASSES_OF_PARAMETERS
            for value, at in held
        )

    def leaves(self, scope: Scope) -> set[str]:
        """Tensors of the enclosing functions, or of the module, that gradients are asked for by name."""
        module = self._module.index.module
        # What a function binds to a plain name is none of other functions'.
        found = {name for name in self._leaves_in(module) if "." in name or name in module.bindings}
        function = scope.function
        while function is not None:
            found |= self._leaves_in(function)
            function = function.parent.function if function.parent is not None else None
        return found

    def _leaves_in(self, scope: Scope) -> set[str]:
        found = self._leaves.get(id(scope))
        if found is None:
            found = self._leaves[id(scope)] = set()
            for node in ast.walk(scope.node):
                if isinstance(node, ast.Assign | ast.AnnAssign) and makes_leaf(node):
                    found |= set(effects([node]).writes)
                elif isinstance(node, ast.For) and wants_gradients(node):
                    found |= set(effects(listed_by_name(node.iter, scope.node)).reads)
                elif isinstance(node, ast.Call) and node.args:
                    name = self._module.names.qualified(node.func, scope) or ""
                    if name.startswith("torch.optim."):
                        found |= set(effects(listed(node.args[0], self._bound(node.args[0], scope))).reads)
        return found

    @staticmethod
    def _bound(node: ast.expr, scope: Scope) -> list[ast.expr]:
        """What a name is bound to in its scope."""
        bindings = scope.bindings.get(node.id, ()) if isinstance(node, ast.Name) else ()
        return [binding.value for binding in bindings if binding.value is not None]

    def kept(self, statement: ast.stmt, scope: Scope) -> set[int]:
        """The `id`s of what a statement asks of objects that keep things, such as a replay buffer."""
        return {
            id(inner)
            for node in ast.walk(statement)
            if isinstance(node, ast.Call) and self._is_keeper(node.func, scope)
            for inner in ast.walk(node)
        }

    def _is_keeper(self, function: ast.expr, scope: Scope) -> bool:
        path = dotted(function.value) if isinstance(function, ast.Attribute) else None
        return (
            isinstance(function, ast.Attribute)
            and path is not None
            and sounds_like_keeper(path)
            and not self._is_module_kind(function.value, scope)
        )

    def is_settled(self, statement: ast.stmt, scope: Scope) -> bool:
        """Whether a statement calls a function that hands its gradients on already, and nothing else."""
        return isinstance(statement, ast.Assign) and self.is_handed_on(statement.value, scope)

    def given(self, statement: ast.stmt, scope: Scope) -> set[str]:
        """What such a statement binds, unless it is a number, as the action is that is drawn."""
        written = set(effects([statement]).writes)
        value = statement.value if isinstance(statement, ast.Assign) else None
        own = own_function(self._module, value.func, scope) if isinstance(value, ast.Call) else None
        if own is None:
            return written
        returned = [node.value for node in ast.walk(own.node) if isinstance(node, ast.Return) and node.value]
        return written if not all(map(is_number, returned)) else set()

    def is_handed_on(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a call of such a function, or of one that gets all from such."""
        own = own_function(self._module, node.func, scope) if isinstance(node, ast.Call) else None
        return own is not None and (is_differentiated(self._module, own) or self._hands_on(own))

    def _hands_on(self, function: Scope) -> bool:
        """Whether a function calls one that hands its gradients on, and computes with no module beside."""
        if id(function) not in self._handing:
            self._handing[id(function)] = False  # of one that calls itself
            calls = self._calls.get(id(function), ())
            self._handing[id(function)] = any(
                self.is_handed_on(call, scope) for call, scope in calls
            ) and not self._computes(function)
        return self._handing[id(function)]

    def is_drawn(self, value: ast.expr, scope: Scope) -> bool:
        """Whether a value is drawn from a distribution, as `dist.sample()` is, which bears no gradient.

        So is what methods make of that, as in `dist.sample().clamp(-1, 1)`.
        """
        while isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute):
            if value.func.attr == "sample":
                return not self.is_module(value.func.value, scope)
            value = value.func.value
        return False

    def handed_on(self, before: ast.stmt, scope: Scope) -> set[str]:
        """What the enclosing function got from such calls above a statement."""
        around = scope.function or self._module.index.module
        settled = self._settled.get(id(scope))
        if settled is None:
            assigned = (node for node in ast.walk(around.node) if isinstance(node, ast.Assign))
            settled = self._settled[id(scope)] = [one for one in assigned if self.is_settled(one, scope)]
        earlier = (statement for statement in settled if statement.lineno < before.lineno)
        return {name for statement in earlier for name in effects([statement]).writes}

    def call(self, call: ast.Call, scope: Scope) -> bool:
        """Whether a call computes with the parameters of modules."""
        found = self._called(call, scope)
        if isinstance(found, Scope):
            if self._computes(found):
                return True
            # The object may be one of another class all the same.
            found = None if found is not own_function(self._module, call.func, scope) else False
        if found is None:
            return self._generous and self._is_unknown(call.func, scope)
        return found

    def _called(self, call: ast.Call, scope: Scope) -> Scope | bool | None:
        """Whether a call itself is one of a module; else the function of this file that it calls, if any."""
        function = call.func
        base = function.value if isinstance(function, ast.Attribute) else None
        own = own_function(self._module, function, scope) or self._of_object(function, scope)
        if own is not None and is_differentiated(self._module, own):
            return False
        if own is not None and _is_left_open(own):
            own = None  # what other classes put in its place may be anything
        facts = _facts(self._module, call, scope)
        if facts is not None and facts.trains_apart:
            return False
        if isinstance(function, ast.Attribute) and (
            function.attr in MODULE_UPKEEP or sounds_like_upkeep(function.attr)
        ):
            # The `step` of a trainer may be that of the optimizer, or what gives the loss.
            return own if own is not None and _gives_value(own) else False
        if self.is_module(function, scope) or (base is not None and self.is_module(base, scope)):
            return True
        if self._is_of_project(function, scope) and not self._is_class(function, scope):
            arguments = (*call.args, *(keyword.value for keyword in call.keywords))
            if any(self._is_given_module(argument, scope) for argument in arguments):
                return True
        return own

    def _is_given_module(self, argument: ast.expr, scope: Scope) -> bool:
        """Whether an argument is a module; `args.model` names one."""
        if is_option(dotted(argument) or ""):
            return self.is_surely_module(argument, scope)
        return self.is_module(argument, scope)

    def _of_object(self, function: ast.expr, scope: Scope) -> Scope | None:
        """The method of a class of this file that a call of an object means, as of a feature extractor."""
        module, method = self._module, "__call__"
        kind = module.kind(function, scope)
        if isinstance(function, ast.Attribute) and not isinstance(kind, Instance):
            kind, method = module.kind(function.value, scope), function.attr
        if not isinstance(kind, Instance) or module.project.is_module_class(kind.cls):
            return None
        name = module.project.method(module.project.resolve(kind.cls), method)
        return module.functions.get(name) if name is not None else None

    def _is_class(self, function: ast.expr, scope: Scope) -> bool:
        """Whether a callee is a class, whose instances may compute, but later."""
        name = self._module.names.qualified(function, scope)
        project = self._module.project
        return name is not None and project.class_(project.resolve(name)) is not None

    def _is_of_project(self, function: ast.expr, scope: Scope) -> bool:
        """Whether a callee is the project's own, or a variable."""
        name = self._module.names.qualified(function, scope)
        if name is None:
            return not _is_of_text(function)
        return self._module.project.home(name) is not None

    def _is_unknown(self, function: ast.expr, scope: Scope) -> bool:
        """Whether a callee may be anything: no library's function, no method of a tensor or builtin."""
        if not self._is_of_project(function, scope) or self._is_class(function, scope):
            return False
        if isinstance(function, ast.Attribute):
            return function.attr not in TENSOR_ATTRIBUTES | _OF_BUILTINS
        return True

    def is_module(self, node: ast.expr, scope: Scope) -> bool:
        """Whether an expression is a module, by what is known of it, asked of it, or by its name."""
        if isinstance(node, ast.Subscript):
            return self._is_entry(node, scope)
        path = dotted(node)
        if path is None:
            made = node.func if isinstance(node, ast.Call) else None
            return made is not None and self._is_module_kind(node, scope)
        if path == "self":
            owner = method_around(scope)
            cls = owner.owner if owner is not None else None
            project = self._module.project
            return cls is not None and project.is_module_class(f"{self._module.name}.{cls.qualname}")
        if self.is_surely_module(node, scope):
            return True
        if isinstance(node, ast.Name) and sounds_like_class(node.id):
            return False
        found = self._module.names.qualified(node, scope)
        if found is not None and not found.startswith(f"{self._module.name}."):
            return False
        return not self._is_other(node, scope) and sounds_like_module(path)

    def is_surely_module(self, node: ast.expr, scope: Scope) -> bool:
        """Whether a name is that of a module by more than how it sounds."""
        return self._is_module_kind(node, scope) or self._is_asked(dotted(node) or "", scope)

    def _is_entry(self, node: ast.Subscript, scope: Scope) -> bool:
        """Whether a part of something is a module, as `self.models["encoder"]` and `nets[0]` are."""
        path, key = dotted(node.value), node.slice
        if path is None or isinstance(key, ast.Slice | ast.Tuple) or self._module.kind(node, scope).is_tensor:
            return False
        if self._is_module_kind(node, scope) or self._is_asked(asked_path(node) or "", scope):
            return True
        is_told = isinstance(key, ast.Constant) and isinstance(key.value, str)
        return sounds_like_modules(path, is_one=is_told)

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

    def _is_asked(self, path: str, scope: Scope) -> bool:
        """Whether the file asks something, as it is called in a scope, what only modules know."""
        places = self._asked.get(path)
        if places is None:
            return False
        name = re.split(r"[.\[]", path)[0]
        found = self._module.names.lookup(name, scope)
        # What is handed over is most likely called the same where it comes from.
        return found is None or id(found[0]) in places or name in positional(found[0])

    @cached_property
    def _asked(self) -> dict[str, set[int]]:
        """Dotted names of which the file asks what only modules know, with the `id`s of their scopes."""
        asked: dict[str, set[int]] = {}
        for asks in _ASKED:
            for call, scope in self._module.index.calls.get(asks, ()):
                function = call.func if isinstance(call, ast.Call) else None
                path = asked_path(function.value) if isinstance(function, ast.Attribute) else None
                if path is None and asks in _SETS_MODE:
                    path = self._bound_to(call)
                if path is not None and path != "self":
                    name = re.split(r"[.\[]", path)[0]
                    found = self._module.names.lookup(name, scope)
                    asked.setdefault(path, set()).add(id(found[0]) if found is not None else 0)
        return asked

    def _bound_to(self, node: ast.AST) -> str | None:
        """What is bound to what is made of something, as `teacher` is to `build(args).eval().cuda()`."""
        around = self._module.parent(node)
        while isinstance(around, ast.Attribute) or (isinstance(around, ast.Call) and around.func is node):
            node, around = around, self._module.parent(around)
        is_one = isinstance(around, ast.Assign) and len(around.targets) == 1 and around.value is node
        return dotted(around.targets[0]) if isinstance(around, ast.Assign) and is_one else None

    def _computes(self, function: Scope) -> bool:
        """Whether a function calls modules, or other functions of this file that do."""
        waiting, seen = [function], {id(function)}
        while waiting:
            calls = self._inner_calls(waiting.pop())
            if True in calls:
                return True
            fresh = [called for called in calls if isinstance(called, Scope) and id(called) not in seen]
            seen.update(map(id, fresh))
            waiting += fresh
        return False

    def _inner_calls(self, function: Scope) -> list[Scope | bool | None]:
        known = self._called_in.get(id(function))
        if known is None:
            known = [self._called(node, place) for node, place in self._calls.get(id(function), ())]
            self._called_in[id(function)] = known
        return known

    @cached_property
    def _calls(self) -> dict[int, list[tuple[ast.Call, Scope]]]:
        """The calls within each function, those of the functions in it among them, but without gradients."""
        found: dict[int, list[tuple[ast.Call, Scope]]] = {}
        apart = {id(node) for block in self._without_gradient() for node in ast.walk(block)}
        for node, place in self._module.index.nodes[ast.Call]:
            if not isinstance(node, ast.Call) or id(node) in apart:
                continue
            current: Scope | None = place
            while current is not None and current.kind is not ScopeKind.MODULE:
                found.setdefault(id(current), []).append((node, place))
                current = current.parent
        return found

    def _without_gradient(self) -> Iterator[ast.With]:
        """The blocks that are within `torch.no_grad()` or the like."""
        names = self._module.names
        for name in ("no_grad", "inference_mode"):
            for call, scope in self._module.index.calls.get(name, ()):
                item = self._module.parent(call)
                block = self._module.parent(item) if isinstance(item, ast.withitem) else None
                called = names.qualified(call.func, scope) if isinstance(call, ast.Call) else None
                if isinstance(block, ast.With) and called == f"torch.{name}":
                    yield block


def _is_of_text(function: ast.expr) -> bool:
    """Whether a callee is a method of a text that is written there, as `"{}".format` is."""
    value = function.value if isinstance(function, ast.Attribute) else None
    return isinstance(value, ast.JoinedStr | ast.Constant)


def _is_asked_about(around: ast.AST | None) -> bool:
    """Whether what is around a parameter only looks at it, or makes it ready."""
    return isinstance(around, ast.Attribute) and (around.attr in _LOOKED_AT or around.attr.endswith("_"))


def _gives_value(function: Scope) -> bool:
    """Whether a function returns something, but for itself."""
    return any(
        isinstance(node, ast.Return) and node.value is not None and not _is_self(node.value)
        for node in ast.walk(function.node)
    )


def _is_left_open(function: Scope) -> bool:
    """Whether a method is there for classes that are made of its own to define: it says no more than that."""
    body = getattr(function.node, "body", ()) if function.owner is not None else ()
    return bool(body) and all(
        isinstance(one, ast.Pass | ast.Raise)
        or (isinstance(one, ast.Expr) and isinstance(one.value, ast.Constant))
        for one in body
    )


def _is_self(node: ast.expr) -> bool:
    return isinstance(node, ast.Name) and node.id == "self"


def infers(module: TypedFile, value: ast.expr | None, scope: Scope) -> bool:
    """Whether a value is what a function or method of the project gives that keeps no gradients."""
    facts = _facts(module, value, scope) if isinstance(value, ast.Call) else None
    return facts is not None and facts.infers


def _facts(module: TypedFile, call: ast.Call, scope: Scope) -> FunctionFacts | None:
    """What is known of the function or method of the project that is called."""
    project = module.project
    name = module.names.qualified(call.func, scope)
    if name is None and isinstance(call.func, ast.Attribute):
        kind = module.kind(call.func.value, scope)
        made = [kind] if isinstance(kind, Instance) else _made(module, call.func.value, scope)
        found = [project.method(project.resolve(one.cls), call.func.attr) for one in made]
        name = found[0] if len(found) == 1 else None
    return project.function(project.resolve(name)) if name is not None else None


def _made(module: TypedFile, node: ast.expr, scope: Scope) -> list[Instance]:
    """The instances that a name is bound to, beside None."""
    found = module.names.lookup(node.id, scope) if isinstance(node, ast.Name) else None
    values = [b.value for b in found[1] if b.value is not None] if found is not None else []
    kinds = [module.kind(value, found[0]) for value in values] if found is not None else []
    return [kind for kind in kinds if isinstance(kind, Instance)]
