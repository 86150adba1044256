"""Paths lead to the same code in the LibCST tree as in the tree of `ast`."""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import libcst as cst
import pytest

from tpulint.plan import node_at, path_of
from tpulint.rewrite.locate import NotLocatedError, locate

LIBRARY = Path(sysconfig.get_paths()["stdlib"])
#: Modules with much syntax of all sorts.
MODULES = ("dataclasses.py", "asyncio/base_events.py", "typing.py", "enum.py", "zipfile.py", "contextlib.py")
SYNTAX = """\
@a.b(c)
async def f(d, /, e: g = h, *i, j=k, **l) -> m:
    async with n as o, p: await q
    async for r in s: yield t
    else: u
    return [v async for w in x if y if z]
class A(B, *C, metaclass=D, **E): F: G = H
with (I as J, K): L; M
del N, O[P]
del (Q, R)
S[T:U, ::V, W], X = Y = *Z, aa
bb[cc, dd][ee]
bb[(cc, dd)]
bb[*cc, dd]
ff and gg and hh or ii
jj < kk not in ll != mm
nn = lambda oo, *pp, qq=rr: ss if tt else uu
f"{vv!r:>{ww}} {xx}" "text" f"{yy=}"
{zz: ab, **ac}, {ad, *ae}, (), (af,)
def ag():
    ah = yield
    yield from ai
    global aj
try: ak
except al as am: an
except (ao, ap): aq
else: ar
finally: at
if au: av
elif aw: ax
else: ay
while az: ba
else: bc
for bd, be in bf: bg
raise bh from bi
assert bj, bk
bl: bm
bn @= bo
import bp.bq as br, bs
from . import bt as bu
bv(bw, *bx, by=bz, **ca)
print(cb for cd in ce)
not cf, -cg ** ch, ~ci
{cj: ck for cl in cm}
(cn := co)
try: cp
except* cq: cr
"""


def _meaning(code: str) -> str:
    text = ast.dump(ast.parse(code))
    return text.replace("Store()", "Load()").replace("Del()", "Load()")


def _wrong(text: str) -> Iterator[str]:
    """The expressions and simple statements that their paths do not lead to."""
    tree, module = ast.parse(text), cst.parse_module(text)
    parents = {id(child): node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
    for node in ast.walk(tree):
        outer = parents.get(id(node))
        if not isinstance(node, ast.expr | ast.stmt) or isinstance(outer, ast.pattern | ast.match_case):
            continue
        path = path_of(node, lambda inner: parents.get(id(inner)))
        assert node is node_at(tree, path)
        if any(name == "format_spec" for name, _ in path):
            continue  # rewrites leave formats alone
        if any(isinstance(node_at(tree, path[:end]), ast.pattern) for end in range(1, len(path))):
            continue
        try:
            chain, found = locate(module, tree, path)
        except NotLocatedError as error:
            if not isinstance(node, ast.Constant | ast.FormattedValue):
                yield f"{node.lineno}: {type(node).__name__}: {error}"
            continue
        assert found is node
        if isinstance(node, ast.expr) and not isinstance(
            node, ast.Starred | ast.Slice | ast.Tuple | ast.FormattedValue
        ):
            code = module.code_for_node(chain[-1])
            if _meaning(f"({code}\n)") != _meaning(f"({ast.unparse(node)}\n)"):
                yield f"{node.lineno}: {type(node).__name__}: {code}"


@pytest.mark.parametrize("name", MODULES)
def test_paths_lead_to_the_nodes_of_modules_of_the_standard_library(name: str) -> None:
    assert [] == list(_wrong((LIBRARY / name).read_text(encoding="utf-8")))


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_paths_lead_to_nodes_of_all_sorts(newline: str) -> None:
    assert [] == list(_wrong(SYNTAX.replace("\n", newline)))


def test_a_path_without_a_node_is_not_located() -> None:
    tree, module = ast.parse("a = b\n"), cst.parse_module("a = b\n")
    for path in ((("body", 1),), (("body", 0), ("orelse", 0)), (("body", 0), ("value", 0))):
        with pytest.raises(NotLocatedError):
            locate(module, tree, path)
