"""Inference, statement by statement: the kinds of all expressions of one function, in the order of flow."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import ClassVar

from tpulint.knowledge.tensors import RESHAPES_IN_PLACE
from tpulint.model.names.references import is_none_by_default
from tpulint.model.names.scopes import FunctionNode, Scope
from tpulint.model.values.across import Walks
from tpulint.model.values.assignments import plain_assignments
from tpulint.model.values.calls import call_kind
from tpulint.model.values.expressions import Expressions
from tpulint.model.values.kinds import (
    NONE,
    UNKNOWN,
    Device,
    Instance,
    Kind,
    Several,
    Tensor,
    element_of,
    join,
    made_on_host,
)
from tpulint.model.values.parameters import parameter_kinds
from tpulint.model.values.typed_file import Environment, TypedFile

#: Loops nested deeper than this are walked once instead of to a fixed point.
_LOOP_DEPTH = 2
_AS_DECLARED: Mapping[str, Kind] = MappingProxyType({})


class Flow(Expressions):
    """Walks one function (or a module's top level) and records the kind of every expression."""

    def __init__(
        self, module: TypedFile, walks: Walks, scope: Scope, given: Mapping[str, Kind] = _AS_DECLARED
    ) -> None:
        super().__init__(module, walks, scope)
        #: What one call hands to the function's parameters, where that is what is asked.
        self.given = given
        self._loops = 0
        #: What holds where the loop being walked is left or continued early.
        self._left: list[Environment] = []

    def settled(self, test: ast.expr) -> bool | None:
        """The value of a condition that is the same in every trace, or for what a call hands over."""
        match test:
            case ast.Compare(
                left=left, ops=[ast.Is() | ast.IsNot() as op], comparators=[ast.Constant(value=None)]
            ):
                if self.given and self.kinds.get(id(left)) == NONE:
                    return isinstance(op, ast.Is)
        return super().settled(test)

    def _yield(self, node: ast.Yield | ast.YieldFrom, env: Environment) -> Kind:
        self.yields = True
        if node.value is not None:
            self.kind(node.value, env)
        return UNKNOWN

    def _call(self, node: ast.Call, env: Environment) -> Kind:
        return call_kind(self, node, env)

    EVALUATORS: ClassVar[dict[type, Callable[..., Kind]]] = {
        **Expressions.EVALUATORS,
        ast.Call: _call,
        ast.Yield: _yield,
        ast.YieldFrom: _yield,
    }

    def run(self) -> None:
        """Walk the body."""
        node = self.scope.node
        if isinstance(node, FunctionNode):
            env = {**parameter_kinds(self.module, self.scope), **self.given}
            self.initial = dict(env)
            if isinstance(node, ast.Lambda):
                self.returned.append(self.kind(node.body, env))
                self.final = env
            else:
                self.final = self._block(node.body, env) or env
        elif isinstance(node, ast.Module):
            self.final = self._block(node.body, {}) or {}

    def _block(self, body: list[ast.stmt], env: Environment) -> Environment | None:
        """What holds after a block; None where control never gets there."""
        current: Environment | None = env
        for statement in body:
            if current is None:
                break
            current = self._statement(statement, current)
        return current

    def _statement(self, node: ast.stmt, env: Environment) -> Environment | None:
        match node:
            case ast.Expr():
                self._expression(node.value, env)
            case ast.Assign():
                value = self.kind(node.value, env)
                for target in node.targets:
                    self._assign(target, value, env)
            case ast.AnnAssign():
                if node.value is not None:
                    self._assign(node.target, self.kind(node.value, env), env)
            case ast.AugAssign():
                left = self.kind(node.target, env)
                self._assign(node.target, self.binary(left, node.op, self.kind(node.value, env)), env)
            case ast.Return():
                self.returned.append(self.kind(node.value, env) if node.value is not None else NONE)
                return None
            case ast.Raise():
                if node.exc is not None:
                    self.kind(node.exc, env)
                return None
            case ast.Break() | ast.Continue():
                self._left.append(dict(env))
                return None
            case ast.If():
                return self._if(node, env)
            case ast.For() | ast.AsyncFor():
                return self._loop(node, node.body, node.orelse, env, node.target, self.kind(node.iter, env))
            case ast.While():
                return self._loop(node, node.body, node.orelse, env, None, None)
            case ast.With() | ast.AsyncWith():
                return self._with(node, env)
            case ast.Try() | ast.TryStar():
                return self._try(node, env)
            case ast.Assert():
                self.kind(node.test, env)
                if node.msg is not None:
                    self.kind(node.msg, env)
                self.narrow(node.test, env, truth=True)
            case ast.Delete():
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        env.pop(target.id, None)
            case ast.Match():
                self.kind(node.subject, env)
                ends = [self._block(case.body, dict(env)) for case in node.cases]
                return merged([env, *ends])
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                env.pop(node.name, None)
            case _:
                pass
        return env

    def _expression(self, node: ast.expr, env: Environment) -> None:
        self.kind(node, env)
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and isinstance(node.func.value, ast.Name)
        ):
            name, attribute = node.func.value.id, node.func.attr
            known = env.get(name)
            if attribute in RESHAPES_IN_PLACE and isinstance(known, Tensor):
                env[name] = replace(known, root=f"{name}@{node.lineno}:{node.col_offset}")
            elif attribute == "append" and isinstance(known, Several) and node.args:
                env[name] = _with_item(known, self.kind(node.args[0], env))

    def _assign(self, target: ast.expr, value: Kind, env: Environment) -> None:
        match target:
            case ast.Name():
                if isinstance(value, Tensor) and not value.root:
                    value = replace(value, root=f"{target.id}@{target.lineno}:{target.col_offset}")
                env[target.id] = value
                self.kinds[id(target)] = value
            case ast.Tuple() | ast.List():
                for number, element in enumerate(target.elts):
                    self._assign(element, _unpacked(value, number), env)
            case ast.Starred():
                self._assign(target.value, Several(value), env)
            case ast.Attribute():
                if isinstance(target.value, ast.Name):
                    env[f"{target.value.id}.{target.attr}"] = value
                self.kind(target.value, env)
            case ast.Subscript():
                base = self.kind(target.value, env)
                index = self.kind(target.slice, env)
                parts = index.items if isinstance(index, Several) and index.items is not None else (index,)
                if isinstance(base, Several) and isinstance(target.value, ast.Name):
                    env[target.value.id] = _with_item(base, value)
                if not self._write(target, base, (*parts, value)):
                    self.meet(base, *parts)
                    self.meet(base, value)
            case _:
                pass

    def _write(self, target: ast.Subscript, base: Kind, met: tuple[Kind, ...]) -> bool:
        """Whether a tensor of the device, be it a single number, is written into a host tensor."""
        if not made_on_host(base) or not any(kind.is_traced for kind in met):
            return False
        if self.given or not isinstance(target.value, ast.Name):
            self.mixed |= made_on_host(base)
        else:
            self.written.add(id(target))
        return True

    def _if(self, node: ast.If, env: Environment) -> Environment | None:
        self.kind(node.test, env)
        names = (name for branch in (node.body, node.orelse) for name in plain_assignments(branch) or ())
        self.former[id(node)] = {name: env[name] for name in names if name in env}
        truth = self.settled(node.test)
        then, other = dict(env), env
        self.narrow(node.test, then, truth=True)
        self.narrow(node.test, other, truth=False)
        end_then = self._block(node.body, then) if truth is not False else None
        end_other = self._block(node.orelse, other) if truth is not True else None
        name = self._left_out(node.test)
        made = end_then.get(name, UNKNOWN) if end_then is not None else UNKNOWN
        end = merged([end_then, end_other])
        if end is not None and isinstance(made, Tensor) and made.certain:
            known = end[name]
            end[name] = replace(known, certain=True) if isinstance(known, Tensor) else known
        return end

    def _left_out(self, test: ast.expr) -> str:
        """The parameter that a condition asks whether the call left it out; "" for any other condition.

        What it then becomes, it is for all calls that do so.
        """
        match test:
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is()], comparators=[ast.Constant(value=None)]):
                return name if is_none_by_default(name, self.scope) else ""
        return ""

    def _loop(
        self,
        node: ast.stmt,
        body: list[ast.stmt],
        orelse: list[ast.stmt],
        env: Environment,
        target: ast.expr | None,
        iterated: Kind | None,
    ) -> Environment | None:
        start = env
        outer, self._left = self._left, []
        self._loops += 1
        for _ in range(2 if self._loops <= _LOOP_DEPTH else 1):
            current = dict(start)
            if target is not None and iterated is not None:
                self._assign(target, element_of(iterated), current)
            elif isinstance(node, ast.While):
                self.kind(node.test, current)
                self.narrow(node.test, current, truth=True)
            end = self._block(body, current)
            start = merged([start, end, *self._left]) or start
        self._loops -= 1
        self._left = outer
        return self._block(orelse, start) if orelse else start

    def _with(self, node: ast.With | ast.AsyncWith, env: Environment) -> Environment | None:
        placed = 0
        for item in node.items:
            kind = self.kind(item.context_expr, env)
            if isinstance(kind, Device):  # which factories then use
                placed += 1
            if item.optional_vars is not None:
                self._assign(item.optional_vars, self._entered(item.context_expr, kind, env), env)
        self.placed += placed
        end = self._block(node.body, env)
        self.placed -= placed
        return end

    def _entered(self, context: ast.expr, kind: Kind, env: Environment) -> Kind:
        """What a context binds: an object of the program's own does by its `__enter__`."""
        if not isinstance(kind, Instance):
            return UNKNOWN
        entering = ast.Attribute(value=context, attr="__enter__", ctx=ast.Load())
        call = ast.Call(func=ast.copy_location(entering, context), args=[], keywords=[])
        return self.kind(ast.copy_location(call, context), env)

    def _try(self, node: ast.Try | ast.TryStar, env: Environment) -> Environment | None:
        before = dict(env)
        end = self._block(node.body, env)
        if end is not None and node.orelse:
            end = self._block(node.orelse, end)
        interrupted = merged([before, end]) or before
        ends = [end, *(self._block(handler.body, dict(interrupted)) for handler in node.handlers)]
        after = merged(ends)
        if node.finalbody:
            closing = self._block(node.finalbody, after if after is not None else dict(interrupted))
            return closing if after is not None else None
        return after


def merged(ends: list[Environment | None]) -> Environment | None:
    """What holds where several paths meet; None where none of them arrives."""
    live = [end for end in ends if end is not None]
    if not live:
        return None
    result = live[0]
    for other in live[1:]:
        if other is result:
            continue
        for name, kind in other.items():
            known = result.get(name)
            if known is not kind:
                result[name] = kind if known is None else join(known, kind)
    return result


def _with_item(known: Several, value: Kind) -> Several:
    """A list or dictionary into which one more value is put."""
    return Several(value if known.items == () else join(known.element, value))


def _unpacked(kind: Kind, number: int) -> Kind:
    if isinstance(kind, Several) and kind.items is not None and number < len(kind.items):
        return kind.items[number]
    return element_of(kind)
