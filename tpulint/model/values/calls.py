"""Inference of calls: of torch, NumPy, the project's own functions and classes, and methods."""

from __future__ import annotations

import ast
from dataclasses import replace

from tpulint.knowledge.pictures import GIVE_ALIKE
from tpulint.knowledge.tensors import (
    BOOLEAN,
    SEVERAL_OUTPUTS,
    TENSOR_ONLY,
)
from tpulint.knowledge.torch_api import METHODS
from tpulint.knowledge.tracing import ENVIRONMENTS
from tpulint.model.values.builtin_calls import builtin_call
from tpulint.model.values.expressions import Expressions
from tpulint.model.values.kinds import (
    ARRAY,
    DATA,
    STATIC,
    TENSOR,
    TENSORS,
    UNKNOWN,
    Array,
    Data,
    Device,
    Instance,
    Kind,
    Several,
    Static,
    Tensor,
    Unknown,
    joined,
    made_on_host,
    placed_as,
)
from tpulint.model.values.torch_calls import ON_HOST, made_at, tensor_method, torch_call
from tpulint.model.values.typed_file import Environment

#: Methods of modules that give the module.
_GIVE_THEMSELVES = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_"}
)
_ASK_CLASS = frozenset({"builtins.isinstance", "torch.is_tensor"})


def call_kind(self: Expressions, node: ast.Call, env: Environment) -> Kind:
    """The kind that a call gives; its arguments are evaluated on the way."""
    arguments = [self.kind(argument, env) for argument in node.args]
    keywords = {keyword.arg: self.kind(keyword.value, env) for keyword in node.keywords}
    qualified = self.module.names.qualified(node.func, self.scope)
    if qualified in _ASK_CLASS and node.args:
        _keep_attribute(node.args[0], arguments[0], env)
    if qualified is not None:
        return _named_call(self, node, qualified, arguments, keywords)
    if isinstance(node.func, ast.Attribute):
        base = self.kind(node.func.value, env)
        if isinstance(base, Unknown) and self.traced and self.compared(node.func.value):
            base = Tensor("bool")  # only arrays compare to what has methods
        return _method_call(self, node, node.func.attr, base, arguments, keywords)
    called = self.kind(node.func, env)
    if isinstance(called, Instance):
        return _instance_call(self, called.cls, node, arguments, keywords)
    return UNKNOWN


def _keep_attribute(node: ast.expr, kind: Kind, env: Environment) -> None:
    """Keep what an attribute is on all paths from where its class is asked, so that one may learn more."""
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
        env.setdefault(f"{node.value.id}.{node.attr}", kind)


def _project_call(
    self: Expressions,
    function: str,
    node: ast.Call,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
) -> Kind:
    """What a function of the project gives; one of this file is walked with the host tensors it is handed."""
    returned = self.module.returned_kind(function)
    handed = [made_on_host(kind) for kind in (*arguments, *keywords.values())]
    own = self.module.functions.get(function)
    if own is None:
        return _from_other_file(self, function, node, arguments, keywords, returned)
    if not (any(handed) or self.walks.lacks_device(own, node)):
        return returned
    walked = self.walks.of_call(own, node, arguments, keywords)
    if walked is None:
        return returned
    self.mixed |= walked.mixed & frozenset().union(*handed)
    return walked.returned if returned == UNKNOWN else placed_as(returned, walked.returned)


def _from_other_file(
    self: Expressions,
    function: str,
    node: ast.Call,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
    returned: Kind,
) -> Kind:
    """What a function of another file gives, with the tensors on the host that it is known to make there."""
    facts = self.module.project.function(function)
    if facts is None or not facts.on_host.items:
        return returned
    handed: dict[str | None, Kind] = dict(zip(facts.by_place, arguments, strict=False))
    handed.update(keywords)
    if any(handed.get(name, UNKNOWN).is_traced for name in facts.on_host.needs):
        return returned
    made = Tensor(origins=made_at(self, node))
    if not facts.on_host.is_tuple:
        return placed_as(returned, made) if isinstance(returned, Tensor) else made
    items = tuple(made if is_host else UNKNOWN for is_host in facts.on_host.items)
    return Several(joined(items), items)


def _named_call(
    self: Expressions, node: ast.Call, name: str, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    head, _, rest = name.partition(".")
    if head == "torch":
        return torch_call(self, node, rest, arguments, keywords)
    if head == "builtins":
        return builtin_call(name, arguments)
    if head in ("numpy", "scipy"):
        return ARRAY
    if name in ENVIRONMENTS:
        return Instance("torchax.tensor.Environment")
    if head == "math":
        if any(isinstance(kind, Tensor | Data) for kind in arguments):
            return DATA
        return STATIC
    if head == "einops" or name in GIVE_ALIKE:
        tensor = arguments[0] if arguments else UNKNOWN
        return (
            Tensor(tensor.dtype, origins=tensor.origins, certain=tensor.certain)
            if isinstance(tensor, Tensor)
            else UNKNOWN
        )
    resolved = self.module.project.resolve(name)
    if self.module.project.class_(resolved) is not None:
        return Instance(resolved)
    returned = _project_call(self, resolved, node, arguments, keywords)
    if isinstance(returned, Tensor) and keywords.get("device") in ON_HOST:
        return replace(returned, origins=made_at(self, node))
    return returned


def _method_call(
    self: Expressions,
    node: ast.Call,
    name: str,
    base: Kind,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
) -> Kind:
    if isinstance(base, Tensor):
        return tensor_method(self, node, name, base, arguments, keywords)
    if isinstance(base, Instance):
        return _instance_method(self, base, name, node, arguments, keywords)
    if isinstance(base, Static):
        return DATA if any(isinstance(kind, Data) for kind in arguments) else STATIC
    if isinstance(base, Data | Array):
        return base
    if isinstance(base, Several):
        if name == "items":
            return Several(Several(base.element, (STATIC, base.element)))
        if name in ("values", "copy"):
            return Several(base.element)
        return base.element if name in ("pop", "get") else UNKNOWN
    if isinstance(base, Device):
        return STATIC
    if name == "numpy" and not arguments:
        return ARRAY
    if name == "cpu" and not arguments:  # of a tensor, or of a module
        return Tensor(origins=made_at(self, node), certain=False)
    if name == "bool" and not arguments and not keywords and self.traced:  # of modules, there is none
        return Tensor("bool")
    if name in TENSOR_ONLY and METHODS.get(name) == "tensor":
        return Tensor(dtype="bool" if name in BOOLEAN else "")
    if name in ("any", "all") and isinstance(base, Unknown) and self.traced:
        return Tensor("bool", scalar=not arguments and not keywords)  # only arrays are asked for that
    return UNKNOWN


def _instance_call(
    self: Expressions, cls: str, node: ast.Call, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    """Calling an instance: a `torch.nn` layer, or a module of the project through its `forward`."""
    if cls.startswith("torch.nn."):
        self.meet(TENSOR, *arguments, *keywords.values())
        if cls in SEVERAL_OUTPUTS:
            return Several(UNKNOWN, (TENSOR, TENSORS))
        if cls in ("torch.nn.Identity", "torch.nn.Dropout") and arguments:
            return arguments[0]
        return Tensor(
            dtype="" if cls.endswith("Embedding") else "float", certain=cls != "torch.nn.Sequential"
        )
    project = self.module.project
    called = project.method(cls, "forward" if project.is_module_class(cls) else "__call__")
    return _project_call(self, called, node, arguments, keywords) if called is not None else UNKNOWN


def _instance_method(
    self: Expressions,
    base: Instance,
    name: str,
    node: ast.Call,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
) -> Kind:
    if name in _GIVE_THEMSELVES:
        return base
    if name == "forward":
        return _instance_call(self, base.cls, node, arguments, keywords)
    project = self.module.project
    method = project.method(base.cls, name)
    if method is not None:
        return _project_call(self, method, node, arguments, keywords)
    attribute = self.module.attribute_kind(base.cls, name)
    if isinstance(attribute, Instance):
        self.kinds[id(node.func)] = attribute
        return _instance_call(self, attribute.cls, node, arguments, keywords)
    return UNKNOWN
