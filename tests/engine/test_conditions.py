"""The condition by which a rule's handler leaves, on handlers of this file."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tpulint.engine.conditions import Condition, deciding_condition
from tpulint.finding import Applicability, Finding
from tpulint.model.module import Module
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.rules_api import Context, Rule
from tpulint.source import Source

Found: TypeAlias = Iterator[Finding]

MODULE = Module(Source("a.py", "import math\nx = [math.pi, 1]\ny = x.item()\n"), ModulePath("a"))
CALL = next(node for node in ast.walk(MODULE.source.tree) if isinstance(node, ast.Call))
RULE = Rule("TPU999", "a rule of this test", module=__name__, fix=Applicability.SAFE)
CONTEXT = Context(RULE, MODULE, MODULE.index.module)


def is_long(_: ast.Call) -> bool:
    """Whether the name is long; it never is."""
    return False


def is_call(node: ast.AST) -> bool:
    """Whether it is a call."""
    return isinstance(node, ast.Call)


def first_tensor(_: ast.Call) -> ast.expr | None:
    """The first tensor among the arguments; None if there is none."""
    return None


@RULE.on(ast.Call)
def by_fact(call: ast.Call, ctx: Context) -> Found:
    if not is_call(call):
        return
    if not is_long(call):
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_exception(call: ast.Call, ctx: Context) -> Found:
    if is_long(call) or is_call(call):
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_missing_part(call: ast.Call, ctx: Context) -> Found:
    found = first_tensor(call)
    if found is not None:
        yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_type(call: ast.Call, ctx: Context) -> Found:
    assert isinstance(call.func, ast.Attribute)
    kind = ctx.types.of(call.func.value)
    if not is_call(call):
        return
    if not kind.is_traced:
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_name_in_another_generator(call: ast.Call, ctx: Context) -> Found:
    assert isinstance(call.func, ast.Attribute)
    yield from _named([call.func.value], ctx)


def _named(parts: list[ast.expr], ctx: Context) -> Found:
    for part in parts:
        if ctx.names.qualified(part) != "math.e":
            continue
        yield ctx.finding(part, "found")


@RULE.on(ast.Call)
def by_any(call: ast.Call, ctx: Context) -> Found:
    if any(is_long(part) for part in (call, call)):
        yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_negated_any(call: ast.Call, ctx: Context) -> Found:
    if not any(is_long(part) for part in (call, call)):
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_form(call: ast.Call, ctx: Context) -> Found:
    if is_call(call) and len(call.args) == 9:
        yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def past_a_guard_by_match(call: ast.Call, ctx: Context) -> Found:
    if not is_call(call):
        return
    match call:
        case ast.Call(func=ast.Name()):
            yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def past_a_guard_by_loop(call: ast.Call, ctx: Context) -> Found:
    if not is_call(call):
        return
    for argument in call.args:
        yield ctx.finding(argument, "found")


@RULE.on(ast.Call)
def by_comprehension_that_shadows(call: ast.Call, ctx: Context) -> Found:
    if not any(is_call(call) for call in ctx.tree.body):
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_property(call: ast.Call, ctx: Context) -> Found:
    while ctx.program.is_import_time:
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_property_of_a_namespace(call: ast.Call, ctx: Context) -> Found:
    if is_call(call) and ctx.program.is_import_time:
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_check_of_a_namespace(call: ast.Call, ctx: Context) -> Found:
    if ctx.program.is_import_time and not ctx.names.is_bound("torch"):
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_type_of_a_namespace(call: ast.Call, ctx: Context) -> Found:
    assert isinstance(call.func, ast.Attribute)
    if not ctx.types.of(call.func.value).is_traced:
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def by_lookup_in_a_choice(call: ast.Call, ctx: Context) -> Found:
    statement = ctx.parent(call) if not ctx.program.is_import_time else None
    if not isinstance(statement, ast.Expr):
        return
    yield ctx.finding(call, "found")


@RULE.on(ast.Call)
def without_a_guard(_call: ast.Call, ctx: Context) -> Found:
    yield from ()


def condition(name: str) -> Condition:
    handler = next(one for one in RULE.handlers if one.check.__name__ == name)
    return deciding_condition(handler, lambda: list(handler.check(CALL, CONTEXT)))


@pytest.mark.parametrize(
    ("handler", "expected"),
    [
        ("by_fact", "this does not hold: the name is long"),
        ("by_exception", "it is a call"),
        ("by_missing_part", "not found here: the first tensor among the arguments"),
        ("by_any", "this does not hold: the name is long"),
        ("by_negated_any", "this does not hold: the name is long"),
        ("by_comprehension_that_shadows", "this does not hold: it is a call"),
        ("by_property", "the code runs when its file is imported"),
        ("by_property_of_a_namespace", "the code runs when its file is imported"),
        ("by_check_of_a_namespace", "this does not hold: the name is defined here"),
        ("by_lookup_in_a_choice", ""),
        ("by_form", ""),
        ("past_a_guard_by_match", ""),
        ("past_a_guard_by_loop", ""),
        ("without_a_guard", ""),
    ],
)
def test_the_docstring_of_the_last_check_states_the_condition(handler: str, expected: str) -> None:
    assert condition(handler).reason.startswith(expected)
    assert expected or not condition(handler).reason


@pytest.mark.parametrize("handler", ["by_type", "by_type_of_a_namespace"])
def test_an_inferred_type_that_decided_is_given_by_its_expression(handler: str) -> None:
    decided = condition(handler)
    assert isinstance(decided.expression, ast.Name)
    assert ("", "x") == (decided.reason, decided.expression.id)


def test_guards_of_a_generator_that_the_handler_delegates_to_count() -> None:
    decided = condition("by_name_in_another_generator")
    assert isinstance(decided.expression, ast.Name)
    assert ("", "x") == (decided.reason, decided.expression.id)


def test_the_trace_function_is_as_it_was_before() -> None:
    before = sys.gettrace()
    condition("by_fact")
    assert before is sys.gettrace()


def test_a_handler_without_python_code_or_source_has_no_condition(tmp_path: Path) -> None:
    handler = RULE.handlers[0]
    assert Condition() == deciding_condition(replace(handler, check=partial(handler.check)), list)
    names: dict[str, Any] = {}
    text = "def check(call, ctx):\n    if not call:\n        return\n    yield\n"
    exec(compile(text, tmp_path / "gone.py", "exec"), names)
    gone = replace(handler, check=names["check"])
    assert Condition() == deciding_condition(gone, lambda: list(names["check"](None, None)))
