"""The façade that tells what is believed of a line."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tpulint.engine.run import as_units
from tpulint.model.belief import line_belief, subjects
from tpulint.model.module import Module
from tpulint.model.tracing.reach import link
from tpulint.source import Source

ROOT = Path(__file__).parents[2]
OWN = sorted((ROOT / "tpulint" / "model").rglob("[a-z]*.py"))


def entered(path: str, data: bytes) -> Module:
    (unit,) = as_units({path: data}).values()
    module = Module(Source.decode(unit.path, unit.data), unit.module_path)
    module.enter(link([module.facts()]))
    return module


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_index_gives_each_node_the_scope_it_lies_in(path: Path) -> None:
    module = entered(str(path), path.read_bytes())
    places = [(node, scope) for found in module.index.nodes.values() for node, scope in found]
    assert places
    for node, scope in places:
        assert isinstance(node, ast.expr | ast.stmt)
        assert scope is module.scope_of(node), f"line {node.lineno}: {ast.unparse(node)}"


TEXT = """\
import numpy as np
import torch
from torch import nn
class Net(nn.Module):
    @torch.no_grad()
    def forward(self, x, size=3):
        rows = [torch.zeros(len(y), key=lambda z: z.sum()) for y in x if y.item() > np.pi]
        return self(
            x[0])
"""


def told(row: int) -> list[str]:
    return [belief.text for belief in line_belief(entered("net.py", TEXT.encode()), row).expressions]


def test_each_expression_of_a_line_is_listed_once() -> None:
    assert ["torch.no_grad()"] == told(5)
    assert ["self", "x", "size"] == told(6)
    assert {"rows", "torch.zeros(len(y), key=lambda z: z.sum())", "len(y)", "y", "z.sum()", "np.pi"} <= set(
        told(7)
    )
    assert len(told(7)) == len(set(told(7)))
    assert "self( x[0])" in told(8)
    assert ["x[0]", "x"] == told(9)
    assert [] == told(3)


def test_function_and_chain_of_a_line_are_those_of_the_innermost_function() -> None:
    module = entered("net.py", TEXT.encode())
    belief = line_belief(module, 9)
    assert "Net.forward" == belief.function
    assert belief.chain is not None
    assert line_belief(module, 4).function is None
    assert line_belief(module, 4).chain is None


def test_calls_have_the_qualified_name_of_their_callee() -> None:
    module = entered("net.py", TEXT.encode())
    names = {belief.text: belief.name for belief in line_belief(module, 7).expressions}
    assert "builtins.len" == names["len(y)"]
    assert "numpy.pi" == names["np.pi"]
    assert names["y"] is None


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("if a > b: pass", ["a > b"]),
        ("for a in b: pass", ["b"]),
        ("assert a", ["a"]),
        ("a and b", ["a", "b"]),
        ("a < b < c", ["a", "b", "c"]),
        ("not a", ["a"]),
        ("a[b]", ["a", "b"]),
        ("a.to(b, copy=c)", ["a", "b", "c"]),
        ("torch.full(a, b)", ["a", "b"]),
        ("a.b", []),
    ],
)
def test_subjects_of_a_node_are_the_expressions_it_depends_on(line: str, expected: list[str]) -> None:
    module = entered("net.py", f"import torch\n{line}\n".encode())
    node: ast.AST = module.source.tree.body[1]
    node = node.value if isinstance(node, ast.Expr) else node
    assert expected == [ast.unparse(part) for part in subjects(module, node, module.index.module)]
