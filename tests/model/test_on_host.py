"""Which functions are known to give tensors that they make on the host."""

from __future__ import annotations

import ast
import textwrap

import pytest

from tpulint.model.names.index import index
from tpulint.model.names.qualified import Names
from tpulint.model.project.on_host import Given, OnHost

HEAD = "import math, torch\nfrom torch.nn import functional as F\n"


def given(text: str, name: str = "f") -> Given:
    found = index(ast.parse(HEAD + textwrap.dedent(text)), "", {})
    names = Names(found, "mod")
    return OnHost(found, names).given(next(scope for scope in found.functions if scope.name == name))


@pytest.mark.parametrize(
    ("body", "needs"),
    [
        ("return torch.arange(n)", ()),
        ("t = torch.arange(n).float()\n    return t * 2 + math.pi", ()),
        ("return 1 / base ** (torch.arange(n) / n)", ("base", "n")),
        (
            "rows = []\n    for i in range(n): rows.append(torch.ones(3) * i)\n    return torch.stack(rows)",
            (),
        ),
        ("return torch.stack([torch.ones(3) * i for i in range(n)])", ()),
        ("return torch.zeros(n).to(torch.float64)", ()),
        ("t = torch.ones(n)\n    t = F.pad(t, (1, 0))\n    return t[None]", ()),
        ("if n > 3:\n        return torch.ones(n)\n    return torch.zeros(n)", ()),
        ("return torch.tensor(n)", ("n",)),
        ("return torch.arange(n) * base", ("base",)),
        ("return inner(n) + 1\ndef inner(m):\n    return torch.arange(m)", ()),
    ],
)
def test_it_gives_a_host_tensor(body: str, needs: tuple[str, ...]) -> None:
    assert given(f"def f(n, base=2.0):\n    {body}\n") == Given((True,), needs=needs)


@pytest.mark.parametrize(
    "body",
    [
        "return torch.arange(n, device=base)",
        "return torch.arange(n).to(base)",
        "return torch.arange(n).cuda()",
        "return torch.arange(n).tolist()",
        "return base",
        "return n * 2",
        "return load(torch.arange(n))",
        "return torch.arange(n) + load(n)",
        "x = load(n)\n    return torch.arange(n) + x",
        "yield torch.arange(n)",
        "return f(n)",
        "return torch.randperm(n)",
    ],
)
def test_it_may_give_something_else(body: str) -> None:
    assert given(f"def f(n, base=2.0):\n    {body}\n") == Given()


def test_each_item_of_a_tuple_is_told_by_itself() -> None:
    found = given("def f(n, x):\n    return torch.ones(n), torch.relu(x), torch.ones(n) * x\n")
    assert found == Given((True, False, True), is_tuple=True, needs=("x",))


def test_one_tensor_or_two_of_them() -> None:
    found = given("def f(n, two):\n    t = torch.ones(n)\n    if two: return t, t\n    return t\n")
    assert found == Given((True, True), is_tuple=True)
