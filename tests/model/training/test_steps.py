"""Training steps: what computes the loss of each `backward`, and the functions that are made of it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.losses import backward_calls
from tpulint.model.training.regions import Obstacle, Region
from tpulint.model.training.steps import Step
from tpulint.plan import Kind

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]
Find = Callable[..., tuple[ast.expr, Scope]]

HEAD = """import random

import torch
from torch import nn
from torchax_compat import differentiable


@differentiable
def compute(x):
    return x


class Net(nn.Module):
    def forward(self, x):
        return x


"""


def step_of(module: Module, number: int = -1) -> Step:
    loss, scope = list(backward_calls(module))[number]
    return module.training_steps.of(loss, scope)


@pytest.fixture
def step(parse: Parse) -> Callable[[str], Step]:
    """The last training step of a function with the given body."""

    def step(body: str) -> Step:
        text = body.replace("\n", "\n    ")
        return step_of(parse(f"{HEAD}def f(self, model, x, y, xs, criterion, opt, run):\n    {text}\n"))

    return step


@pytest.mark.parametrize(
    ("body", "claims"),
    [
        ("loss = criterion(model(x))\nloss.backward()", "learned learns here sure plain once_named"),
        ("criterion(model(x)).backward()", "learned learns here sure once_named"),
        ("loss = run(x)\nloss.backward()", "learns plain once_named"),
        ("loss = compute(x)\nloss.backward()", "learned plain settled once_named"),
        ("compute(x).backward()", "learned plain settled"),
        ("loss.backward()", "learned plain"),
        (
            "with torch.no_grad():\n    loss = criterion(model(x))\n    loss.backward()",
            "learned learns here plain once_named",
        ),
        ("with torch.no_grad():\n    model(x).sum().backward()", "learned learns here once_named"),
        ("loss = criterion(x, y)\nloss.backward()", "learns plain once_named"),
    ],
)
def test_what_is_known_of_a_loss(step: Callable[[str], Step], body: str, claims: str) -> None:
    one = step(body)
    found = {
        "learned": one.is_learned,
        "learns": one.learns,
        "here": one.is_computed_here,
        "sure": one.is_sure,
        "plain": one.is_plain,
        "settled": one.is_settled,
        "once_named": one.is_moved_once_named,
    }
    assert set(claims.split()) == {name for name, holds in found.items() if holds}


def texts(statements: tuple[ast.stmt, ...]) -> list[str]:
    return [ast.unparse(one) for one in statements]


def test_a_loss_of_a_loop_is_one_of_what_the_loop_runs_over(step: Callable[[str], Step]) -> None:
    found = step("losses = [model(x).exp()]\nfor loss in losses:\n    loss.backward()").region
    assert isinstance(found, Region)
    assert ["losses = [model(x).exp()]"] == texts(found.statements)


def test_a_loss_made_of_a_parameter_bears_gradients(parse: Parse) -> None:
    module = parse(f"{HEAD}def f(out, y):\n    loss = nn.functional.l1_loss(out, y)\n    loss.backward()\n")
    found = step_of(module).region
    assert isinstance(found, Region)
    assert ["loss = nn.functional.l1_loss(out, y)"] == texts(found.statements)
    collected = parse(
        "def act(model, p, x):\n    p.log.append(model(x))\n"
        "def f(p):\n    loss = sum(p.log).exp()\n    loss.backward()\n"
    )
    assert step_of(collected).region is None
    assert step_of(collected).is_collected
    assert ["model(x)"] == [ast.unparse(one.value) for one in step_of(collected).fillings]


def test_a_loss_that_modules_lead_to_is_not_collected(step: Callable[[str], Step]) -> None:
    one = step("loss = model(x).exp()\nloss.backward()")
    assert not one.is_collected
    assert [] == one.fillings


def test_regions_include_the_earlier_ones_and_that_of_the_next_round(step: Callable[[str], Step]) -> None:
    one = step(
        "a = model(x)\nif a.isnan().any():\n    return\nloss = model(a).exp()\nfor b in xs:\n"
        "    loss.backward()\n    loss = model(b).exp()"
    )
    assert [["loss = model(a).exp()"], ["a = model(x)"], ["loss = model(b).exp()"]] == [
        texts(found.statements) for found in one.regions
    ]
    assert () == step("loss.backward()").regions


def test_a_step_is_found_once_and_its_statements_are_known(parse: Parse) -> None:
    module = parse("def f(model, x):\n    loss = model(x).exp()\n    loss.backward()\n")
    (loss, scope), steps = next(backward_calls(module)), module.training_steps
    assert steps.of(loss, scope) is steps.of(loss, scope)
    statement = next(node for node in ast.walk(module.source.tree) if isinstance(node, ast.Assign))
    assert {id(statement)} == steps.computing


def test_names_that_the_file_does_not_use(step: Callable[[str], Step]) -> None:
    one = step("loss = model(x).exp()\nloss.backward()")
    assert "scaled" == one.fresh("scaled")
    assert "loss_2" == one.fresh("loss")
    assert "compute_2" == one.fresh("compute")


def test_gradients_that_a_script_asks_for(parse: Parse, find: Find) -> None:
    module = parse(
        "import torch\nfrom torch import nn\nmodel = nn.Linear(2, 2)\nx = torch.ones(2)\n"
        "out = model(x).exp()\ngrads = torch.autograd.grad(out, x)\n"
    )
    call, scope = find(module, "torch.autograd.grad(out, x)")
    assert isinstance(call, ast.Call)
    ending = module.training_steps.asking(call, scope)
    assert isinstance(ending.region, Region)
    assert ["out = model(x).exp()", "grads = torch.autograd.grad(out, x)"] == texts(ending.region.statements)
    moved = ending.moved()
    assert not isinstance(moved, str)
    calls = [one.code[0] for one in moved if one.kind is Kind.REPLACE_RUN]
    assert ["grads = compute_grads(model, x)"] == calls


@pytest.mark.parametrize(
    ("asked", "expected"), [("out", "compute_other"), ("x", "compute_loss")], ids=["shared", "apart"]
)
def test_a_loss_whose_gradient_is_asked_for_further_down_is_moved_with_it(
    parse: Parse, asked: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}def f(model, x):\n    out = model(x)\n"
        "    loss = out.exp()\n    loss.backward(retain_graph=True)\n"
        f"    g = torch.autograd.grad({asked}, x)\n    other = g.exp()\n    other.backward()\n"
    )
    moved = step_of(module, 0).moved()
    assert not isinstance(moved, str)
    heads = [one.code[0] for one in moved if one.kind is Kind.OUTLINE]
    assert [expected] == [head.partition("def ")[2].partition("(")[0] for head in heads]


LEARNER = (
    "from torch import nn\nclass T:\n    def run(self, x):\n        out = self.model(x)\n"
    "        self.loss = out.exp()\n    def other(self, x):\n        self.aux = x\n"
    "    def step(self):\n        self.loss.backward()\n        self.aux.backward()\n"
)


def test_a_loss_that_a_method_keeps_for_another_one(parse: Parse, find: Find) -> None:
    module = parse(LEARNER)
    steps = module.training_steps
    ((statement, scope, ending),) = steps.kept
    assert ("self.loss = out.exp()", "T.run") == (ast.unparse(statement), scope.qualname)
    assert isinstance(ending.region, Region)
    assert ["out = self.model(x)", "self.loss = out.exp()"] == texts(ending.region.statements)
    assert steps.is_kept(*find(module, "self.loss", -1))
    assert not steps.is_kept(*find(module, "self.aux", -1))


def test_a_loss_that_a_differentiated_function_gave_to_another_file(parse_project: ParseProject) -> None:
    learner = f"{HEAD}class T:\n    def run(self, x):\n        self.loss = compute(x)\n"
    files = {"learner.py": learner, "hook.py": "def after(runner):\n    runner.loss.backward()\n"}
    module = parse_project(files)["hook.py"]
    assert module.training_steps.is_kept(*next(backward_calls(module)))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("loss = model(x).exp(); n = 1\nloss.backward()", [Kind.SPLIT]),
        ("loss = model(x).exp()\nloss.backward()", None),
        ("loss.backward()", None),
    ],
)
def test_rows_of_their_own_for_the_statements_of_a_loss(
    step: Callable[[str], Step], body: str, expected: list[Kind] | None
) -> None:
    rewrites = step(body).put_apart()
    assert expected == ([one.kind for one in rewrites] if rewrites is not None else None)


def test_statements_that_only_keep_numbers_leave_the_autocast_block(step: Callable[[str], Step]) -> None:
    one = step(
        "with torch.autocast('cuda'):\n    loss = model(x).exp()\n    self.n += loss.item()\nloss.backward()"
    )
    assert [(Kind.MOVE_OUT, ("1",))] == [(rewrite.kind, rewrite.code) for rewrite in one.kept_behind()]
    assert [] == step("loss.backward()").kept_behind()


WITHIN = """
def helper(model, x):
    out = model(x); loss = out.exp()
    {}
    return loss
def f(model, x):
    loss = helper(model, x)
    loss.backward()
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("print(loss)", True),
        ("writer.add_scalar('loss', loss.item())", True),
        ("n = loss.item()", True),
        ("n = loss.mean()", False),
        ("if x is None: return x", False),
    ],
)
def test_a_function_that_does_more_than_compute_is_split(parse: Parse, line: str, expected: bool) -> None:
    one = step_of(parse(WITHIN.format(line)))
    assert expected == (one.within is not None)
    if one.within is not None:
        assert isinstance(one.within.region, Region)
        assert ["out = model(x)", "loss = out.exp()"] == texts(one.within.region.statements)
        assert one.put_apart() == one.within.put_apart() is not None
        assert [] == one.kept_behind()


@pytest.mark.parametrize(
    "text",
    [
        "@traced\ndef helper(model, x):\n    loss = model(x)\n    print(loss)\n    return loss\n",
        "@differentiable\ndef helper(model, x):\n    loss = model(x)\n    print(loss)\n    return loss\n",
        "def helper(model, x):\n    loss = model(x)\n    print(loss)\n",
        "def helper(model, x):\n    loss = model(x) * random.random()\n    return loss\n",
        "def helper(model, x):\n    print(x)\n    return model.loss\n",
        "helper = load()\n",
    ],
)
def test_a_function_that_cannot_be_split(parse: Parse, text: str) -> None:
    module = parse(f"{HEAD}{text}def f(model, x):\n    loss = helper(model, x)\n    loss.backward()\n")
    assert step_of(module).within is None


@pytest.mark.parametrize(("heir", "expected"), [("", True), ("    def loss(self, x): return x\n", False)])
def test_a_method_that_an_heir_overrides_is_not_split(parse: Parse, heir: str, expected: bool) -> None:
    module = parse(
        "class T:\n    def loss(self, x):\n        loss = self.model(x)\n        print(loss)\n"
        "        return loss\n"
        "    def f(self, x):\n        loss = self.loss(x)\n        loss.backward()\n"
        f"class U(T):\n    def other(self): pass\n{heir}"
    )
    assert expected == (step_of(module).within is not None)


def test_an_obstacle_is_kept_as_the_region(step: Callable[[str], Step]) -> None:
    one = step("try:\n    loss = model(x).exp()\nexcept E:\n    loss = x\nloss.backward()")
    assert isinstance(one.region, Obstacle)
    assert one.put_apart() is None
