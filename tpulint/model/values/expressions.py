"""Inference, expression by expression."""

from __future__ import annotations

import ast
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from typing import ClassVar

from tpulint.knowledge.tensors import DTYPES
from tpulint.knowledge.torch_api import ATTRIBUTES
from tpulint.model.names.scopes import Scope
from tpulint.model.values.across import Walks
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
    element_of,
    join,
    joined,
)
from tpulint.model.values.trace_invariant import SETTLED, of_other_device
from tpulint.model.values.typed_file import Environment, FunctionTypes, TypedFile

#: Plain values, which are taken where a tensor of one element is.
_NUMBERS = frozenset({"builtins.int", "builtins.float", "builtins.str", "builtins.bool"})
_LISTS = frozenset({"builtins.list", "builtins.tuple"})

_NOWHERE: frozenset[int] = frozenset()


class Expressions(FunctionTypes):
    """Evaluates expressions of one scope, but for calls, to kinds; remembers the kind of each node."""

    def __init__(self, module: TypedFile, walks: Walks, scope: Scope) -> None:
        super().__init__()
        self.module = module
        self.walks = walks
        self.scope = scope
        #: How many `with torch.device(...)` blocks are open.
        self.placed = 0

    def kind(self, node: ast.expr, env: Environment) -> Kind:
        """Evaluate a node and remember its kind."""
        evaluator = self.EVALUATORS.get(node.__class__)
        if evaluator is None:
            return UNKNOWN
        kind = evaluator(self, node, env)
        if kind is not UNKNOWN:
            self.kinds[id(node)] = kind
        return kind

    def meet(self, *operands: Kind) -> frozenset[int]:
        """Note that operands take part in one operation.

        Returns the origins of the result: none unless all tensors among the operands are on the host.
        """
        tensors = [kind for kind in operands if isinstance(kind, Tensor)]
        if not any(kind.origins for kind in tensors):
            return _NOWHERE
        large: frozenset[int] = frozenset().union(*(kind.origins for kind in tensors if not kind.scalar))
        if all(kind.origins for kind in tensors):
            return large or tensors[0].origins
        if any(not kind.origins and (kind.certain or not kind.scalar) for kind in tensors):
            self.mixed.update(large)  # a number of the device meets none of the host, either
        return _NOWHERE

    # names and attributes

    def _name(self, node: ast.Name, env: Environment) -> Kind:
        known = env.get(node.id)
        return known if known is not None else self.module.free_name(node.id, self.scope)

    def _constant(self, node: ast.Constant, _: Environment) -> Kind:
        value = node.value
        return Static(value) if value is None or isinstance(value, str | int | float | bool) else STATIC

    def _attribute(self, node: ast.Attribute, env: Environment) -> Kind:
        qualified = self.module.names.qualified(node, self.scope)
        if qualified is not None:
            if qualified.startswith("torch.") and qualified[6:] in DTYPES:
                return Static(qualified)
            return _global_kind(qualified)
        if isinstance(node.value, ast.Name):
            stored = env.get(f"{node.value.id}.{node.attr}")
            if stored is not None:
                self.kind(node.value, env)
                return stored
        base = self.kind(node.value, env)
        attribute = node.attr
        if isinstance(base, Tensor):
            if attribute == "device":
                return Device("cpu" if base.is_host else "")
            word = ATTRIBUTES.get(attribute)
            if word == "tensor":
                return Tensor(dtype=base.dtype, origins=base.origins, certain=base.certain)
            return STATIC if word == "static" else UNKNOWN
        if isinstance(base, Instance):
            return self.module.attribute_kind(base.cls, attribute)
        if isinstance(base, Several) and attribute in ("values", "indices"):
            return base.element
        if isinstance(base, Data):
            return DATA
        if isinstance(base, Static | Device):
            return STATIC
        if attribute == "device":
            return Device()
        return STATIC if attribute in ("shape", "ndim", "dtype") else UNKNOWN

    # operators

    def _binary(self, node: ast.BinOp, env: Environment) -> Kind:
        return self.binary(self.kind(node.left, env), node.op, self.kind(node.right, env))

    def binary(self, left: Kind, op: ast.operator, right: Kind) -> Kind:
        """The kind of `left op right`."""
        if isinstance(left, Tensor) or isinstance(right, Tensor):
            return self._arithmetic(left, op, right)
        if isinstance(left, Array) or isinstance(right, Array):
            return ARRAY
        if isinstance(left, Several) or isinstance(right, Several):
            if isinstance(left, Several) and isinstance(right, Several):
                items = (
                    left.items + right.items if left.items is not None and right.items is not None else None
                )
                return Several(join(left.element, right.element), items)
            one = left if isinstance(left, Several) else right
            return Several(one.element) if isinstance(one, Several) else UNKNOWN
        if isinstance(left, Data) or isinstance(right, Data):
            return DATA
        return STATIC if isinstance(left, Static) and isinstance(right, Static) else UNKNOWN

    def _arithmetic(self, left: Kind, op: ast.operator, right: Kind) -> Kind:
        if isinstance(op, ast.Mod) and isinstance(left, Static) and isinstance(left.value, str):
            return STATIC
        origins = self.meet(left, right)
        sides = [kind for kind in (left, right) if isinstance(kind, Tensor)]
        dtypes = {kind.dtype for kind in sides}
        dtype = dtypes.pop() if len(dtypes) == 1 else "float" if "float" in dtypes else ""
        if isinstance(op, ast.BitAnd | ast.BitOr | ast.BitXor) and dtypes == {"", "bool"}:
            dtype = "bool"  # nobody mixes masks with numbers there
        if isinstance(op, ast.Div) or (Static in (type(left), type(right)) and dtype == "bool"):
            dtype = "float" if isinstance(op, ast.Div) else ""
        other = right if isinstance(left, Tensor) else left
        plain = len(sides) == 2 or isinstance(other, Static | Data)
        shapes = [kind for kind in sides if not kind.scalar]
        root = shapes[0].root if plain and len({kind.root for kind in shapes}) == 1 else ""
        scalar = plain and not shapes
        certain = any(kind.certain for kind in sides)
        return Tensor(dtype, scalar, origins, certain, root)

    def _compare(self, node: ast.Compare, env: Environment) -> Kind:
        kinds = [self.kind(node.left, env), *(self.kind(item, env) for item in node.comparators)]
        if any(isinstance(op, ast.Is | ast.IsNot) for op in node.ops):
            return STATIC
        if any(isinstance(op, ast.In | ast.NotIn) for op in node.ops):
            if kinds[0].is_tensor or (kinds[-1].is_tensor and not isinstance(kinds[0], Static | Data)):
                return DATA
            return DATA if kinds[-1].is_tensor else UNKNOWN
        if any(kind == NONE or (isinstance(kind, Static) and isinstance(kind.value, str)) for kind in kinds):
            return STATIC  # nobody compares a tensor with a string or None to get elements
        tensors = [kind for kind in kinds if isinstance(kind, Tensor)]
        if tensors:
            result = self._arithmetic(kinds[0], ast.Sub(), kinds[1])
            return replace(result, dtype="bool") if isinstance(result, Tensor) else Tensor("bool")
        if any(isinstance(kind, Array) for kind in kinds):
            return ARRAY
        if any(isinstance(kind, Data) for kind in kinds):
            return DATA
        return STATIC if all(isinstance(kind, Static | Device) for kind in kinds) else UNKNOWN

    def _boolean(self, node: ast.BoolOp, env: Environment) -> Kind:
        local = env
        kinds = []
        for value in node.values:
            kinds.append(self.kind(value, local))
            if local is env:
                local = dict(env)
            self.narrow(value, local, truth=isinstance(node.op, ast.And))
        last = kinds[-1]
        flags = all(kind != NONE and isinstance(kind, Static) for kind in kinds[:-1])
        if flags and isinstance(node.op, ast.And) and isinstance(last, Tensor) and last.is_bool:
            return last  # of flags that are set, which is what the condition is there for
        return joined(tuple(kinds))

    def _unary(self, node: ast.UnaryOp, env: Environment) -> Kind:
        operand = self.kind(node.operand, env)
        if isinstance(node.op, ast.Not):
            if isinstance(operand, Tensor | Data):
                return DATA
            return STATIC if isinstance(operand, Static) else UNKNOWN
        if isinstance(operand, Static):
            return STATIC
        return operand if isinstance(operand, Tensor | Data | Array) else UNKNOWN

    def _conditional(self, node: ast.IfExp, env: Environment) -> Kind:
        self.kind(node.test, env)
        then, other = dict(env), dict(env)
        self.narrow(node.test, then, truth=True)
        self.narrow(node.test, other, truth=False)
        truth = self.settled(node.test)
        body = self.kind(node.body, then)
        orelse = self.kind(node.orelse, other)
        if (
            isinstance(body, Static)
            and isinstance(orelse, Static)
            and "cuda" in (str(body.value)[:4], str(orelse.value)[:4])
        ):
            return Device("cuda")
        return body if truth is True else orelse if truth is False else join(body, orelse)

    # containers and the rest

    def _sequence(self, node: ast.Tuple | ast.List | ast.Set, env: Environment) -> Kind:
        items = tuple(self.kind(item, env) for item in node.elts)
        if any(isinstance(item, ast.Starred) for item in node.elts):
            flat = tuple(
                k.element if isinstance(k, Several) else UNKNOWN if isinstance(n, ast.Starred) else k
                for k, n in zip(items, node.elts, strict=True)
            )
            return Several(joined(flat))
        return Several(joined(items), items)

    def _dictionary(self, node: ast.Dict, env: Environment) -> Kind:
        for key in node.keys:
            if key is not None:
                self.kind(key, env)
        return Several(joined(tuple(self.kind(value, env) for value in node.values)))

    def _comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.GeneratorExp | ast.DictComp, env: Environment
    ) -> Kind:
        local = dict(env)
        for generator in node.generators:
            element = element_of(self.kind(generator.iter, local))
            if isinstance(element, Tensor) and _looks_up(node, generator):
                element = STATIC  # the keys of a dictionary
            self._bind(generator.target, element, local)
            for test in generator.ifs:
                self.kind(test, local)
                self.narrow(test, local, truth=True)
        if isinstance(node, ast.DictComp):
            self.kind(node.key, local)
            return Several(self.kind(node.value, local))
        return Several(self.kind(node.elt, local))

    def _bind(self, target: ast.expr, kind: Kind, env: Environment) -> None:
        if isinstance(target, ast.Name):
            env[target.id] = kind
        elif isinstance(target, ast.Tuple | ast.List):
            items = kind.items if isinstance(kind, Several) else None
            for number, element in enumerate(target.elts):
                known = items is not None and number < len(items)
                self._bind(element, items[number] if known and items is not None else element_of(kind), env)

    def _walrus(self, node: ast.NamedExpr, env: Environment) -> Kind:
        kind = self.kind(node.value, env)
        env[node.target.id] = kind
        return kind

    def _starred(self, node: ast.Starred, env: Environment) -> Kind:
        return self.kind(node.value, env)

    def _formatted(self, node: ast.JoinedStr | ast.FormattedValue, env: Environment) -> Kind:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.expr):
                self.kind(child, env)
        return STATIC

    def _slice(self, node: ast.Slice, env: Environment) -> Kind:
        for part in (node.lower, node.upper, node.step):
            if part is not None:
                self.kind(part, env)
        return UNKNOWN

    def _awaited(self, node: ast.Await, env: Environment) -> Kind:
        self.kind(node.value, env)
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, env: Environment) -> Kind:
        base = self.kind(node.value, env)
        index = self.kind(node.slice, env)
        if isinstance(base, Tensor) and isinstance(index, Static) and isinstance(index.value, str):
            return UNKNOWN  # a mapping, after all
        if isinstance(base, Tensor):
            parts = index.items if isinstance(index, Several) and index.items is not None else (index,)
            origins = self.meet(base, *parts)
            # One element of a row has no dimensions, and mixes freely; a row of a table passes for one.
            one = bool(origins) and all(isinstance(part, Static) for part in parts)
            slices = node.slice.elts if isinstance(node.slice, ast.Tuple) else [node.slice]
            one = one and not any(isinstance(part, ast.Slice) or _keeps(part) for part in slices)
            return Tensor(base.dtype, scalar=one, origins=origins, certain=base.certain)
        if isinstance(base, Several):
            if isinstance(index, Static) and isinstance(index.value, int) and base.items is not None:
                number = int(index.value)
                return base.items[number] if -len(base.items) <= number < len(base.items) else base.element
            return base if isinstance(node.slice, ast.Slice) else base.element
        if isinstance(base, Static):
            return DATA if isinstance(index, Data) else STATIC
        if isinstance(base, Data | Array):
            return base
        if isinstance(index, Unknown) and self.traced and (_of_itself(node) or self.compared(node.slice)):
            # Only arrays compare to what chooses elements.
            index = self.kinds[id(node.slice)] = Tensor("bool")
        if isinstance(index, Tensor) and index.is_mask:
            return TENSOR  # nothing else takes a tensor of booleans
        parts = index.items if isinstance(index, Several) and index.items is not None else (index,)
        if self.traced and any(isinstance(part, Tensor) and part.is_traced for part in parts):
            self.meet(*parts)  # only tensors take a tensor of the device for an index
        # only arrays take several slices at once, and traced code has them as tensors
        sliced = isinstance(node.slice, ast.Tuple) and any(isinstance(p, ast.Slice) for p in node.slice.elts)
        return TENSOR if sliced and self.traced else UNKNOWN

    def compared(self, node: ast.expr | None, depth: int = 0) -> bool:
        """Whether an expression is a comparison, or a variable that holds nothing but comparisons."""
        match node:
            case ast.Compare(ops=[ast.Lt() | ast.LtE() | ast.Gt() | ast.GtE()]):
                return True
            case ast.BinOp(op=ast.BitAnd() | ast.BitOr()):
                return self.compared(node.left, depth) and self.compared(node.right, depth)
            case ast.UnaryOp(op=ast.Invert()):
                return self.compared(node.operand, depth)
            case ast.IfExp():
                return self.compared(node.body, depth) and self.compared(node.orelse, depth)
            case ast.Name() if depth == 0:
                function = self.scope.function
                bound = function.bindings.get(node.id, ()) if function is not None else ()
                values = [binding.value for binding in bound if not isinstance(binding.value, ast.Constant)]
                return bool(values) and all(self.compared(value, 1) for value in values)
            case _:
                return False

    @cached_property
    def traced(self) -> bool:
        """Whether tracing reaches this scope."""
        return self.module.trace_path(self.scope) is not None

    # conditions

    def settled(self, test: ast.expr) -> bool | None:
        """The value of a condition that is the same in every trace, such as `torch.jit.is_scripting()`."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self.settled(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            values = [self.settled(value) for value in test.values]
            absorbing = isinstance(test.op, ast.Or)
            if absorbing in values:
                return absorbing
            return (not absorbing) if all(value is not None for value in values) else None
        if not self.traced:
            return None
        if isinstance(test, ast.Compare):
            return of_other_device(test)
        found = self.module.names.lookup(test.id, self.scope) if isinstance(test, ast.Name) else None
        if found is not None and len(found[1]) == 1 and isinstance(found[1][0].value, ast.Compare):
            return of_other_device(found[1][0].value)
        target = test.func if isinstance(test, ast.Call) else test
        qualified = self.module.names.qualified(target, self.scope)
        return SETTLED.get(qualified) if qualified is not None else None

    def narrow(self, test: ast.expr, env: Environment, *, truth: bool) -> None:
        """Learn from a condition that came out true or false."""
        match test:
            case ast.UnaryOp(op=ast.Not()):
                self.narrow(test.operand, env, truth=not truth)
            case ast.BoolOp(op=ast.And()) if truth:
                for value in test.values:
                    self.narrow(value, env, truth=True)
            case ast.BoolOp(op=ast.Or()) if not truth:
                for value in test.values:
                    self.narrow(value, env, truth=False)
            case ast.Compare(
                left=ast.Name(id=name),
                ops=[ast.Is() | ast.IsNot() as op],
                comparators=[ast.Constant(value=None)],
            ):
                if isinstance(op, ast.Is) == truth:
                    env[name] = NONE
                elif env.get(name) == NONE:
                    env[name] = UNKNOWN
            case ast.Compare(
                left=ast.Attribute(value=ast.Name(id=name), attr="dtype"),
                ops=[ast.Eq() | ast.NotEq() | ast.Is() | ast.IsNot() as op],
                comparators=[dtype],
            ):
                known = env.get(name)
                if isinstance(known, Tensor) and isinstance(op, ast.Eq | ast.Is) == truth:
                    qualified = self.module.names.qualified(dtype, self.scope) or ""
                    env[name] = replace(known, dtype=DTYPES.get(qualified.removeprefix("torch."), ""))
            case ast.Call(func=func, args=[ast.Name(id=name), *classes]):
                self._narrow_class(
                    self.module.names.qualified(func, self.scope), name, classes, env, truth=truth
                )
            case ast.Call(func=func, args=[ast.Attribute(value=ast.Name(id=name), attr=attribute), *classes]):
                if (key := f"{name}.{attribute}") in env:
                    self._narrow_class(
                        self.module.names.qualified(func, self.scope), key, classes, env, truth=truth
                    )
            case _:
                pass

    def _narrow_class(
        self, test: str | None, name: str, classes: list[ast.expr], env: Environment, *, truth: bool
    ) -> None:
        if test == "torch.is_tensor":
            tensor = True
        elif test == "builtins.isinstance" and len(classes) == 1:
            wanted = classes[0].elts if isinstance(classes[0], ast.Tuple) else [classes[0]]
            qualified = {self.module.names.qualified(item, self.scope) for item in wanted}
            tensor = qualified == {"torch.Tensor"}
            if truth and qualified <= _NUMBERS:
                env[name] = STATIC
            elif truth and qualified <= _LISTS and not isinstance(env.get(name), Several):
                env[name] = Several(UNKNOWN)
            elif not truth and _is_left(env.get(name), qualified):
                tensor = truth = True
        else:
            return
        known = env.get(name)
        if tensor and truth:
            env[name] = replace(known, certain=True) if isinstance(known, Tensor) else TENSOR
        elif tensor and isinstance(known, Tensor):
            env[name] = UNKNOWN

    #: What evaluates each type of node.
    EVALUATORS: ClassVar[dict[type, Callable[..., Kind]]] = {
        ast.Name: _name,
        ast.Constant: _constant,
        ast.Attribute: _attribute,
        ast.Subscript: _subscript,
        ast.BinOp: _binary,
        ast.Compare: _compare,
        ast.BoolOp: _boolean,
        ast.UnaryOp: _unary,
        ast.IfExp: _conditional,
        ast.Tuple: _sequence,
        ast.List: _sequence,
        ast.Set: _sequence,
        ast.Dict: _dictionary,
        ast.ListComp: _comprehension,
        ast.SetComp: _comprehension,
        ast.GeneratorExp: _comprehension,
        ast.DictComp: _comprehension,
        ast.NamedExpr: _walrus,
        ast.Starred: _starred,
        ast.JoinedStr: _formatted,
        ast.FormattedValue: _formatted,
        ast.Slice: _slice,
        ast.Await: _awaited,
    }


def _global_kind(qualified: str) -> Kind:
    """The type of a dotted name that needs no flow."""
    head = qualified.partition(".")[0]
    return STATIC if head in ("math", "sys", "os") else UNKNOWN


def _keeps(index: ast.expr) -> bool:
    """Whether an index takes no dimension away: `None` and `...`."""
    return isinstance(index, ast.Constant) and index.value in (None, ...)


def _of_itself(node: ast.Subscript) -> bool:
    """Whether an index compares what is indexed: `x[x != 0]`."""
    return isinstance(node.slice, ast.Compare) and ast.dump(node.slice.left) == ast.dump(node.value)


def _is_left(kind: Kind | None, classes: set[str | None]) -> bool:
    """Whether a number, or a list of them, or else a tensor is a tensor, being of none of some classes."""
    if isinstance(kind, Several):
        return classes <= _LISTS and isinstance(kind.element, Tensor) and not kind.element.certain
    return classes <= _NUMBERS and isinstance(kind, Tensor)


def _looks_up(node: ast.expr, generator: ast.comprehension) -> bool:
    """Whether a comprehension looks up what it iterates over in just that: `d[k] for k in d`."""
    looked_up = f"{ast.unparse(generator.iter)}[{ast.unparse(generator.target)}]"
    return any(isinstance(part, ast.Subscript) and ast.unparse(part) == looked_up for part in ast.walk(node))
