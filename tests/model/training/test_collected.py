"""Lists that one function fills with what modules compute, and values passed to a loss function."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.collected import filled_here, fillings, is_filled_by_jax
from tpulint.model.training.handing import Handing
from tpulint.model.training.learned import Learned

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]
FindFunction = Callable[[Module, str], Scope]

HEAD = """
import torch
from torchax_compat import differentiable
@differentiable
def compute(x): return x
def plain(x): return x
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("policy.log_probs.append(model(x))", ["model(x)"]),
        ("out = model(x)\n    policy.log_probs.append(out)", ["out"]),
        ("out = model(x)\n    lp = out.log()\n    policy.log_probs.append(lp)", ["lp"]),
        ("out = compute(x)\n    policy.log_probs.append(out)", ["out"]),
        ("out = model(x).detach()\n    policy.log_probs.append(out)", []),
        ("out = model(x)\n    policy.log_probs.append(out.item())", []),
        ("out = model(x)\n    policy.log_probs.append(out.cpu())", []),
        ("with torch.no_grad():\n        policy.log_probs.append(model(x))", []),
        ("policy.log_probs.append(x)", []),
        ("policy.others.append(model(x))", []),
        ("log_probs.append(model(x))", []),
        ("policy.log_probs.append(model(x), 1)", []),
        ("append(model(x))", []),
    ],
)
def test_what_other_functions_append_to_a_list_in_an_attribute(
    parse: Parse, find_function: FindFunction, body: str, expected: list[str]
) -> None:
    module = parse(
        f"{HEAD}def act(policy, model, x, log_probs, append):\n    {body}\n"
        "def finish(policy, model):\n    policy.log_probs.append(model(1))\n"
        "    loss = sum(policy.log_probs)\n    loss.backward()\n"
    )
    found = list(fillings(module, Learned(module), find_function(module, "finish")))
    assert [("policy.log_probs", value, "act") for value in expected] == [
        (one.path, ast.unparse(one.value), one.function.name) for one in found
    ]


def test_a_script_has_no_list_that_functions_fill(parse: Parse) -> None:
    module = parse("def act(p, model, x):\n    p.log.append(model(x))\nloss = sum(p.log)\n")
    assert [] == list(fillings(module, Learned(module), module.index.module))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(model, x):\n    outs = []\n    outs.append(model(x))\n", ["model(x)"]),
        ("def f(model, x):\n    outs = []\n    outs.append(x)\n", []),
        ("def f(model, x):\n    others.append(model(x))\n", []),
        ("def f(model, x):\n    append(model(x))\n", []),
        ("def f(x): pass\ndef g(model, x):\n    outs.append(model(x))\n", []),
    ],
)
def test_what_a_function_appends_to_its_own_list(
    parse: Parse, find_function: FindFunction, text: str, expected: list[str]
) -> None:
    module = parse(text)
    found = filled_here(module, Learned(module), "outs", find_function(module, "f"))
    assert expected == [ast.unparse(one.value) for one in found]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("out = compute(x)\n    outs.append(out)", True),
        ("out = model(x)\n    outs.append(out)", False),
        ("out = compute(x)\n    out = model(out)\n    outs.append(out)", False),
        ("outs.append(model(x))", False),
    ],
)
def test_a_list_that_only_differentiated_functions_fill(
    parse: Parse, find_function: FindFunction, body: str, expected: bool
) -> None:
    module = parse(f"{HEAD}def f(model, x):\n    {body}\n")
    learned = Learned(module)
    (filling,) = filled_here(module, learned, "outs", find_function(module, "f"))
    assert expected == is_filled_by_jax(learned, filling)


STEPS = """
def whole(loss):
    loss.backward()
def made(out, net, table):
    loss = net(out) + table.width + table['a']
    loss.backward()
def listed(outs):
    loss = sum(o for o in outs)
    loss.backward()
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("whole(loss)", ["loss"]),
        ("out = model(x)\n    made(out)", ["out"]),
        ("made(model(x))", ["model(x)"]),
        ("out = compute(x)\n    made(out)", ["out"]),
        ("out, other = model(x)\n    made(out)", ["out"]),
        ("out = model(x)\n    scaled = out / 2\n    made(scaled)", ["scaled"]),
        ("made(x)", []),
        ("made(model)", []),
        ("out = model(x).detach()\n    made(out)", []),
        ("out = plain(x)\n    made(out)", []),
        ("out = train(x)\n    made(out)", []),
        ("with torch.no_grad():\n        made(model(x))", []),
        ("a = b = x\n    made(a + b)", []),
    ],
)
def test_calls_that_pass_a_loss_or_what_one_is_made_of(parse: Parse, body: str, expected: list[str]) -> None:
    module = parse(
        f"{HEAD}{STEPS}def train(x):\n    y = model(x)\n    y.backward()\n"
        f"    return y\ndef f(model, x, loss):\n    {body}\n"
    )
    handing = Handing(module, Learned(module))
    found = [one for one in handing.handed if one.scope.name == "f"]
    assert expected == [ast.unparse(one.loss) for one in found]


def test_lists_of_outputs_that_are_passed(parse: Parse) -> None:
    module = parse(
        f"{HEAD}{STEPS}def f(model, x, xs):\n    outs = []\n    outs.append(model(x))\n    listed(outs)\n"
        "    listed(xs)\n    whole(outs)\n"
    )
    ((handed, filled),) = Handing(module, Learned(module)).listed
    assert ("app.listed", "outs") == (handed.taker.function, ast.unparse(handed.loss))
    assert ["model(x)"] == [ast.unparse(one.value) for one in filled]


@pytest.mark.parametrize(
    ("name", "expected"), [("whole", set()), ("made", {"out"}), ("listed", {"outs"}), ("compute", set())]
)
def test_parameters_of_which_a_function_makes_a_loss(
    parse: Parse, find_function: FindFunction, name: str, expected: set[str]
) -> None:
    module = parse(f"{HEAD}{STEPS}")
    assert expected == Handing(module, Learned(module)).parameters(find_function(module, name))


def test_a_list_that_a_caller_fills_is_no_such_parameter(parse: Parse, find_function: FindFunction) -> None:
    module = parse(
        f"{HEAD}{STEPS}def f(model, x):\n    outs = []\n    outs.append(model(x))\n    listed(outs)\n"
    )
    handing = Handing(module, Learned(module))
    assert frozenset() == handing.parameters(find_function(module, "listed"))
    assert frozenset() == handing.parameters(module.index.module)
