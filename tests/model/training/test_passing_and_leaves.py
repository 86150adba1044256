"""Values without gradients, and leaf tensors whose gradients are asked for by name."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.detached import gives_none_on, is_number, read_on
from tpulint.model.training.learned import Learned
from tpulint.model.training.leaves import listed, listed_by_name, makes_leaf, wants_gradients
from tpulint.model.training.passing import passes_on

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]


def expression(text: str) -> ast.expr:
    return ast.parse(text, mode="eval").body


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.detach()", True),
        ("x.detach().clone()", True),
        ("x.item()", True),
        ("x.argmax(1)", True),
        ("x.sum()", False),
        ("x + y.detach()", False),
        ("detach(x)", False),
        ("x", False),
    ],
)
def test_a_value_that_bears_no_gradient(text: str, expected: bool) -> None:
    assert expected == gives_none_on(expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x.item()", True),
        ("x.tolist()[0]", True),
        ("x.numpy().astype(int)", True),
        ("x.detach()", False),
        ("x.item() + 1", False),
        ("x.sum()", False),
    ],
)
def test_a_value_that_is_read_into_python(text: str, expected: bool) -> None:
    assert expected == is_number(expression(text))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("k = k + 0.1 * loss.item()", {"k"}),
        ("k = loss + loss.item()", {"loss"}),
        ("k = f(x.detach(), y)", {"f", "y"}),
        ("k = x.sum()", {"x"}),
    ],
)
def test_names_that_a_statement_computes_with(text: str, expected: set[str]) -> None:
    assert expected == read_on(ast.parse(text).body[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("out = model(x)\nspec = stft(out)", True),
        ("out = model(x)\nmel = stft(out)\nspec = log(mel)", True),
        ("out = model(x).detach()\nspec = stft(out)", False),
        ("out = model(x)\nout = x\nspec = stft(out)", False),
        ("spec = stft(x)\nout = model(x)", False),
        ("out = model(x)\nspec = stft(out.item())", False),
        ("out = model(x).item()\nspec = stft(out)", False),
        ("out = compute(x)\nspec = stft(out)", True),
    ],
)
def test_a_statement_that_computes_on_with_the_output_of_a_module(
    parse: Parse, find_statement: FindStatement, text: str, expected: bool
) -> None:
    head = "from torchax_compat import differentiable\n@differentiable\ndef compute(x): return x\n"
    lines = text.replace("\n", "\n    ")
    module = parse(f"{head}def f(model, x, stft, log):\n    {lines}\n")
    statement, scope = find_statement(module, "spec")
    assert isinstance(scope.node, ast.FunctionDef)
    assert expected == passes_on(Learned(module), scope.node.body, statement, scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("x = torch.zeros(3, requires_grad=True)", True),
        ("x: Tensor = torch.zeros(3, requires_grad=True)", True),
        ("x = torch.zeros(3, requires_grad=False)", False),
        ("x = torch.zeros(3, requires_grad=flag)", False),
        ("x = y.clone().requires_grad_()", True),
        ("x.requires_grad_()", True),
        ("x.requires_grad = True", True),
        ("x.requires_grad = False", False),
        ("net.w.requires_grad = True", False),
        ("x = nn.Parameter(y)", True),
        ("x = Parameter(y)", True),
        ("xs = [torch.zeros(3, requires_grad=True) for _ in range(4)]", True),
        ("xs = {k: nn.Parameter(v) for k, v in d.items()}", True),
        ("xs = [y, nn.Parameter(y)]", True),
        ("xs = {'a': nn.Parameter(y)}", True),
        ("x = torch.zeros(3)", False),
        ("x = 3", False),
        ("for x in y: pass", False),
    ],
)
def test_a_statement_that_makes_a_tensor_whose_gradient_is_wanted(text: str, expected: bool) -> None:
    assert expected == makes_leaf(ast.parse(text).body[0])


@pytest.mark.parametrize(
    ("given", "bound", "expected"),
    [
        ("[x, y]", [], ["x", "y"]),
        ("xs", ["[x] + [y]"], ["x", "y"]),
        ("xs", ["(x, y)"], ["x", "y"]),
        ("xs", ["build()"], []),
        ("weights.values()", [], ["weights"]),
        ("model.parameters()", [], []),
    ],
)
def test_tensors_that_an_optimizer_gets(given: str, bound: list[str], expected: list[str]) -> None:
    found = listed(expression(given), [expression(one) for one in bound])
    assert expected == [ast.unparse(one) for one in found]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("for w in ws:\n    w.requires_grad = True", True),
        ("for w in ws:\n    w.requires_grad_()", True),
        ("for w in ws:\n    v.requires_grad = True", False),
        ("for w in ws:\n    w.requires_grad = False", False),
        ("for a, w in ws:\n    w.requires_grad = True", False),
        ("for w in ws:\n    w.zero_()", False),
    ],
)
def test_a_loop_that_asks_for_gradients_of_what_it_runs_over(text: str, expected: bool) -> None:
    loop = ast.parse(text).body[0]
    assert isinstance(loop, ast.For)
    assert expected == wants_gradients(loop)


@pytest.mark.parametrize(
    ("given", "expected"),
    [("[a, b]", ["a", "b"]), ("ws", ["a", "b", "c"]), ("others", []), ("f()", [])],
)
def test_items_of_a_list_that_may_have_a_name(given: str, expected: list[str]) -> None:
    around = ast.parse("ws = [a] + [b]\nif x:\n    ws = (c,)\nvs = [d]\n")
    assert expected == [ast.unparse(one) for one in listed_by_name(expression(given), around)]
