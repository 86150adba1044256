"""Mistakes of rules: what is reported of them, and that other rules are not concerned."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tpulint.engine.inquiry import InquiryError, inquire
from tpulint.finding import Finding
from tpulint.rules_api import Context, Rule
from tpulint.rules_api import matchers as m
from tpulint.settings import Settings

if TYPE_CHECKING:
    from tests.robustness.conftest import Command

Register = Callable[..., None]
CALL = m.Call(func=m.Name("odd"))


def good(code: str = "ACME102") -> Rule:
    """A rule that finds each call."""
    made = Rule(code, "a call", module=__name__, fix=None)

    @made.on(ast.Call)
    def check(call: ast.Call, ctx: Context) -> Iterator[Finding]:
        yield ctx.finding(call, "a call")

    return made


def with_handler(check: Callable[..., Any], node: object = ast.Call, **options: Any) -> Rule:
    """A rule with one handler."""
    made = Rule("ACME101", "fails", module=__name__, fix=None)
    made.on(node, **options)(check)
    return made


def raises(call: Any, ctx: Context) -> Iterator[Finding]:
    yield from ()
    raise ValueError("one")


def returns(call: Any, ctx: Context) -> Finding:
    return ctx.finding(call, "found")


def yields_node(call: Any, ctx: Context) -> Iterator[Any]:
    yield call


def finds_at_given(call: Any, ctx: Context) -> Iterator[Finding]:
    yield ctx.finding(call, "found")


def names_given(call: Any, ctx: Context) -> Iterator[Finding]:
    if ctx.names.qualified(call.func) == "odd":
        yield ctx.finding(ctx.node(call), "found")


def infers_given(call: Any, ctx: Context) -> Iterator[Finding]:
    yield ctx.finding(ctx.node(call), str(ctx.types.of(call)))


def replaces_given(call: Any, ctx: Context) -> Iterator[Finding]:
    yield ctx.finding(ctx.node(call), "found", ctx.rewrite.fix("fix", ctx.rewrite.replace(call, "even()")))


def looks_around_given(call: Any, ctx: Context) -> Iterator[Finding]:
    if not ctx.devices.only_with_cuda(call):
        yield ctx.finding(ctx.node(call), "found")


def node_of_ast(call: Any, ctx: Context) -> Iterator[Finding]:
    yield ctx.finding(ctx.node(call), "found")


def rewrite_as_fix(call: Any, ctx: Context) -> Iterator[Finding]:
    rewrite: Any = ctx.rewrite.replace(call, "even()")
    yield ctx.finding(call, "found", rewrite)


def tuple_as_change(call: Any, ctx: Context) -> Iterator[Finding]:
    changes: Any = (ctx.rewrite.replace(call, "even()"),)
    yield ctx.finding(call, "found", ctx.rewrite.fix("fix", changes))


OF_LIBCST = "a node of `ast` is wanted, not `libcst.{}`; `ctx.node(...)` gives that of a LibCST node"


@pytest.mark.parametrize(
    ("failing", "why"),
    [
        (with_handler(raises), "failed at line 1: ValueError: one"),
        (
            with_handler(returns),
            "failed at line 1: TypeError: `returns` returned Finding, but is to be a gen",
        ),
        (
            with_handler(yields_node),
            "failed at line 1: TypeError: `yields_node` yielded Call, but is to yield",
        ),
        (with_handler(finds_at_given, CALL), f"failed at line 1: TypeError: {OF_LIBCST.format('Call')}"),
        (with_handler(names_given, CALL), f"failed at line 1: TypeError: {OF_LIBCST.format('Name')}"),
        (with_handler(infers_given, CALL), f"failed at line 1: TypeError: {OF_LIBCST.format('Call')}"),
        (with_handler(replaces_given, CALL), f"failed at line 1: TypeError: {OF_LIBCST.format('Call')}"),
        (
            with_handler(looks_around_given, CALL),
            f"failed at line 1: TypeError: {OF_LIBCST.format('Call')}",
        ),
        (
            with_handler(node_of_ast),
            "failed at line 1: TypeError: `ctx.node` takes nodes of LibCST, which handl",
        ),
        (
            with_handler(rewrite_as_fix),
            "failed at line 1: TypeError: a fix is what `ctx.rewrite.fix(...)` return",
        ),
        (
            with_handler(tuple_as_change),
            "failed at line 1: TypeError: a change is a rewrite or an import, not tup",
        ),
        (
            with_handler(raises, m.Call(func=m.Nope())),
            "failed: TypeError: no pattern of `libcst.matchers`: module 'libcst.matchers'",
        ),
        (
            with_handler(raises, m.Call(callee=m.Name("odd"))),
            "failed: TypeError: no pattern of `libcst.matchers`: Call.__init__() got an un",
        ),
        (
            with_handler(raises, where=lambda call: call.callee),
            "failed: AttributeError: 'Call' object has no attribute 'callee' (test_failing_rules.py, line ",
        ),
        (
            with_handler(raises, named=lambda name: name.text),
            "failed: AttributeError: 'str' object has no attribute 'text' (test_failing_rules.py, line ",
        ),
    ],
)
def test_a_mistake_names_the_rule_and_the_file_and_leaves_other_rules_alone(
    tpulint: Command, folder: Path, only_rules: Register, failing: Rule, why: str
) -> None:
    only_rules(failing, good())
    (folder / "net.py").write_text("odd()\n")
    outcome = tpulint("check", "--output-format", "json")
    assert (2, [("net.py", "ACME102", 1, 1)]) == (outcome.code, outcome.places)
    [error] = outcome.err.splitlines()
    assert error.startswith(f"error: net.py: rule ACME101 {why}")


def test_each_rule_that_fails_is_reported_once_for_a_file(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    second = Rule("ACME103", "fails", module=__name__, fix=None)
    second.on(ast.Call)(raises)
    only_rules(with_handler(raises), good(), second)
    (folder / "net.py").write_text("odd()\nodd()\n")
    outcome = tpulint("check", "--output-format", "json")
    assert [("net.py", "ACME102", 1, 1), ("net.py", "ACME102", 2, 1)] == outcome.places
    failed = [line.split(" failed ")[0] for line in outcome.err.splitlines()]
    assert ["error: net.py: rule ACME101", "error: net.py: rule ACME103"] == failed


def test_the_mistake_of_a_rule_that_is_not_selected_is_no_error(
    tpulint: Command, folder: Path, only_rules: Register
) -> None:
    only_rules(with_handler(raises), good())
    (folder / "net.py").write_text("odd()\n")
    outcome = tpulint("check", "--output-format", "json", "--ignore", "ACME101")
    assert (1, "", [("net.py", "ACME102", 1, 1)]) == (outcome.code, outcome.err, outcome.places)


def test_explain_at_a_line_reports_the_rule_that_fails(folder: Path, only_rules: Register) -> None:
    only_rules(with_handler(raises), good())
    path = folder / "net.py"
    path.write_text("odd()\n")
    with pytest.raises(InquiryError, match="rule ACME101 failed at line 1: ValueError: one"):
        inquire(path, 1, [path], Settings())
