"""Why a rule reported nothing at a location: the condition that did not hold there.

A handler is a generator with guards such as `if not ...: return`, so the guard by which it left decides.
The handler is run under a tracer to find that guard, and the parts of the guard are evaluated again to find
the one that decided. The docstring of the function that this part calls says what it checks. If the part
looks at an inferred type or a name, that type or name is the reason.
"""

from __future__ import annotations

import ast
import inspect
import linecache
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from types import CodeType, FrameType
from typing import Any

from tpulint.model.names.scopes import Scope
from tpulint.rules_api import Context
from tpulint.rules_api.names import Names
from tpulint.rules_api.namespace import Namespace
from tpulint.rules_api.rule import Handler
from tpulint.rules_api.types import Types

_LOOKUPS = (Types.of, Names.qualified)
_WHETHER = "Whether "
_LEAVES = (ast.Return, ast.Continue, ast.Break)


@dataclass(frozen=True, slots=True)
class Condition:
    """What decided that a handler reports nothing.

    `reason` says it in words, of `expression` if there is one. Without a reason, the expression has a type or
    a name that the rule does not look for. Without either, the code has another form than the rule looks for.
    """

    reason: str = ""
    expression: ast.expr | None = None
    scope: Scope | None = None


def deciding_condition(handler: Handler, run: Callable[[], object]) -> Condition:
    """The condition because of which a handler reports nothing; `run` runs the handler to its end."""
    code = getattr(handler.check, "__code__", None)
    if code is None:  # some other callable of a third party's rule
        run()
        return Condition()
    for last in reversed(_lines(code.co_filename, run)):
        for function, test, body in _tests(last.code.co_filename):
            lines = range(test.lineno, (test.end_lineno or test.lineno) + 1)
            left = [node.lineno for node in body if isinstance(node, _LEAVES)]
            if function.name == last.code.co_name and last.line in (*lines, *left):
                guard = _Guard(function, test, last.names)
                return guard.condition(ends_if_true=bool(left), ends_if_false=_yields(body))
    return Condition()


def _yields(body: list[ast.stmt]) -> bool:
    return any(isinstance(node, ast.Yield | ast.YieldFrom) for part in body for node in ast.walk(part))


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a generator as it is reached, with the values of all names."""

    code: CodeType
    line: int
    names: dict[str, Any]


def _lines(file: str, run: Callable[[], object]) -> list[_Line]:
    """The lines that generators defined in a file run, in order."""
    found: list[_Line] = []

    def ran(frame: FrameType, event: str, _argument: object) -> Callable[..., Any]:
        if event == "line":
            found.append(_Line(frame.f_code, frame.f_lineno, {**frame.f_globals, **frame.f_locals}))
        return ran

    def called(frame: FrameType, _event: str, _argument: object) -> Callable[..., Any] | None:
        code = frame.f_code
        is_handler = code.co_flags & inspect.CO_GENERATOR and not code.co_name.startswith("<")
        return ran if code.co_filename == file and is_handler else None

    before = sys.gettrace()
    sys.settrace(called)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


class _Guard:
    """The condition of an `if` or `while` in a handler, with the values of the names in it."""

    def __init__(self, function: ast.FunctionDef, test: ast.expr, names: Mapping[str, Any]) -> None:
        self._function = function
        self._test = test
        self._names = dict(names)

    def condition(self, *, ends_if_true: bool, ends_if_false: bool) -> Condition:
        """The part of the guard that decided, in words; none if the handler went on behind the guard."""
        try:
            part, is_true, holds = self._deciding(self._test)
            ends = ends_if_true if holds else ends_if_false
            return next(self._described(part, is_true), Condition()) if ends else Condition()
        except Exception:  # the names may have other values by now than where the guard was evaluated
            return Condition()

    def _value(self, node: ast.expr) -> Any:
        return eval(compile(ast.Expression(node), "<guard>", "eval"), self._names)

    def _deciding(self, test: ast.expr) -> tuple[ast.expr, bool, bool]:
        """The part that decides a condition, whether the part is true, and whether the condition is."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            part, is_true, holds = self._deciding(test.operand)
            return part, is_true, not holds
        if not isinstance(test, ast.BoolOp):
            holds = bool(self._value(test))
            return test, holds, holds
        ends_with = isinstance(test.op, ast.Or)
        for value in test.values:
            part, is_true, holds = self._deciding(value)
            if holds is ends_with:
                break
        return part, is_true, holds

    def _described(self, part: ast.expr, is_true: bool) -> Iterator[Condition]:
        """What calls and properties in a part check, outermost first, or the calls that gave its names."""
        loops = (node for node in ast.walk(part) if isinstance(node, ast.comprehension))
        inner = {name.id for loop in loops for name in ast.walk(loop.target) if isinstance(name, ast.Name)}
        for node in ast.walk(part):
            if isinstance(node, ast.Call):
                yield from self._called(node, is_true, inner)
            elif isinstance(node, ast.Attribute):
                owner = self._asked(node.value)
                found = inspect.getattr_static(type(owner), node.attr, None)
                if owner is not None and isinstance(found, property):
                    value = self._value(node)
                    if not isinstance(value, Namespace):
                        yield from _said(found.__doc__, value, None, None)
        names = {node.id for node in ast.walk(part) if isinstance(node, ast.Name)} - inner
        for value in _assigned(self._function, names, part.lineno):
            calls = [node for node in ast.walk(value) if isinstance(node, ast.Call)]
            for call in calls[:1] if isinstance(value, ast.Call) else calls:
                found = self._called(call, is_true, set())
                yield from (one for one in found if call is value or not one.reason)

    def _asked(self, node: ast.expr) -> Context | Namespace | None:
        """The context, or the namespace of it, that an expression such as `ctx.names` is."""
        if isinstance(node, ast.Name):
            owner = self._names.get(node.id)
        elif isinstance(node, ast.Attribute) and self._asked(node.value) is not None:
            owner = self._value(node)
        else:
            return None
        return owner if isinstance(owner, Context | Namespace) else None

    def _called(self, call: ast.Call, is_true: bool, inner: set[str]) -> Iterator[Condition]:
        """What a call checks; `inner` are names of a comprehension around it, whose values are gone."""
        used = {node.id for node in ast.walk(call) if isinstance(node, ast.Name)}
        if used & inner and not any(isinstance(node, ast.comprehension) for node in ast.walk(call)):
            if isinstance(call.func, ast.Name) and inspect.isroutine(self._names.get(call.func.id)):
                yield from _said(self._names[call.func.id].__doc__, is_true, None, None)
            return
        function = self._value(call.func)
        arguments = [self._value(argument) for argument in call.args]
        expression = next((value for value in arguments if isinstance(value, ast.expr)), None)
        owners = [*arguments, getattr(function, "__self__", None)]
        scope = next((owner.scope for owner in owners if isinstance(owner, Context | Namespace)), None)
        scope = scope or next((value for value in arguments if isinstance(value, Scope)), None)
        if expression is not None and getattr(function, "__func__", None) in _LOOKUPS:
            yield Condition("", expression, scope)
        elif inspect.isfunction(function) or inspect.ismethod(function):
            yield from _said(function.__doc__, self._value(call), expression, scope)


def _said(doc: str | None, result: object, node: ast.expr | None, scope: Scope | None) -> Iterator[Condition]:
    """What a docstring that begins with "Whether", or, of what may be None, with "The", says of a result."""
    first = " ".join((doc or "").split("\n\n")[0].split()).split("; ")[0].rstrip(".")
    if first.startswith(_WHETHER):
        statement = first.removeprefix(_WHETHER)
        yield Condition(statement if result else f"this does not hold: {statement}", node, scope)
    elif first.startswith("The ") and "None" in (doc or ""):
        found = "not found here" if result is None or result is False else "found here"
        yield Condition(f"{found}: t{first[1:]}", node, scope)


def _assigned(function: ast.FunctionDef, names: set[str], before: int) -> Iterator[ast.expr]:
    """What a function assigns to one of some names before a line, the last assignment first."""
    found = [node for node in ast.walk(function) if isinstance(node, ast.Assign) and node.lineno < before]
    for node in sorted(found, key=lambda node: -node.lineno):
        parts = (part for target in node.targets for part in ast.walk(target))
        if any(isinstance(part, ast.Name) and part.id in names for part in parts):
            yield node.value


@cache
def _tests(path: str) -> tuple[tuple[ast.FunctionDef, ast.expr, list[ast.stmt]], ...]:
    """The conditions of a file's functions, each with its function and the statements that it guards.

    There are none if the source is not there, as in a rule package without its sources.
    """
    try:
        tree = ast.parse("".join(linecache.getlines(path)))
    except (SyntaxError, ValueError):
        return ()
    return tuple(
        (function, node.test, node.body)
        for function in ast.walk(tree)
        if isinstance(function, ast.FunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.If | ast.While)
    )
