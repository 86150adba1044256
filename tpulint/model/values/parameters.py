"""What a function's parameters are before its first statement: annotations, defaults, use."""

from __future__ import annotations

import ast
from dataclasses import replace

from tpulint.knowledge.tensors import (
    JAXTYPING_DTYPES,
    STATIC_TYPES,
    TENSOR_ATTRIBUTES,
    TENSOR_TYPE_DTYPES,
    TENSOR_TYPES,
)
from tpulint.model.names.annotations import qualified_text
from tpulint.model.names.evidence import attributes_of, used_as_tensor
from tpulint.model.names.index import within
from tpulint.model.names.qualified import dotted
from tpulint.model.names.references import defaults
from tpulint.model.names.scopes import FunctionNode, Scope, parameters
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.syntax.comments import commented
from tpulint.model.syntax.parsed_file import ParsedFile
from tpulint.model.values.across import handed_kind, stepped_through, steps_through
from tpulint.model.values.kinds import (
    ARRAY,
    STATIC,
    TENSOR,
    UNKNOWN,
    Device,
    Instance,
    Kind,
    Several,
    Static,
    Tensor,
    join,
    joined,
)
from tpulint.model.values.typed_file import TypedFile


def parameter_kinds(module: TypedFile, scope: Scope) -> dict[str, Kind]:
    """The kinds of a function's parameters by name.

    An annotation decides; without one, a default that is a Python constant does; without either, a
    parameter of traced code is a tensor if the function takes tensor-only attributes of it or hands it to
    operations of torch, or what the file's calls hand to it.
    """
    node = scope.node
    assert isinstance(node, FunctionNode)
    by_default = {name: default for name, default in defaults(node.args) if default is not None}
    kinds: dict[str, Kind] = {}
    traced = module.trace_path(scope) is not None
    comments = commented(module.source, scope)
    for number, argument in enumerate(parameters(node)):
        name = argument.arg
        if number == 0 and scope.owner is not None and name in ("self", "cls"):
            kinds[name] = Instance(f"{module.name}.{scope.owner.qualname}")
        elif argument is node.args.vararg or argument is node.args.kwarg:
            kinds[name] = Several(UNKNOWN)
        elif argument.annotation is not None and scope.parent is not None:
            kinds[name] = annotated_kind(module, argument.annotation, scope.parent, name)
            if isinstance(kinds[name], Tensor) and name in module.index.mapped and _is_mapping(node, name):
                kinds[name] = UNKNOWN  # the annotation is wrong
        elif name in comments and scope.parent is not None:
            kinds[name] = annotated_kind(module, comments[name], scope.parent, name)
        elif name in by_default:
            kinds[name] = _default_kind(by_default[name])
        if traced and isinstance(kinds.get(name), Static | Tensor):
            kinds[name] = _as_handed(module, scope, name, kinds[name])
        if traced and kinds.get(name, UNKNOWN) == UNKNOWN and argument is not node.args.kwarg:
            is_input = _is_input(module, scope, number, name, by_default)
            kinds[name] = _used_kind(module, scope, name, is_input=is_input)
    return kinds


def _used_kind(module: TypedFile, scope: Scope, name: str, *, is_input: bool) -> Kind:
    """What the use of a parameter tells, in its function and in the file's calls of that."""
    if is_input or used_as_tensor(scope, name):
        counted = len(module.index.numbered.get(name, ())) > 1 and _is_counted_out(scope.node, name)
        return Several(TENSOR) if counted else Tensor(root=name)
    handed = handed_kind(module, scope, name)
    if isinstance(handed, Tensor):
        return replace(handed, root=name)
    project, function = module.project, f"{module.name}.{scope.qualname}"
    if project.is_proven_tensor(function, name):
        return Tensor(root=name)
    if handed == UNKNOWN and project.is_handed_tensor(function, name):
        return Tensor(root=name)
    return handed


def _as_handed(module: TypedFile, scope: Scope, name: str, declared: Kind) -> Kind:
    """A parameter of a method that steps through a tensor of its own, whatever it is declared to be.

    `step(self, timestep: int)` gets an element of the tensor `self.timesteps`; and what it hands on to other
    methods is what it got.
    """
    several = stepped_through(module, scope, name)
    if several is not None and not declared.is_tensor:
        kind = module.attribute_kind(f"{module.name}.{scope.owner.qualname}" if scope.owner else "", several)
        if isinstance(kind, Tensor) and kind.certain and not kind.scalar:
            declared = Tensor(kind.dtype, scalar=True, root=name)
    if not isinstance(declared, Static) or not steps_through(module, scope):
        return declared
    handed = handed_kind(module, scope, name)
    return replace(handed, root=name) if isinstance(handed, Tensor) and handed.is_traced else declared


def _default_kind(node: ast.expr) -> Kind:
    """A default tells the kind only where it is a constant other than None."""
    if isinstance(node, ast.Constant) and node.value is not None and node.value is not ...:
        return Device("cuda") if isinstance(node.value, str) and node.value.startswith("cuda") else STATIC
    if isinstance(node, ast.Tuple) and all(isinstance(item, ast.Constant) for item in node.elts):
        return Several(STATIC)
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return STATIC
    return UNKNOWN


def _is_input(
    module: ParsedFile, scope: Scope, number: int, name: str, by_default: dict[str, ast.expr]
) -> bool:
    """Whether a parameter is the first of a `forward`, and nothing says that it is a container or a size."""
    if number != 1 or scope.name != "forward" or scope.owner is None or name in by_default:
        return False
    if not attributes_of(scope, name) <= TENSOR_ATTRIBUTES or _is_size_or_container(scope.node, name):
        return False
    return not any(
        place.function is scope and not _mentioned_by_shape(call, name)
        for sized in ("arange", "range", "view")
        for call, place in module.index.calls.get(sized, ())
    )


def _is_size_or_container(function: ast.AST, name: str) -> bool:
    """Whether a function unpacks a name, uses it as a mapping, or bounds a slice by it."""
    for node in within(function):
        match node:
            case ast.Assign(targets=[ast.Tuple()], value=ast.Name(id=found)) if found == name:
                return True
            case ast.Slice() if not _mentioned_by_shape(node, name):
                return True
    return _is_mapping(function, name)


def _is_mapping(function: ast.AST, name: str) -> bool:
    """Whether a function looks into a name by a text, or asks it for what only mappings have."""
    for node in within(function):
        match node:
            case ast.Subscript(value=ast.Name(id=found), slice=ast.Constant(value=str()) | ast.JoinedStr()):
                if found == name:
                    return True
            case ast.Attribute(value=ast.Name(id=found), attr="keys" | "items" | "get" | "setdefault"):
                if found == name:
                    return True
            case ast.Compare(
                left=ast.Constant(value=str()), ops=[ast.In() | ast.NotIn()], comparators=[ast.Name(id=found)]
            ):
                if found == name:
                    return True
    return False


def _is_counted_out(function: ast.AST, name: str) -> bool:
    """Whether a function reads several items of a name by their numbers, and nothing else of it.

    `forward(self, input)` of a layer that gets a tuple begins with `scores = input[0]; boxes = input[1]`.
    """
    numbers, reads = set(), 0
    for node in ast.walk(function):
        match node:
            case ast.Subscript(value=ast.Name(id=found), slice=ast.Constant(value=int() as number)):
                if found == name:
                    numbers.add(number)
                    reads -= 1
            case ast.Name(id=found, ctx=ast.Load()) if found == name:
                reads += 1
    return reads == 0 and len(numbers) > 1


def _mentioned_by_shape(node: ast.AST, name: str) -> bool:
    """Whether a node mentions a name only for its attributes, such as `x.shape`."""
    plain = {id(n) for n in ast.walk(node) if isinstance(n, ast.Name) and n.id == name}
    plain -= {id(n.value) for n in ast.walk(node) if isinstance(n, ast.Attribute)}
    return not plain


def annotated_kind(module: ProjectFile, node: ast.expr, scope: Scope | None, name: str = "") -> Kind:
    """The kind that an annotation declares; without a scope its names are qualified, and mean themselves."""
    match node:
        case ast.Constant(value=str() as text):
            try:
                return annotated_kind(module, ast.parse(text, mode="eval").body, scope, name)
            except (SyntaxError, ValueError):
                return UNKNOWN
        case ast.Constant(value=None):
            return Static(None)
        case ast.BinOp(op=ast.BitOr()):
            one = annotated_kind(module, node.left, scope, name)
            return join(one, annotated_kind(module, node.right, scope, name))
        case ast.Subscript():
            return _subscripted(module, node, scope, name)
        case ast.Name() | ast.Attribute():
            if scope is None:
                return _named(module, dotted(node) or "", name)
            meant = module.project.annotation(qualified_text(node, scope, module.names))
            return annotated_kind(module, meant, None, name) if meant is not None else UNKNOWN
        case _:
            return UNKNOWN


def _named(module: ProjectFile, qualified: str, name: str) -> Kind:
    if qualified in TENSOR_TYPES:
        return Tensor(dtype=TENSOR_TYPE_DTYPES.get(qualified, ""), root=name)
    if qualified in STATIC_TYPES:
        return STATIC
    if qualified == "torch.device":
        return Device()
    if qualified == "numpy.ndarray":
        return ARRAY
    if qualified in ("builtins.list", "builtins.tuple", "builtins.dict"):
        return Several(UNKNOWN)
    if qualified.startswith(("torch.nn.", "torch.optim.", "torch.utils.data.")):
        return Instance(qualified)
    resolved = module.project.resolve(qualified)
    return Instance(resolved) if module.project.class_(resolved) is not None else UNKNOWN


def _subscripted(module: ProjectFile, node: ast.Subscript, scope: Scope | None, name: str) -> Kind:
    qualified = module.names.qualified(node.value, scope) if scope is not None else dotted(node.value)
    head = (qualified or "").rpartition(".")[2]
    inner = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
    if head in JAXTYPING_DTYPES:
        return Tensor(dtype=JAXTYPING_DTYPES[head], root=name)
    if head in ("Optional", "Union"):
        return joined(tuple(annotated_kind(module, item, scope, name) for item in inner))
    if head == "Annotated":
        return annotated_kind(module, inner[0], scope, name)
    if head in ("Literal", "Type", "type", "Callable"):
        return STATIC if head == "Literal" else UNKNOWN
    if head in ("List", "list", "Sequence", "Iterable", "Set", "set", "Iterator", "FrozenSet"):
        return Several(annotated_kind(module, inner[0], scope))
    if head in ("Dict", "dict", "Mapping", "OrderedDict", "MutableMapping") and len(inner) == 2:
        return Several(annotated_kind(module, inner[1], scope))
    if head in ("Tuple", "tuple"):
        kinds = tuple(annotated_kind(module, item, scope) for item in inner if not _is_ellipsis(item))
        if len(kinds) != len(inner):
            return Several(joined(kinds))
        return Several(joined(kinds), kinds)
    return UNKNOWN


def _is_ellipsis(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is ...
