"""Loops that change the weights of modules without gradients."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.updates import computes, is_whole, update

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]
FindFunction = Callable[[Module, str], Scope]


@pytest.fixture
def inputs(parse: Parse, find_statement: FindStatement) -> Callable[[str], tuple[str, ...] | None]:
    """The inputs of the innermost loop over weights in a function; None if it is no update."""

    def inputs(body: str) -> tuple[str, ...] | None:
        lines = body.replace("\n", "\n    ")
        module = parse(f"import torch\nimport math\ndef f(self, model, ema, decay, nets):\n    {lines}\n")
        loop, scope = find_statement(module, "for", -1)
        assert isinstance(loop, ast.For)
        found = update(module, loop, scope)
        assert found is None or ((loop,), (), ()) == (found.statements, found.outputs, found.ahead)
        return found.inputs if found is not None else None

    return inputs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            (
                "for e, p in zip(ema.parameters(), model.parameters()):\n"
                "    e.data.mul_(decay).add_(p.data, alpha=1 - decay)"
            ),
            ("ema", "model", "decay"),
        ),
        (
            (
                "with torch.no_grad():\n    for e, p in zip(ema.parameters(), model.parameters()):\n"
                "        e.copy_(e * decay + p * (1 - decay))"
            ),
            ("ema", "model", "decay"),
        ),
        ("for p in model.parameters():\n    p.data.clamp_(-1, 1)", ("model",)),
        ("for p in model.parameters():\n    p.data = p.data * decay", ("model", "decay")),
        ("for p in model.parameters():\n    p.data *= decay", ("model", "decay")),
        (
            "for p in model.parameters():\n    p.data = torch.lerp(p.data, ema, decay)",
            ("model", "ema", "decay"),
        ),
        (
            (
                "old, new = ema.state_dict(), model.state_dict()\nfor k in new:\n"
                "    if old[k].is_floating_point():\n        old[k] = decay * old[k] + new[k]"
            ),
            ("new", "old", "decay"),
        ),
        (
            (
                "params = dict(model.named_parameters())\nfor name, e in ema.named_parameters():\n"
                "    assert e.shape == params[name].shape\n    e.data.lerp_(params[name].data, decay)"
            ),
            ("ema", "params", "decay"),
        ),
    ],
)
def test_a_loop_that_updates_weights(
    inputs: Callable[[str], tuple[str, ...] | None], body: str, expected: tuple[str, ...]
) -> None:
    assert set(expected) == set(inputs(body) or ())


@pytest.mark.parametrize(
    "body",
    [
        "for p in model.parameters():\n    p.data.sub_(decay * p.grad)",  # reads gradients
        "for p in model.parameters():\n    p.sub_(decay)",  # with a gradient
        "for p in model.parameters():\n    total = p.sum()",  # writes nothing
        "for p in model.parameters():\n    p.data.clamp_(-1, 1)\nelse:\n    pass",
        "for p in model.parameters():\n    while decay:\n        p.data.mul_(2)",
        "for p in model.parameters():\n    p.data.mul_(math.sqrt(2))",
        "for p in model.parameters():\n    p.data.mul_(decay)\n    print(p)",
        "for p in model.parameters():\n    p.data.normal_()",
        "for p in nets:\n    p.data.mul_(decay)",
        "others = list(model.parameters())\nfor p in nets:\n    p.data.mul_(decay)",
        "for p in model.parameters():\n    self.n = p.data.mul_(decay)",
        "for p in model.parameters():\n    n = p.data.mul_(decay)\nreturn n",
        "for i in nets:\n    for k, p in model.named_parameters():\n        p.data.mul_(nets[i])",
        "for p in model.parameters():\n    p.data.mul_((lambda: 2)())",
    ],
)
def test_a_loop_that_does_something_else(inputs: Callable[[str], tuple[str, ...] | None], body: str) -> None:
    assert inputs(body) is None


@pytest.mark.parametrize(
    "tail",
    ["return [p for p in model.parameters()]", "for p in model.parameters():\n    p.data.mul_(2)"],
)
def test_a_loop_variable_that_is_bound_anew_is_not_read_elsewhere(
    parse: Parse, find_statement: FindStatement, tail: str
) -> None:
    lines = f"for p in model.parameters():\n    p.data.mul_(2)\n{tail}".replace("\n", "\n    ")
    module = parse(f"def f(model):\n    {lines}\n")
    loop, scope = find_statement(module, "for")
    assert isinstance(loop, ast.For)
    assert update(module, loop, scope) is not None


def test_a_loop_of_a_script_is_an_update_if_it_lists_the_weights_itself(
    parse: Parse, find_statement: FindStatement
) -> None:
    module = parse("model = build()\nfor p in model.parameters():\n    p.data.mul_(2)\n")
    loop, scope = find_statement(module, "for")
    assert isinstance(loop, ast.For)
    found = update(module, loop, scope)
    assert found is not None
    assert ("model",) == found.inputs


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("e.data.mul_(decay)", True),
        ("e.data = e.data * decay", True),
        ("e.data += p.data", True),
        ("e.data.copy_(p.data)", False),
        ("e.data = p.data", False),
    ],
)
def test_a_loop_that_computes_what_it_writes(body: str, expected: bool) -> None:
    loop = ast.parse(f"for e, p in zip(a, b):\n    {body}\n").body[0]
    assert isinstance(loop, ast.For)
    assert expected == computes(loop)


@pytest.mark.parametrize(
    ("head", "tail", "expected"),
    [
        ("'''Update.'''\n", "", True),
        ("params = dict(model.named_parameters())\n", "", True),
        ("with torch.no_grad():\n    pass\n", "", True),
        ("n = decay * 2\n", "", False),
        ("params = list(model.parameters()) + [decay * 2]\n", "", False),
        ("params = math.prod(model.parameters())\n", "", False),
        ("", "return model", False),
        ("", "print(model)", False),
    ],
)
def test_a_function_that_does_nothing_but_update(
    parse: Parse, find_function: FindFunction, head: str, tail: str, expected: bool
) -> None:
    body = f"{head}for p in model.parameters():\n    p.data.mul_(decay)\n{tail}".replace("\n", "\n    ")
    module = parse(f"def f(model, decay):\n    {body}\n")
    node = find_function(module, "f").node
    assert isinstance(node, ast.FunctionDef)
    loops = [one for one in node.body if isinstance(one, ast.For)]
    assert expected == is_whole(node, loops)


def test_a_generator_is_no_plain_update(parse: Parse, find_function: FindFunction) -> None:
    module = parse("def f(model):\n    for p in model.parameters():\n        yield p.data.mul_(2)\n")
    node = find_function(module, "f").node
    assert isinstance(node, ast.FunctionDef) and isinstance(node.body[0], ast.For)
    assert not is_whole(node, [node.body[0]])
