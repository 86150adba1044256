"""Which assignment through a view is lost to a tensor that is read afterwards."""

from __future__ import annotations

import ast

import pytest

from tpulint.engine.run import as_units
from tpulint.model.module import Module
from tpulint.model.tracing.reach import link
from tpulint.model.values.views import lost_write
from tpulint.source import Source

HEAD = "from torch import nn\n\n\nclass Net(nn.Module):\n    def forward(self, x):\n        z = x * 2\n"


def lost(body: str) -> list[str]:
    """The tensors that the indexed assignments of a `forward` do not reach, in the order of the text."""
    text = HEAD + "".join(f"        {line}\n" for line in body.split("\n"))
    (unit,) = as_units({"net.py": text.encode()}).values()
    module = Module(Source.decode(unit.path, unit.data), unit.module_path)
    module.enter(link([module.facts()]))
    writes = [
        (node, scope)
        for node, scope in module.index.nodes[ast.Subscript]
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
    ]
    found = [lost_write(module, node.value, scope) for node, scope in writes]
    return [ast.unparse(copied.base) for copied in found if copied is not None]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("z.view(-1)[0] = 1\nreturn z", ["z"]),
        ("v = z.view(-1)\nw = v[1:]\nw[0] = 1\nreturn z", ["z"]),
        ("v = z.view(-1)\nw = v.unsqueeze(0)\nw[0] = 1\nreturn v", ["v"]),
        ("for row in z:\n    row[0] = 1\nreturn z", ["z"]),
        ("for a, b in zip(x, z):\n    b[0] = a[1]\nreturn z", ["z"]),
        ("low, high = z.chunk(2)\nhigh[0] = 1\nreturn z", ["z"]),
        ("z.view(-1)[0] = 1\nif x.dim() > 2:\n    return x\nreturn z", ["z"]),
        ("while x.dim() < 1:\n    z.t()[0] = 1\nreturn z", ["z"]),
    ],
)
def test_a_write_is_lost_where_the_tensor_is_read_afterwards(body: str, expected: list[str]) -> None:
    assert expected == lost(body)


@pytest.mark.parametrize(
    "body",
    [
        "z[0] = 1\nz[:, 1][0] = 2\nreturn z",
        "v = z.view(-1)\nv[0] = 1\nreturn v",
        "z = z.view(-1)\nz[0] = 1\nreturn z",
        "v = z.view(-1)\nz = z + 1\nv[0] = 1\nreturn z",
        "v = z.view(-1)\nv[0] = 1\nreturn v, z.shape",
        "v = z.view(-1)\nv[0] = 1\nz.copy_(v.view_as(z))\nreturn z",
        "v = z.view(-1).clone()\nv[0] = 1\nreturn z",
        "v = z.t().reshape(-1)\nv[0] = 1\nreturn z",
        "v = z.view(-1)\nif x.dim() > 1:\n    v = v + 1\nv[0] = 1\nreturn z",
        "if x.dim() > 1:\n    v = z.view(-1)\n    v[0] = 1\n    return v\nreturn z",
        "if x.dim() > 1:\n    z.view(-1)[0] = 1\nelse:\n    x = z\nreturn x",
        "for k in range(2):\n    v = v * 2 if k else z.view(-1)\n    v[0] = 1\nreturn z",
        "order = z.argsort()\nz.view(-1)[order][0] = 1\nreturn z",
    ],
)
def test_other_writes_are_not_reported_as_lost(body: str) -> None:
    assert [] == lost(body)
