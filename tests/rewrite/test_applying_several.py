"""Laws of applying several fixes to one file, over any rewrites of its nodes."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.rewriting import fix_of, planned
from tpulint.finding import Fix
from tpulint.plan import Import, Kind, Rewrite, path_of
from tpulint.rewrite.apply import File
from tpulint.rewrite.code import BrokenCodeError
from tpulint.source import Source

TEXT = """\
# the header
import os

a = f(b, c, d=g(e))  # behind
if h: i; j = k
if l > m:
    # above n
    n = [o, p]
elif q:
    pass
with r, s(t) as u:
    v.w = x

    y = {0: z}
b = 1; c = 2; d = 3


@aa
# above
@bb.cc(dd)
def ee(ff, gg=hh):
    \"\"\"What it does.\"\"\"
    return (ii  # inside
            + jj)
"""
SOURCE = Source("file.py", TEXT)
PARENTS = {id(child): node for node in ast.walk(SOURCE.tree) for child in ast.iter_child_nodes(node)}


def _rewrites_of(node: ast.AST, new: str) -> Iterator[tuple[Kind, tuple[str, ...]]]:
    """The rewrites of one node, with `new` as the name in their code."""
    if isinstance(node, ast.expr) and not isinstance(getattr(node, "ctx", ast.Load()), ast.Store):
        yield Kind.REPLACE, (new,)
        yield Kind.WRAP, (f"{new}(", ")")
    if isinstance(node, ast.Name | ast.Attribute | ast.keyword | ast.FunctionDef):
        yield Kind.RENAME, (new,)
    if isinstance(node, ast.Call):
        yield Kind.ADD_ARGUMENT, (f"{new}=0",)
        yield Kind.ADD_ARGUMENT, (new, "0")
    if isinstance(PARENTS.get(id(node)), ast.Call):
        yield Kind.REMOVE_ARGUMENT, ()
        if isinstance(node, ast.expr):
            yield Kind.NAME_ARGUMENT, (new,)
    if isinstance(node, ast.stmt):
        yield Kind.REPLACE, (f"{new} = 0",)
        yield Kind.WRAP, (f"with {new}:",)
        yield Kind.DELETE, ()
        for kind in (Kind.INSERT_ABOVE, Kind.INSERT_BEFORE, Kind.INSERT_AFTER):
            yield kind, (new,)
            yield kind, (f"\nif {new}: pass\n",)
        yield Kind.REPLACE_RUN, (new, "2")
        yield Kind.SPLIT, ()
        yield Kind.KEEP_IF, (new,)
    if isinstance(node, ast.FunctionDef):
        yield Kind.ADD_DECORATOR, (new,)
        yield Kind.ADD_DECORATOR, (new, "outermost")
    if isinstance(node, ast.withitem):
        yield Kind.UNWRAP, ()
    if isinstance(node, ast.If):
        yield Kind.ADD_ELSE, (new,)


NODES = [node for node in ast.walk(SOURCE.tree) if not isinstance(node, ast.expr_context | ast.Module)]
CHOICES = [(node, number) for node in NODES for number, _ in enumerate(_rewrites_of(node, "new"))]


@st.composite
def rewrites(draw: st.DrawFn, new: str) -> Rewrite:
    node, number = draw(st.sampled_from(CHOICES))
    kind, code = list(_rewrites_of(node, new))[number]
    return Rewrite(path_of(node, lambda inner: PARENTS.get(id(inner))), kind, code)


IMPORTS = (Import("import torch"), Import("import sys"), Import("from torch import nn"))


@st.composite
def fixes(draw: st.DrawFn) -> list[Fix]:
    """Fixes whose rewrites each have a name of their own in their code."""
    made: list[Fix] = []
    for number in range(draw(st.integers(1, 5))):
        own = [draw(rewrites(f"new{number}{letter}")) for letter in draw(st.sampled_from(("x", "x", "xy")))]
        imports = draw(st.lists(st.sampled_from(IMPORTS), max_size=1))
        if not any(one.conflicts_with(other) for one, other in combinations(own, 2)):
            made.append(fix_of(*own, *imports))
    return made


def apply(given_fixes: list[Fix]) -> tuple[str, list[Fix]]:
    text, taken = File(SOURCE, given_fixes).apply(given_fixes)
    return text, list(taken)


def excluding(one: Fix, other: Fix) -> bool:
    return any(mine.conflicts_with(their) for mine in one.rewrites for their in other.rewrites)


def names(text: str) -> set[str]:
    nodes = list(ast.walk(ast.parse(text)))
    found = {node.id for node in nodes if isinstance(node, ast.Name)}
    found |= {node.attr for node in nodes if isinstance(node, ast.Attribute)}
    found |= {node.arg or "" for node in nodes if isinstance(node, ast.keyword)}
    return found | {node.name for node in nodes if isinstance(node, ast.FunctionDef)}


@settings(max_examples=60)
@given(fixes())
def test_applied_fixes_do_not_exclude_each_other(given_fixes: list[Fix]) -> None:
    _, taken = apply(given_fixes)
    assert [pair for pair in combinations(taken, 2) if excluding(*pair)] == []


@settings(max_examples=60)
@given(fixes())
def test_the_result_has_the_code_of_each_applied_fix_and_of_no_other(given_fixes: list[Fix]) -> None:
    text, taken = apply(given_fixes)
    expected = {
        f"new{number}{letter}"
        for number, letter in ((n, x) for n in range(5) for x in "xy")
        if any(f"new{number}{letter}" in "".join(one.code) for fix in taken for one in fix.rewrites)
    }
    assert expected == {name for name in names(text) if name.startswith("new")}
    imported = {one.statement for fix in taken for one in fix.imports}
    assert imported == {one.statement for one in IMPORTS if one.statement in text.splitlines()}


@settings(max_examples=60)
@given(fixes())
def test_a_fix_is_skipped_only_if_an_applied_one_excludes_it_or_it_is_impossible(
    given_fixes: list[Fix],
) -> None:
    _, taken = apply(given_fixes)
    for fix in given_fixes:
        alone = [fix] == apply([fix])[1]
        assert fix in taken or not alone or any(excluding(fix, other) for other in taken)


@settings(max_examples=60)
@given(fixes())
def test_applied_fixes_keep_their_order_and_the_first_possible_one_is_applied(
    given_fixes: list[Fix],
) -> None:
    _, taken = apply(given_fixes)
    assert [fix for fix in given_fixes if fix in taken] == taken
    assert [fix for fix in given_fixes if apply([fix])[1]][:1] == taken[:1]


@settings(max_examples=60)
@given(fixes(), st.randoms(use_true_random=False))
def test_fixes_that_do_not_exclude_each_other_commute(given_fixes: list[Fix], random: object) -> None:
    text, taken = apply(given_fixes)
    shuffled = list(taken)
    getattr(random, "shuffle")(shuffled)  # noqa: B009
    assert text == apply(shuffled)[0]


@settings(max_examples=60)
@given(fixes(), st.integers(1, 3))
def test_a_fix_given_again_changes_nothing(given_fixes: list[Fix], times: int) -> None:
    text, taken = apply(given_fixes)
    assert (text, taken * times) == apply(taken * times)


@settings(max_examples=60)
@given(fixes())
def test_an_impossible_fix_leaves_the_file_to_the_others(given_fixes: list[Fix]) -> None:
    impossible = [
        fix_of(
            planned(SOURCE, "o", Kind.REPLACE, "new8x"),
            Rewrite((("body", 99), ("value", -1)), Kind.WRAP, ("", "")),
        ),
        fix_of(Rewrite((("body", 99),), Kind.DELETE)),
    ]
    assert apply(given_fixes) == apply([*impossible, *given_fixes])
    assert (TEXT, []) == apply(impossible)


@pytest.mark.parametrize("code", ["((", "a = ", "def", "a b", "return)"])
def test_code_that_does_not_parse_is_an_error(code: str) -> None:
    for node, kind in (("o", Kind.REPLACE), ("y = {0: z}", Kind.INSERT_AFTER)):
        with pytest.raises(BrokenCodeError):
            apply([fix_of(planned(SOURCE, node, kind, code))])


@settings(max_examples=60)
@given(fixes())
def test_comments_of_nodes_that_stay_are_kept(given_fixes: list[Fix]) -> None:
    kept = [
        fix
        for fix in given_fixes
        if all(one.kind not in (Kind.REPLACE, Kind.REPLACE_RUN, Kind.DELETE) for one in fix.rewrites)
    ]
    text, _ = apply(kept)
    comments = [line.partition("#")[2] for line in TEXT.splitlines() if "#" in line]
    assert [comment for comment in comments if comment not in text] == []
