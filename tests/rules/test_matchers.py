"""Rules that register patterns of `libcst.matchers`: what is derived from a pattern, and what is matched."""

from __future__ import annotations

import ast
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import libcst as cst
import libcst.matchers as real
import pytest

from tpulint.engine.candidates import candidates
from tpulint.engine.desk import Unit, asked, parsed
from tpulint.finding import Finding
from tpulint.model.module import Module
from tpulint.model.syntax.parsed_file import ModulePath
from tpulint.plan import path_of
from tpulint.rewrite.tree import Tree
from tpulint.rules_api import Context, Rule
from tpulint.rules_api import matchers as late
from tpulint.rules_api.pattern import pattern_of

ROOT = Path(__file__).parents[2]
FILES = sorted((ROOT / "tpulint" / "engine").glob("*.py"))
both = pytest.mark.parametrize("m", [late, real], ids=["late", "libcst"])


def module(text: str) -> Module:
    return parsed(Unit("/project/net.py", textwrap.dedent(text).encode(), ModulePath("net")))


def rule(*patterns: Any, **options: Any) -> Rule:
    """A rule that reports what the patterns match, with the qualified name of what is called, if any."""
    made = Rule("X101", "match", module="pack.family.match", fix=None)

    def check(found: Any, ctx: Context) -> Iterator[Finding]:
        node = ctx.node(found)
        name = ctx.names.qualified(node.func) if isinstance(node, ast.Call) else None
        yield ctx.finding(node, f"{ctx.code(found)} is {name}")

    for pattern in patterns:
        made.on(pattern, **options)(check)
    return made


def found(text: str, *patterns: Any, **options: Any) -> list[tuple[int, str]]:
    """The lines and messages of what patterns match in a text."""
    made, file = rule(*patterns, **options), module(text)
    findings = []
    for handler in made.handlers:
        file.answers.clear()
        for match in candidates(file, handler):
            findings += asked(made, handler, match, file)
    return [(one.location.row, one.message) for one in findings]


# what is derived from a pattern


@both
def test_names_that_a_file_must_have(m: Any) -> None:
    cuda, to = m.Attribute(attr=m.Name("cuda")), m.Attribute(attr=m.Name("to"))
    device = m.Arg(keyword=m.Name("device"), value=m.SimpleString('"cuda"'))
    expected = [
        (m.Call(func=cuda), [{"cuda"}]),
        (m.Call(func=m.Attribute(m.Name("x"), m.Name("cuda"))), [{"x"}, {"cuda"}]),
        (m.Call(func=cuda | to), [{"cuda", "to"}]),
        (m.Call(func=m.OneOf(cuda, m.Name("f"), to)), [{"cuda", "f", "to"}]),
        (m.Call(func=cuda | m.Subscript()), []),
        (m.Call(func=to, args=[m.ZeroOrMore(), device, m.ZeroOrMore()]), [{"to"}, {"device"}, {'"cuda"'}]),
        (m.Call(func=to, args=[m.AtLeastN(device, n=1)]), [{"to"}, {"device"}, {'"cuda"'}]),
        (m.Call(func=to, args=[m.AtLeastN(device, n=0)]), [{"to"}]),
        (m.Call(func=to, args=[m.ZeroOrMore(device)]), [{"to"}]),
        (m.Call(func=to, args=[m.ZeroOrOne(device)]), [{"to"}]),
        (m.Call(func=to, args=[m.AtMostN(device, n=2)]), [{"to"}]),
        (m.Call(func=m.Attribute(attr=~m.Name("to"))), []),
        (m.Call(func=m.DoNotCare(), args=[m.DoNotCare()]), []),
        (m.Call(func=m.SaveMatchedNode(cuda, "callee")), [{"cuda"}]),
        (m.Name(m.OneOf("a", "b")), [{"a", "b"}]),
        (m.Name(m.MatchRegex("a.*")), []),
        (m.Name(m.MatchIfTrue(str.isupper)), []),
        (m.AllOf(m.Name("a"), m.Name("b")), [{"a"}, {"b"}]),
        (m.TypeOf(m.If, m.While), []),
        (m.Integer("7"), [{"7"}]),
        (m.BinaryOperation(left=m.Name("a"), operator=m.Add(), right=m.Float("1.5")), [{"a"}, {"1.5"}]),
        (m.Call(func=to, args=[m.Arg(star="*")]), [{"to"}]),
    ]
    assert [set(map(frozenset, names)) for _, names in expected] == [
        set(pattern_of(pattern).names) for pattern, _ in expected
    ]


@both
def test_node_types_that_a_pattern_can_match(m: Any) -> None:
    assert (ast.Call,) == pattern_of(m.Call()).nodes
    assert (ast.For, ast.AsyncFor, ast.While) == pattern_of(m.For() | m.While()).nodes
    assert (ast.If, ast.While) == pattern_of(m.TypeOf(m.If, m.While)).nodes
    assert (ast.With, ast.AsyncWith) == pattern_of(m.SaveMatchedNode(m.With(), "block")).nodes


@both
def test_patterns_of_other_nodes_are_refused(m: Any) -> None:
    for pattern in (m.Comma(), m.Arg(), ~m.Call(), m.DoNotCare(), m.Call() | m.Comment(), "cuda", None):
        with pytest.raises(TypeError, match="no pattern of an expression or statement"):
            rule(pattern)
    with pytest.raises(TypeError, match="`named` is for patterns of calls"):
        rule(m.Call() | m.Attribute(), named={"cuda"})


def test_names_are_whole_words() -> None:
    pattern = pattern_of(late.Name("item"))
    assert [True, True, False, False] == [
        pattern.may_be_in(text) for text in ("x.item()", "f(item)", "items", "an_item = 1")
    ]


# what is matched


@both
def test_handler_gets_the_node_of_libcst_and_asks_about_that_of_ast(m: Any) -> None:
    text = """\
    import torch as t

    def f(x):
        t.cuda.synchronize()  # cuda
        return x.cuda(), x.cuda, [y.cuda(0) for y in x]
    """
    call = m.Call(func=m.Attribute(attr=m.Name("cuda") | m.Name("synchronize")))
    assert [
        (4, "t.cuda.synchronize() is torch.cuda.synchronize"),
        (5, "x.cuda() is None"),
        (5, "y.cuda(0) is None"),
    ] == sorted(found(text, call))


def test_statements_are_matched_in_every_block() -> None:
    text = """\
    def f(x):
        try:
            y = x.data; z = x.data
        except ValueError: y = x.data
        else:
            with x: y = x.data
        finally:
            if y: pass
            elif z: y = x.data
        class A:
            @x.data
            def g(self, a: x.data = x.data): return lambda: x.data
    """
    m = late
    value = m.Attribute(attr=m.Name("data"))
    rows = [row for row, _ in found(text, m.Assign(value=value))]
    assert [3, 3, 4, 6, 9] == sorted(rows)
    assert [3, 3, 4, 6, 9, 11, 12, 12, 12] == sorted(row for row, _ in found(text, value))


@both
def test_callees_are_found_under_the_names_that_imports_give_them(m: Any) -> None:
    text = """\
    import jax.numpy as jnp
    from torch import relu, tanh as th

    th(relu(1), out=2)
    x = f"{th(3, out=4)}"
    tanh(5, out=6)
    relu(th(7))
    jnp.tanh(8, out=9)
    """
    pattern = m.Call(args=[m.ZeroOrMore(), m.Arg(keyword=m.Name("out"))])
    assert [
        (4, "th(relu(1), out=2) is torch.tanh"),
        (5, "th(3, out=4) is torch.tanh"),
        (6, "tanh(5, out=6) is None"),
        (8, "jnp.tanh(8, out=9) is jax.numpy.tanh"),
    ] == sorted(found(text, pattern, named={"tanh"}))
    assert [] == found(text, pattern, named={"relu"})
    assert 5 == len(found(text, m.Call(), named={"tanh"}))


def test_conditions_of_a_handler_hold_for_patterns_too() -> None:
    text = "x.cuda()\nx.cuda(1)\n"
    pattern = late.Call(func=late.Attribute(attr=late.Name("cuda")))
    assert [1] == [row for row, _ in found(text, pattern, where=lambda call: not call.args)]


def test_names_and_keyword_arguments_of_a_handler_have_to_be_there_both() -> None:
    text = "f(a=1)\nf(b=1)\ng(a=1)\nx.f(**a)\n"
    made = Rule("X101", "match", module="pack.family.match", fix=None)
    made.on(ast.Call, named={"f"}, passing={"a", "c"})(lambda *_: iter(()))
    file = module(text)
    assert ["f(a=1)"] == [ast.unparse(match.node) for match in candidates(file, made.handlers[0])]


def test_parts_of_a_match_have_nodes_of_their_own() -> None:
    file = module("f(a, *b, c and d and e, key=g[h, 1:2])\n")
    pattern = late.Call(func=late.Name("f"))
    handler = rule(pattern).handlers[0]
    (match,) = candidates(file, handler)
    ctx = Context(rule(pattern), file, match.scope)
    texts = [ast.unparse(ctx.node(one)) for one in match.given.args]  # type: ignore[attr-defined]
    assert ["a", "*b", "c and d and e", "key=g[h, 1:2]"] == texts
    with pytest.raises(LookupError, match="no expression or statement of this file: Comma"):
        ctx.node(match.given.args[0].comma)  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "pattern",
    [
        real.Call(func=real.Attribute(attr=real.Name("append"))),
        real.Call(func=real.Name("isinstance"), args=[real.Arg(real.Attribute()), real.ZeroOrMore()]),
        real.If(orelse=real.Else()),
        real.Comparison(comparisons=[real.ComparisonTarget(operator=real.In() | real.NotIn())]),
        real.FunctionDef(decorators=[real.AtLeastN(real.Decorator(real.Name("cached_property")), n=1)]),
        real.Return(real.ListComp() | real.DictComp()),
        real.SimpleString('"rb"'),
        real.Call(args=[real.ZeroOrMore(), real.Arg(keyword=real.Name("key"), value=real.Lambda())]),
        real.ImportFrom(module=real.Attribute(value=real.DoNotCare(), attr=real.Name("settings"))),
        real.ClassDef(name=real.Name("Desk")),
        real.Assign(targets=[real.AssignTarget(real.Name("_SCRIPT"))], value=real.Call()),
        real.Try(handlers=[real.AtLeastN(n=2)]),
    ],
    ids=lambda pattern: type(pattern).__name__,
)
def test_matches_are_those_that_libcst_finds(pattern: Any) -> None:
    ours, theirs = 0, 0
    for path in [*FILES, *sorted((ROOT / "tpulint" / "model").rglob("*.py"))[::12]]:
        text = path.read_text()
        ours += len(found(text, pattern))
        theirs += len(real.findall(cst.parse_module(text), pattern))
    assert 0 < theirs == ours


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_nodes_of_both_trees_find_each_other(path: Path) -> None:
    file = parsed(Unit(str(path), path.read_bytes(), ModulePath(path.stem)))
    nodes = [node for node in ast.walk(file.source.tree) if isinstance(node, ast.stmt | ast.expr)]
    paths = [path_of(node, file.parent) for node in nodes]
    tree = Tree(file.source, paths)
    places = zip(nodes, map(tree.at, paths), strict=True)
    located = {id(node): given for node, given in places if given is not None}
    assert len(nodes) * 0.9 < len(located)
    calls = [node for node in nodes if isinstance(node, ast.Call | ast.Name | ast.stmt)]
    assert [] == [ast.dump(node) for node in calls if tree.node(located[id(node)]) is not node]


# when LibCST is imported


@pytest.mark.parametrize(
    ("text", "imported"),
    [
        ("x = y.cuda()\n", "False"),
        ("f(fused=True)\n", "True"),
        ("fused = 1\nf(True)\n", "False"),
        ("f('fused', True)  # fused\n", "False"),
    ],
)
def test_libcst_is_imported_only_for_a_file_with_the_names_of_a_pattern(
    tmp_path: Path, text: str, imported: str
) -> None:
    (tmp_path / "net.py").write_text(text)
    code = (
        "import sys\nfrom pathlib import Path\nfrom tpulint.engine.run import analyse\n"
        "from tpulint.settings import Settings\n"
        "analyse([Path(sys.argv[1])], Settings(), jobs=1, cache=False)\nprint('libcst' in sys.modules)"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "net.py")]
    assert f"{imported}\n" == subprocess.run(command, capture_output=True, text=True, check=True).stdout
