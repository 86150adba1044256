"""Inference of calls: what torch, NumPy, builtins and the project's own classes return."""

from __future__ import annotations

import ast
from dataclasses import replace

from tpulint.knowledge.cuda_api import CUDA_OBJECTS
from tpulint.knowledge.pictures import GIVE_ALIKE
from tpulint.knowledge.tensors import (
    BOOLEAN,
    CONSTRUCTORS,
    DTYPES,
    ELEMENTWISE,
    FACTORIES,
    FLOATING,
    INTEGER,
    NEVER_ON_HOST,
    PAIRED,
    READS,
    REDUCTIONS,
    SEVERAL_OUTPUTS,
    SIZED,
    TENSOR_ONLY,
)
from tpulint.knowledge.torch_api import FUNCTIONS, METHODS
from tpulint.knowledge.tracing import ENVIRONMENTS
from tpulint.model.values.expressions import Expressions
from tpulint.model.values.kinds import (
    ARRAY,
    DATA,
    NONE,
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
    element_of,
    joined,
    made_on_host,
    placed_as,
)
from tpulint.model.values.typed_file import Environment

#: Methods and functions whose arguments after the first are sizes, not operands.
_TAKE_SIZES = frozenset(
    {"view", "reshape", "expand", "repeat", "broadcast_to", "tile", "unflatten", "narrow"}
    | {"view_as", "reshape_as", "expand_as"}
)
#: Methods of modules that give the module.
_GIVE_THEMSELVES = frozenset(
    {"to", "cuda", "cpu", "eval", "train", "half", "float", "double", "bfloat16", "requires_grad_"}
)
_ON_HOST = (Device("cpu"), Static("cpu"))
_HOST = (*_ON_HOST, NONE)
_PYTHON_SCALARS = frozenset({"builtins.float", "builtins.int", "builtins.bool", "builtins.complex"})
_ASK_CLASS = frozenset({"builtins.isinstance", "torch.is_tensor"})
_STATIC_BUILTINS = frozenset(
    f"builtins.{name}"
    for name in (
        "len",
        "isinstance",
        "hasattr",
        "str",
        "repr",
        "type",
        "id",
        "callable",
        "format",
        "issubclass",
    )
)


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
    made = Tensor(origins=_made_at(self, node))
    if not facts.on_host.is_tuple:
        return placed_as(returned, made) if isinstance(returned, Tensor) else made
    items = tuple(made if is_host else UNKNOWN for is_host in facts.on_host.items)
    return Several(joined(items), items)


def _made_at(self: Expressions, node: ast.Call) -> frozenset[int]:
    start = self.module.source.span(node).start
    self.module.makers[start] = node
    return frozenset({start})


def _named_call(
    self: Expressions, node: ast.Call, name: str, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    head, _, rest = name.partition(".")
    if head == "torch":
        return _torch_call(self, node, rest, arguments, keywords)
    if head == "builtins":
        return _builtin_call(name, arguments)
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
    if isinstance(returned, Tensor) and keywords.get("device") in _ON_HOST:
        return replace(returned, origins=_made_at(self, node))
    return returned


def _torch_call(
    self: Expressions, node: ast.Call, name: str, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    last = name.rpartition(".")[2]
    if name == "device":
        first = arguments[0] if arguments else UNKNOWN
        if isinstance(first, Device):
            return first
        text = first.value if isinstance(first, Static) else None
        return Device(text.partition(":")[0] if isinstance(text, str) else "")
    # `torch.normal` takes sizes, or tensors, and is then where they are
    if name in FACTORIES and not (
        name == "normal" and any(k.is_tensor for k in (*arguments, *keywords.values()))
    ):
        return _factory(self, node, name, arguments, keywords)
    if name in ("nn.Parameter", "nn.parameter.Parameter", "nn.Buffer"):
        return TENSOR
    if last == "Variable" and name.startswith("autograd.") and arguments:
        return arguments[0]
    if last[:1].isupper() and name.startswith(("nn.", "optim.", "utils.data.", "distributions.")):
        return Instance(f"torch.{name}")
    if name in CUDA_OBJECTS:
        return Instance(CUDA_OBJECTS[name])
    word = FUNCTIONS.get(name)
    if word is None:
        return UNKNOWN
    operands = [item for kind in (*arguments, *keywords.values()) for item in _flat(kind)]
    if last == "allclose" and any(kind.is_traced for kind in operands):
        return Tensor("bool", scalar=True)  # unlike `equal`, and unlike what torch itself gives
    if last in READS:
        return DATA
    return _result(self, last, word, operands, arguments[1:], keywords, method=False)


def _method_call(
    self: Expressions,
    node: ast.Call,
    name: str,
    base: Kind,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
) -> Kind:
    if isinstance(base, Tensor):
        if name == "cpu":
            return replace(base, origins=_made_at(self, node))
        if name in READS:
            return ARRAY if name == "numpy" else DATA
        if name in ("to", "cuda", "type_as", "type", "xpu"):
            return _moved(self, node, base, arguments, keywords)
        if name == "dim":
            return STATIC
        word = METHODS.get(name)
        if word is None:
            return UNKNOWN
        operands = [base, *(item for kind in (*arguments, *keywords.values()) for item in _flat(kind))]
        return _result(self, name, word, operands, arguments, keywords, method=True)
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
        return Tensor(origins=_made_at(self, node), certain=False)
    if name == "bool" and not arguments and not keywords and self.traced:  # of modules, there is none
        return Tensor("bool")
    if name in TENSOR_ONLY and METHODS.get(name) == "tensor":
        return Tensor(dtype="bool" if name in BOOLEAN else "")
    if name in ("any", "all") and isinstance(base, Unknown) and self.traced:
        return Tensor("bool", scalar=not arguments and not keywords)  # only arrays are asked for that
    return UNKNOWN


def _result(
    self: Expressions,
    name: str,
    word: str,
    operands: list[Kind],
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
    *,
    method: bool,
) -> Kind:
    """What an operation on tensors gives; `arguments` are those after the first operand."""
    shaped = name in _TAKE_SIZES
    origins = self.meet(*operands[:1]) if shaped else self.meet(*operands)
    if word == "static":
        return STATIC
    first = operands[0] if operands else UNKNOWN
    base = first if isinstance(first, Tensor) else None
    if method and base is not None and name.endswith("_"):
        origins = base.origins  # it is written in its place
    reduced = bool(arguments) or not {"dim", "axis"}.isdisjoint(map(str, keywords))
    if word == "other":
        return UNKNOWN
    if (name == "where" and not reduced and len(operands) == 1) or (
        name == "nonzero" and keywords.get("as_tuple") == Static(value=True)
    ):
        return Several(Tensor("int"))
    if word == "tensors" or (word == "tensor|tensors" and name in PAIRED and reduced):
        if name in ("max", "min") and any(kind.is_tensor for kind in arguments):
            return Tensor(origins=origins)
        element = Tensor(base.dtype if base is not None else "", origins=origins)
        return (
            Several(element, (element, Tensor("int", origins=origins)))
            if name in PAIRED
            else Several(element)
        )
    if name in ("unique", "unique_consecutive") and not {"return_counts", "return_inverse"}.isdisjoint(
        map(str, keywords)
    ):
        return Several(Tensor(origins=origins))
    bare = name.rstrip("_")
    if bare in BOOLEAN:
        dtype = "bool"
    elif bare in INTEGER:
        dtype = "int"
    elif bare in FLOATING:
        dtype = "float"
    else:
        dtype = base.dtype if base is not None and word in ("tensor", "tensor|tensors") else ""
        if bare in ("where", "cat", "stack"):
            dtypes = {
                kind.dtype for kind in operands[1 if bare == "where" else 0 :] if isinstance(kind, Tensor)
            }
            dtype = dtypes.pop() if len(dtypes) == 1 else ""
        elif bare in (
            "sum",
            "prod",
            "cumsum",
            "embedding",
            "one_hot",
            "conv2d",
            "linear",
            "gather",
            "bernoulli",
            "mul",
            "add",
        ):
            dtype = "" if dtype == "bool" or bare in ("embedding", "conv2d", "linear") else dtype
    dtype = _declared(keywords, dtype)
    scalar = bare in REDUCTIONS and not reduced and base is not None
    if not scalar and base is not None and base.scalar and bare in ELEMENTWISE:
        scalar = not any(isinstance(kind, Tensor) and not kind.scalar for kind in operands[1:])
    others = [kind for kind in operands[1:] if isinstance(kind, Tensor) and not kind.scalar]
    same = base is not None and all(kind.root == base.root for kind in others)
    root = base.root if base is not None and bare in ELEMENTWISE and same else ""
    if name == "where" and not method:
        roots = {kind.root if isinstance(kind, Tensor) else "" for kind in operands[1:]}
        roots |= {base.root} if base is not None and not base.scalar else set()
        root = roots.pop() if len(roots) == 1 else ""
    certain = base.certain if base is not None and method else True
    return Tensor(dtype, scalar, origins, certain, root)


def _declared(keywords: dict[str | None, Kind], fallback: str) -> str:
    kind = keywords.get("dtype")
    if isinstance(kind, Static) and isinstance(kind.value, str):
        return DTYPES.get(kind.value.removeprefix("torch."), "")
    return fallback if kind is None else ""


def _moved(
    self: Expressions,
    node: ast.Call,
    base: Tensor,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
) -> Kind:
    """The result of `.to(...)` and its relatives: another dtype, another place, or both."""
    dtype, origins = _declared(keywords, base.dtype), base.origins
    for kind in arguments[:2]:
        if isinstance(kind, Static) and isinstance(kind.value, str) and kind.value.startswith("torch."):
            dtype = DTYPES.get(kind.value.removeprefix("torch."), "")
        elif isinstance(kind, Tensor):
            dtype, origins = kind.dtype, kind.origins
        elif isinstance(kind, Static) and (kind == NONE or isinstance(kind.value, bool)):
            continue
        else:
            origins = _made_at(self, node) if kind in _ON_HOST else frozenset()
            dtype = (
                dtype
                if isinstance(kind, Device) or (isinstance(kind, Static) and kind.value is not ...)
                else ""
            )
    if keywords.get("device", NONE) != NONE:
        origins = _made_at(self, node) if keywords["device"] in _ON_HOST else frozenset()
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        origins = frozenset()
    return replace(base, dtype=dtype, origins=origins)


def _factory(
    self: Expressions, node: ast.Call, name: str, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    default = {
        "BoolTensor": "bool",
        "LongTensor": "int",
        "IntTensor": "int",
        "arange": "",
        "eye": "float",
        "zeros": "float",
        "ones": "float",
        "rand": "float",
        "randn": "float",
        "linspace": "float",
        "randperm": "int",
        "randint": "int",
        "tril_indices": "int",
        "triu_indices": "int",
    }
    dtype = _declared(keywords, default.get(name, ""))
    told = "device" in keywords and keywords["device"] not in _HOST
    elsewhere = told or self.placed or None in keywords or "out" in keywords or name in NEVER_ON_HOST
    scalar = False
    if name in CONSTRUCTORS and not (arguments and isinstance(arguments[0], Several | Array)):
        return Tensor(dtype)
    if (name in ("tensor", "as_tensor", "scalar_tensor") or name in CONSTRUCTORS) and arguments:
        first = arguments[0]
        if isinstance(first, Tensor):
            return replace(first, dtype=dtype or first.dtype) if name == "as_tensor" else Tensor(dtype)
        arithmetic = isinstance(node.args[0], ast.BinOp | ast.UnaryOp | ast.Constant)
        scalar = isinstance(first, Static | Data) or (arithmetic and not isinstance(first, Several | Array))
        if isinstance(first, Unknown) and not arithmetic:
            if name != "tensor" or elsewhere:
                return Tensor(dtype, certain=name != "tensor")
            # of a number or of a list, nobody knows; on the host it is either way
            return Tensor(dtype, scalar=True, origins=_made_at(self, node), certain=False)
        scalar = scalar or (isinstance(first, Several) and first.items is not None and len(first.items) <= 1)
    elif name in SIZED and node.args:
        sizes = node.args[0].elts if isinstance(node.args[0], ast.Tuple | ast.List) else node.args
        scalar = all(isinstance(size, ast.Constant) and size.value in (0, 1) for size in sizes)
    if elsewhere:
        return Tensor(dtype, scalar)
    return Tensor(dtype, scalar, _made_at(self, node))


def _builtin_call(name: str, arguments: list[Kind]) -> Kind:
    first = arguments[0] if arguments else UNKNOWN
    if name in _PYTHON_SCALARS:
        if isinstance(first, Tensor | Data):
            return DATA
        return STATIC if isinstance(first, Static) or not arguments else UNKNOWN
    if name in _STATIC_BUILTINS:
        return STATIC
    if name in ("builtins.abs", "builtins.round", "builtins.sum"):
        if isinstance(first, Several) and name == "builtins.sum":
            first = first.element
        return first if isinstance(first, Tensor | Static | Data | Array) else UNKNOWN
    if name in ("builtins.max", "builtins.min"):
        kinds = (
            first.items or (first.element,)
            if isinstance(first, Several) and len(arguments) == 1
            else tuple(arguments)
        )
        if any(isinstance(kind, Tensor) for kind in kinds):
            return Tensor(certain=all(kind.is_tensor for kind in kinds))
        if kinds and all(isinstance(kind, Several) for kind in kinds):
            return joined(kinds)  # tuples are compared item by item
        if any(isinstance(kind, Data) for kind in kinds):
            return DATA
        return STATIC if all(isinstance(kind, Static) for kind in kinds) else UNKNOWN
    if name == "builtins.range":
        return Several(DATA if any(isinstance(kind, Tensor | Data) for kind in arguments) else STATIC)
    if name in (
        "builtins.list",
        "builtins.tuple",
        "builtins.sorted",
        "builtins.reversed",
        "builtins.iter",
        "builtins.set",
    ):
        if isinstance(first, Several):
            return first
        return Several(replace(first, scalar=False, root="") if isinstance(first, Tensor) else UNKNOWN)
    if name == "builtins.next":
        return element_of(first)
    if name == "builtins.enumerate":
        element = element_of(first) if isinstance(first, Several | Tensor) else UNKNOWN
        return Several(UNKNOWN if element is UNKNOWN else Several(element, (STATIC, element)))
    if name == "builtins.zip":
        elements = tuple(
            element_of(kind) if isinstance(kind, Several | Tensor) else UNKNOWN for kind in arguments
        )
        return Several(Several(UNKNOWN, elements))
    if name == "builtins.getattr":
        return UNKNOWN
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


def _flat(kind: Kind) -> tuple[Kind, ...]:
    """Tensors in a list argument take part in the operation one by one."""
    if isinstance(kind, Several):
        return kind.items if kind.items is not None else (kind.element,)
    return (kind,)
