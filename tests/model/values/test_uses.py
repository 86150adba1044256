"""How values are used: as tensors, as conditions, as sizes."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.kinds import Tensor
from tpulint.model.values.uses import (
    concretized,
    converts_dtypes,
    data_dependent_size,
    in_place_of_number,
    length_around,
    loads,
    serves_as_tensor,
)

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]
FindFunction = Callable[[Module, str], Scope]

FORWARD = """
import torch
from torch.nn import functional as F
class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor, n: int, xs: list, u):
"""


def net(body: str) -> str:
    return FORWARD + "".join(f"        {line}\n" for line in body.split("\n"))


def test_reads_of_a_name() -> None:
    tree = ast.parse("def f(a):\n    b = a\n    a = 1\n    return lambda: a\n")
    assert [2, 4] == [node.lineno for node in loads(tree, "a")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x * x.max().item()", True),
        ("return x * -x.max().item()", True),
        ("return x * (x.max().item() + 1)", True),
        ("return x % x.max().item()", True),
        ("return x.max().item() % x", False),
        ("return x > x.max().item()", True),
        ("return n > x.max().item()", False),
        ("return torch.clamp(x, max=x.max().item())", True),
        ("return torch.where(x > 0, x, x.max().item())", True),
        ("return x.clamp(0, x.max().item())", True),
        ("return xs.clamp(0, x.max().item())", False),
        ("return x.view(x.max().item())", False),
        ("return f(x.max().item())", False),
        ("return torch.zeros(x.max().item())", False),
        ("return x.max().item()", False),
        ("if x.max().item(): pass", False),
        ("return x[x.max().item()]", False),
        ("m = x.max().item()\nreturn x * m", True),
        ("m = x.max().item()\nk = m + 1\nreturn x * k", True),
        ("m = x.max().item()\nreturn x * m, range(m)", False),
        ("m = x.max().item()", False),
        ("m = x.max().item()\nm = 2\nreturn x * m", False),
        ("return f(key=x.max().item())", False),
    ],
)
def test_a_number_that_could_be_a_tensor_everywhere(
    parse: Parse, find: Find, body: str, expected: bool
) -> None:
    module = parse(net(body))
    assert expected == serves_as_tensor(module, *find(module, "x.max().item()"))


def test_a_number_of_a_script_serves_nowhere(parse: Parse, find: Find) -> None:
    module = parse("import torch\nx = torch.ones(3)\nm = x.max().item()\ny = x * m\n")
    assert not serves_as_tensor(module, *find(module, "x.max().item()"))


@pytest.mark.parametrize(
    ("text", "kind", "expected"),
    [
        ("x.max()", Tensor(), "x.max().detach()"),
        ("x.max()", Tensor("int"), "x.max()"),
        ("x.detach()", Tensor(), "x.detach()"),
        ("a + b", Tensor(), "(a + b).detach()"),
        ("a + b", Tensor("bool"), "(a + b)"),
    ],
)
def test_the_text_of_a_tensor_in_place_of_its_number(text: str, kind: Tensor, expected: str) -> None:
    assert expected == in_place_of_number(ast.parse(text, mode="eval").body, text, kind)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("len(x[m])", "len(x[m])"),
        ("x[m].shape[0]", "x[m].shape[0]"),
        ("x[m].size(0)", "x[m].size(0)"),
        ("x[m].numel()", "x[m].numel()"),
        ("x[m].shape[1]", None),
        ("x[m].size(1)", None),
        ("x[m].sum()", None),
        ("print(x[m])", None),
        ("x[m] + 1", None),
    ],
)
def test_the_length_of_an_expression(parse: Parse, find: Find, value: str, expected: str | None) -> None:
    module = parse(f"def f(x, m):\n    return {value}\n")
    found = length_around(module, *find(module, "x[m]"))
    assert expected == (ast.unparse(found) if found is not None else None)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return x.half()", True),
        ("return x.to(torch.bfloat16)", True),
        ("return x.to(dtype=y.dtype)", True),
        ("with torch.autocast('cuda'): return x", True),
        ("return x.to(y.device)", False),
        ("return x.to('cuda')", False),
        ("return half(x)", False),
        ("return x", False),
    ],
)
def test_a_function_that_sets_dtypes(
    parse: Parse, find_function: FindFunction, body: str, expected: bool
) -> None:
    module = parse(f"import torch\ndef f(x, y):\n    {body}\n")
    assert expected == converts_dtypes(find_function(module, "f"))
    assert not converts_dtypes(module.index.module)


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("x > 0", "x > 0"),
        ("not x.any()", "x.any()"),
        ("n and x.any()", "x.any()"),
        ("n or u", None),
        ("x", "x"),
        ("n > 0", None),
        ("x is None", None),
        ("x.item() > 0", None),
        ("x.any()", "x.any()"),
        ("torch.equal(x, y)", "torch.equal(x, y)"),
        ("x.equal(y)", "x.equal(y)"),
        ("x.is_nonzero()", "x.is_nonzero()"),
        ("x.item()", None),
        ("x in xs", "x in xs"),
        ("x in u", None),
        ("3 in x", "3 in x"),
        ("u in x", None),
        ("3 in xs", None),
        ("(z := x > 0)", "x > 0"),
        ("len(x)", None),
    ],
)
def test_the_part_of_a_condition_that_needs_a_value(
    parse: Parse, find: Find, test: str, expected: str | None
) -> None:
    module = parse(net(f"u = u.part\nif {test}:\n    return x"))
    found = concretized(module, *find(module, test))
    assert expected == (ast.unparse(found) if found is not None else None)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("torch.zeros(x.max())", "x.max()"),
        ("torch.zeros(n, x.max())", "x.max()"),
        ("torch.zeros((n, int(x.max())))", "int(x.max())"),
        ("torch.arange(x.max().item())", "x.max().item()"),
        ("torch.arange(end=x.max())", "x.max()"),
        ("torch.zeros(size=(x.max(), 2))", "x.max()"),
        ("torch.full((3,), x.max())", None),
        ("torch.linspace(0, x.max(), 5)", None),
        ("torch.linspace(0, 1, x.max())", "x.max()"),
        ("torch.linspace(0, 1, steps=x.max())", "x.max()"),
        ("torch.zeros(x.shape[0])", None),
        ("torch.zeros(m)", None),  # the reading is what fails
        ("torch.zeros(n, device=x.device)", None),
        ("torch.rand_like(x)", None),
        ("make(x.max())", None),
    ],
)
def test_a_factory_whose_size_depends_on_a_value(
    parse: Parse, find: Find, call: str, expected: str | None
) -> None:
    module = parse(net(f"m = x.max().item()\nreturn {call}"))
    node, scope = find(module, call)
    assert isinstance(node, ast.Call)
    found = data_dependent_size(module, node, scope)
    assert expected == (ast.unparse(found) if found is not None else None)
