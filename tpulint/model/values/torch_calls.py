"""Inference of calls of torch: functions, factories and methods of tensors."""

from __future__ import annotations

import ast
from dataclasses import replace

from tpulint.knowledge.cuda_api import CUDA_OBJECTS
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
    SIZED,
)
from tpulint.knowledge.torch_api import FUNCTIONS, METHODS
from tpulint.model.values.expressions import Expressions
from tpulint.model.values.kinds import (
    ARRAY,
    DATA,
    NONE,
    STATIC,
    TENSOR,
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
)

#: Methods and functions whose arguments after the first are sizes, not operands.
_TAKE_SIZES = frozenset(
    {"view", "reshape", "expand", "repeat", "broadcast_to", "tile", "unflatten", "narrow"}
    | {"view_as", "reshape_as", "expand_as"}
)
#: Devices that are the host's.
ON_HOST = (Device("cpu"), Static("cpu"))
_HOST = (*ON_HOST, NONE)


def torch_call(
    self: Expressions, node: ast.Call, name: str, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    """What a function or class of torch gives, by its name within torch."""
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


def tensor_method(
    self: Expressions,
    node: ast.Call,
    name: str,
    base: Tensor,
    arguments: list[Kind],
    keywords: dict[str | None, Kind],
) -> Kind:
    """What a method of a tensor gives."""
    if name == "cpu":
        return replace(base, origins=made_at(self, node))
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


def _factory(
    self: Expressions, node: ast.Call, name: str, arguments: list[Kind], keywords: dict[str | None, Kind]
) -> Kind:
    """What a factory of tensors gives."""
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
            return Tensor(dtype, scalar=True, origins=made_at(self, node), certain=False)
        scalar = scalar or (isinstance(first, Several) and first.items is not None and len(first.items) <= 1)
    elif name in SIZED and node.args:
        sizes = node.args[0].elts if isinstance(node.args[0], ast.Tuple | ast.List) else node.args
        scalar = all(isinstance(size, ast.Constant) and size.value in (0, 1) for size in sizes)
    if elsewhere:
        return Tensor(dtype, scalar)
    return Tensor(dtype, scalar, made_at(self, node))


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
            origins = made_at(self, node) if kind in ON_HOST else frozenset()
            dtype = (
                dtype
                if isinstance(kind, Device) or (isinstance(kind, Static) and kind.value is not ...)
                else ""
            )
    if keywords.get("device", NONE) != NONE:
        origins = made_at(self, node) if keywords["device"] in ON_HOST else frozenset()
    elif isinstance(node.func, ast.Attribute) and node.func.attr == "cuda":
        origins = frozenset()
    return replace(base, dtype=dtype, origins=origins)


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


def made_at(self: Expressions, node: ast.Call) -> frozenset[int]:
    """The origin of a host tensor that a call makes, which is noted."""
    start = self.module.source.span(node).start
    self.module.makers[start] = node
    return frozenset({start})


def _flat(kind: Kind) -> tuple[Kind, ...]:
    """Tensors in a list argument take part in the operation one by one."""
    if isinstance(kind, Several):
        return kind.items if kind.items is not None else (kind.element,)
    return (kind,)
