"""Losses in attributes, and attributes that modules or their hooks write when called."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.hooks import filled_by_hooks
from tpulint.model.training.kept import (
    asked_of_others,
    is_kept_by_marked,
    keeping,
    kept_by_marked,
    left_by_others,
)
from tpulint.model.training.left import left

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]
Find = Callable[..., tuple[ast.expr, Scope]]
FindFunction = Callable[[Module, str], Scope]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("runner.loss.backward()", ["loss"]),
        ("runner.outputs['loss'].backward()", ["outputs"]),
        ("(runner.loss / 4).backward()", ["loss"]),
        ("scaler.scale(runner.loss).backward()", ["loss"]),
        ("self.learner.loss.backward()", ["loss"]),
        ("self.loss.backward()", ["loss"]),
        ("self.loss = f()\n        self.loss.backward()", []),
        ("loss = runner.loss\n        loss.backward()", ["loss"]),
        ("loss = runner.loss / 4\n        loss.backward()", ["loss"]),
        ("loss = self.loss\n        loss.backward()", []),
        ("loss = f()\n        loss.backward()", []),
        ("(runner.loss + 1).backward()", []),
        ("runner.outputs[0].backward()", []),
        ("runner.loss.sum()", []),
    ],
)
def test_attributes_of_other_objects_on_which_backward_is_called(
    parse: Parse, body: str, expected: list[str]
) -> None:
    module = parse(f"class Hook:\n    def after(self, runner, scaler):\n        {body}\n")
    assert expected == list(asked_of_others(module))


def test_self_outside_of_a_class_is_no_other_object(parse: Parse) -> None:
    assert ("loss",) == asked_of_others(parse("self = A()\nrunner = B()\nrunner.loss.backward()\n"))
    assert () == asked_of_others(parse("self = A()\nself.loss.backward()\n"))


MARKED = """
from torchax_compat import differentiable
@differentiable
def compute(x): return x
class T:
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.loss = compute(x)", ["loss"]),
        ("self.loss, out = compute(x)", ["loss"]),
        ("if x:\n            self.loss = compute(x)", ["loss"]),
        ("self.loss = other(x)", []),
        ("loss = compute(x)", []),
        ("self.loss = compute", []),
    ],
)
def test_attributes_that_hold_the_result_of_a_differentiated_function(
    parse: Parse, body: str, expected: list[str]
) -> None:
    assert expected == list(kept_by_marked(parse(f"{MARKED}    def f(self, x):\n        {body}\n")))


def test_a_loss_in_such_an_attribute_is_known_in_another_file(
    parse_project: ParseProject, find: Find
) -> None:
    files = {
        "learner.py": (
            f"{MARKED}    def f(self, x):\n        self.loss = compute(x)\n        self.other = x\n"
        ),
        "hook.py": "def after(runner):\n    runner.loss.backward()\n    runner.other.backward()\n",
    }
    module = parse_project(files)["hook.py"]
    assert is_kept_by_marked(module, *find(module, "runner.loss"))
    assert not is_kept_by_marked(module, *find(module, "runner.other"))


def test_methods_that_keep_a_loss_on_which_others_call_backward(
    parse_project: ParseProject,
) -> None:
    learner = (
        "class Net:\n    def forward(self, x):\n        self.loss = x\n"
        "class T:\n    def run(self, x):\n        self.loss = x.sum()\n        self.other = x\n"
        "        def inner(self):\n            self.loss = 3\n"
        "def f(self):\n    self.loss = 4\n"
    )
    files = {"learner.py": learner, "hook.py": "def after(runner):\n    runner.loss.backward()\n"}
    module = parse_project(files)["learner.py"]
    assert [("self.loss = x.sum()", "T.run")] == [
        (ast.unparse(statement), scope.qualname) for statement, scope in keeping(module)
    ]
    assert [] == list(keeping(parse_project({"learner.py": learner})["learner.py"]))


@pytest.mark.parametrize(
    ("loss", "expected"),
    [("self.loss", True), ("self.other", False), ("runner.loss", False), ("loss", False)],
)
def test_a_loss_that_another_method_puts_into_an_attribute(
    parse: Parse, find: Find, loss: str, expected: bool
) -> None:
    module = parse(
        "class T:\n    def run(self, x):\n        self.loss = x.sum()\n"
        f"    def step(self, runner, loss):\n        {loss}.backward()\n"
    )
    kept = [node for node in ast.walk(module.source.tree) if isinstance(node, ast.Assign)]
    assert expected == left_by_others(*find(module, loss, -1), kept)


NETS = """
import torch
from torch import nn
class Layer(nn.Module):
    def forward(self, x):
        self.loss = x.sum()
        return x
class Net(nn.Module):
    def __init__(self):
        self.layer = Layer()
        self.size = 3
"""


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("layer = Layer()\n    return layer.loss", {"layer"}),
        ("layer = Layer()\n    return layer.size", set()),
        ("net = Net()\n    return net.layer.loss", {"net"}),
        ("return sum(layer.aux_loss for layer in layers)", set()),
        ("return sum(layer.loss for layer in layers)", {"layers"}),
        ("for layer in layers:\n        print(layer.loss)", {"layers"}),
        ("out = {}\n    return out.loss", set()),
        ("layer = Layer()\n    layer.loss = 3", set()),
        ("return loss", set()),
    ],
)
def test_modules_of_which_a_function_reads_what_their_forward_writes(
    parse: Parse, find_function: FindFunction, body: str, expected: set[str]
) -> None:
    module = parse(f"{NETS}def f(layers, x, loss):\n    {body}\n")
    assert expected == left(module, find_function(module, "f"))


def test_an_attribute_of_self_is_read_where_it_is_written(parse: Parse, find_function: FindFunction) -> None:
    module = parse(f"{NETS}class M(Net):\n    def f(self):\n        return self.loss + self.layer.loss\n")
    assert {"self.layer"} == left(module, find_function(module, "M.f"))


def test_nothing_is_written_where_no_forward_writes(parse: Parse, find_function: FindFunction) -> None:
    module = parse("def f(layer):\n    return layer.loss\n")
    assert frozenset() == left(module, find_function(module, "f"))


@pytest.mark.parametrize(
    ("head", "body", "expected"),
    [
        (
            "features = {}\ndef hook(module, args, out):\n    features['x'] = out\n",
            "net.register_forward_hook(hook)",
            {"features"},
        ),
        (
            "features = []\ndef hook(module, args, out):\n    features.append(out)\n",
            "net.register_forward_hook(hook)",
            {"features"},
        ),
        (
            (
                "features = []\ndef make(name):\n    def hook(m, a, out):\n"
                "        features.append(out)\n    return hook\n"
            ),
            "net.register_forward_hook(make('x'))",
            {"features"},
        ),
        ("features = []\n", "net.register_forward_hook(lambda m, a, o: features.append(o))", {"features"}),
        ("features = []\n", "net.register_forward_pre_hook(lambda m, a: features.append(a))", {"features"}),
        ("features = []\n", "net.register_forward_hook(lambda m, a, o: None)", set()),
        ("features = []\ndef hook(m, a, o):\n    print(o)\n", "net.register_forward_hook(hook)", set()),
        ("features = []\ndef hook(m, a, o):\n    features.append(o)\n", "net.register(hook)", set()),
    ],
)
def test_names_that_hooks_fill_when_a_module_is_called(
    parse: Parse, find_function: FindFunction, head: str, body: str, expected: set[str]
) -> None:
    module = parse(f"{head}def f(net, x):\n    {body}\n    return net(x), features\n")
    assert expected == filled_by_hooks(module, find_function(module, "f"))


def test_an_object_whose_own_methods_are_hooks(parse: Parse, find_function: FindFunction) -> None:
    module = parse(
        "class Features:\n    def __init__(self, net):\n        net.register_forward_hook(self.save)\n"
        "    def save(self, module, args, out):\n        self.out = out\n"
        "def f(net, x):\n    features = Features(net)\n    net(x)\n    return features.out, x\n"
    )
    assert {"self.out", "features"} == filled_by_hooks(module, find_function(module, "f"))
