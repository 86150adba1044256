"""Losses on which `backward` is called, at once or by a function that gets them."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.project.takers import Taker
from tpulint.model.training.losses import (
    backward_calls,
    handed_losses,
    is_plain,
    loops_around,
    losses_of,
    takers,
)

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]
Find = Callable[..., tuple[ast.expr, Scope]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("loss", True),
        ("losses['total']", True),
        ("losses[0]", False),
        ("self.loss", True),
        ("out.loss", False),
        ("loss / steps", True),
        ("0.5 * (a + b - c)", True),
        ("loss * self.cfg.weight", True),
        ("loss * weights['kl']", True),
        ("loss * f(x)['kl']", False),
        ("loss / get_world_size()", True),
        ("loss / engine.grad_accum_steps()", True),
        ("loss / compute()", False),
        ("loss.mean()", True),
        ("loss.mean(0)", False),
        ("loss.exp()", False),
        ("sum(losses.values())", True),
        ("sum(losses, 0)", False),
        ("scaler.scale(loss)", True),
        ("loss / len(loader)", True),
        ("[a, b]", True),
        ("[]", False),
        ("[a, f(b)]", False),
        ("a ** 2", False),
        ("criterion(out, y)", False),
        ("-loss", False),
    ],
)
def test_a_loss_that_is_a_variable_or_plain_arithmetic(text: str, expected: bool) -> None:
    assert expected == is_plain(ast.parse(text, mode="eval").body)


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        ("loss.backward()", None, ["loss"]),
        ("(a + b).backward()", None, ["a + b"]),
        ("torch.autograd.backward(loss)", "torch.autograd.backward", ["loss"]),
        ("torch.autograd.backward(tensors=[a, b])", "torch.autograd.backward", ["[a, b]"]),
        ("torch.autograd.backward()", "torch.autograd.backward", []),
        ("accelerator.backward(loss)", None, ["loss"]),
        ("self.accelerator.backward(loss)", None, ["loss"]),
        ("engine.backward(loss)", None, ["engine"]),
        ("backward(loss)", "app.backward", []),
    ],
)
def test_what_backward_is_called_on(text: str, name: str | None, expected: list[str]) -> None:
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call)
    assert expected == [ast.unparse(loss) for loss in losses_of(call, name)]


def test_backward_calls_of_a_file(parse: Parse) -> None:
    module = parse(
        "import torch\ndef f(loss):\n    loss.backward()\n"
        "class A:\n    def g(self, x):\n        torch.autograd.backward([x, x])\n"
    )
    found = [(ast.unparse(loss), scope.qualname) for loss, scope in backward_calls(module)]
    assert [("loss", "f"), ("[x, x]", "A.g")] == found


def test_loops_and_comprehensions_around_an_expression(parse: Parse, find: Find) -> None:
    module = parse(
        "for e in epochs:\n    def f(xs):\n        for x in xs:\n            [use(z, x) for z in x]\n"
    )
    node, _ = find(module, "use(z, x)")
    found = [(ast.unparse(target), ast.unparse(over)) for target, over in loops_around(module, node)]
    assert [("z", "x"), ("x", "xs")] == found


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def step(loss):\n    loss.backward()\n", [Taker("app.step", 0, "loss")]),
        (
            "class T:\n    def step(self, opt, loss):\n        self.scaler.scale(loss).backward()\n",
            [Taker("app.T.step", 1, "loss")],
        ),
        ("def step(loss):\n    loss.mean().backward()\n", [Taker("app.step", 0, "loss")]),
        ("def step(loss, n):\n    (loss / n).backward()\n", [Taker("app.step", 0, "loss")]),
        ("def step(a, b):\n    (a + b).backward()\n", [Taker("app.step", 0, "a")]),
        (
            "def step(losses):\n    for one in losses:\n        one.backward()\n",
            [Taker("app.step", 0, "losses")],
        ),
        (
            "def step(x):\n    loss = x.mean()\n    loss.backward()\n",
            [Taker("app.step", 0, "x", is_whole=False)],
        ),
        (
            "def step(out, y, criterion):\n    loss = criterion(out, y)\n    loss.backward()\n",
            [Taker("app.step", 0, "out", is_whole=False), Taker("app.step", 1, "y", is_whole=False)],
        ),
        ("def step(x):\n    loss = compute()\n    loss.backward()\n", []),
        ("def step():\n    loss.backward()\n", []),
        ("def step(x):\n    f(x).backward()\n", []),
        ("loss.backward()\n", []),
    ],
)
def test_functions_that_call_backward_on_an_argument(parse: Parse, text: str, expected: list[Taker]) -> None:
    assert expected == list(takers(parse(text)))


def test_a_parameter_that_a_called_function_calls_is_no_loss(parse: Parse) -> None:
    text = "def run(net, x): return net(x)\ndef step(net, x):\n    loss = run(net, x)\n    loss.backward()\n"
    assert [Taker("app.step", 1, "x", is_whole=False)] == list(takers(parse(text)))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def outer(loss, n):\n    step(n, loss)\n", Taker("app.outer", 0, "loss")),
        ("def outer(total):\n    step(1, loss=total)\n", Taker("app.outer", 0, "total")),
        ("def outer(loss):\n    loss = loss + 1\n    step(1, loss)\n", None),
        ("def outer(loss):\n    step(1, loss + 1)\n", None),
        ("def outer(loss):\n    step(loss)\n", None),
    ],
)
def test_a_function_that_passes_its_argument_to_one_that_calls_backward(
    parse: Parse, text: str, expected: Taker | None
) -> None:
    module = parse(f"def step(n, loss):\n    loss.backward()\n{text}")
    found = takers(module)
    assert Taker("app.step", 1, "loss") == found[0]
    assert ([expected] if expected is not None else []) == list(found[1:])


def test_a_method_that_passes_its_argument_to_another_one(parse: Parse) -> None:
    text = (
        "class T:\n    def run(self, loss):\n        self.step(loss)\n"
        "    def step(self, loss):\n        loss.backward()\n"
    )
    assert {Taker("app.T.step", 0, "loss"), Taker("app.T.run", 0, "loss")} == set(takers(parse(text)))


OPTIM = (
    "class Optimizer:\n    def update(self, loss):\n"
    "        loss.backward()\ndef step(loss):\n    loss.backward()\n"
)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("optim.step(total)", ["total"]),
        ("step(loss=total)", ["total"]),
        ("optim.Optimizer().update(total)", ["total"]),
        ("optimizer.update(total)", ["total"]),  # by its name
        ("meter.update(total)", []),
        ("optimizer = []\n    optimizer.update(total)", []),
        ("meter.step(total)", []),
        ("step()", []),
        ("text = 'a'\n    text.update(total)", []),
    ],
)
def test_calls_that_pass_a_loss_to_a_function_of_another_file(
    parse_project: ParseProject, body: str, expected: list[str]
) -> None:
    text = f"import optim\nfrom optim import step\ndef train(total, optimizer, meter):\n    {body}\n"
    module = parse_project({"optim.py": OPTIM, "train.py": text})["train.py"]
    assert expected == [ast.unparse(one.loss) for one in handed_losses(module)]


def test_calls_of_a_method_of_the_same_object(parse: Parse) -> None:
    text = (
        "class T:\n    def fit(self, x):\n        self.step(x.sum())\n        self.other(x)\n"
        "    def step(self, loss):\n        loss.backward()\n"
    )
    assert ["x.sum()"] == [ast.unparse(one.loss) for one in handed_losses(parse(text))]


@pytest.mark.parametrize(
    ("body", "expected"),
    [("scaler(loss, opt)", ["loss"]), ("scaler(total, opt)", []), ("self.scaler(out.loss)", ["out.loss"])],
)
def test_calls_of_an_object_whose_call_method_calls_backward(
    parse: Parse, body: str, expected: list[str]
) -> None:
    head = "class Scaler:\n    def __call__(self, loss, opt=None):\n        loss.backward()\n"
    module = parse(f"{head}def f(scaler, loss, total, opt, out, self):\n    {body}\n")
    assert expected == [ast.unparse(one.loss) for one in handed_losses(module)]


def test_an_object_that_is_called_in_a_file_without_the_word_is_none(parse_project: ParseProject) -> None:
    files = {
        "scale.py": "class Scaler:\n    def __call__(self, loss):\n        loss.backward()\n",
        "train.py": "def f(scaler, total):\n    scaler(total)\n",
    }
    assert [] == list(handed_losses(parse_project(files)["train.py"]))
