"""State that changes between calls, and what a compiled function would freeze or lose."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.changing import Changing

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]
FindFunction = Callable[[Module, str], Scope]

HEAD = "import random\nimport numpy as np\nimport torch\nCOUNT = 0\n"


@pytest.mark.parametrize(
    ("methods", "expected"),
    [
        ("def __init__(self): self.x = 1", set()),
        ("def setup_model(self): self.x = 1", set()),
        ("def step(self): self.x = 1", {"self.x"}),
        ("def step(self): self.x += 1", {"self.x"}),
        ("def __init__(self): self.x = 1\n    def step(self): self.x = 2", {"self.x"}),
        ("def step(self): x = 1", set()),
        ("def step(self): other.x += 1", set()),
    ],
)
def test_attributes_that_change_after_set_up(
    parse: Parse, find_function: FindFunction, methods: str, expected: set[str]
) -> None:
    module = parse(f"class A:\n    {methods}\n    def f(self): pass\n")
    assert expected == Changing(module).attributes(find_function(module, "A.f"))


def test_an_attribute_that_a_base_class_changes(parse: Parse, find_function: FindFunction) -> None:
    module = parse("class B:\n    def step(self): self.x = 1\nclass A(B):\n    def f(self): pass\n")
    assert {"self.x"} == Changing(module).attributes(find_function(module, "A.f"))


def test_a_plain_function_has_no_attributes(parse: Parse, find_function: FindFunction) -> None:
    module = parse("def f(): pass\n")
    assert frozenset() == Changing(module).attributes(find_function(module, "f"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("y = random.random()", "draws from `random`"),
        ("y = np.random.rand(3)", "draws from `numpy.random`"),
        ("y = np.random.default_rng(0)", None),
        ("y = torch.rand(3, generator=g)", "draws from `g`"),
        ("y = torch.rand(3)", None),
        ("rng = random.Random(0)\n    y = rng.choice([1])", "draws from `rng`"),
        ("state, reward, done, info = env.step(action)", "calls `env.step`, which advances a simulation"),
        ("state, reward = env.step(action)", None),
        ("y = x.sum()", None),
    ],
)
def test_why_statements_must_run_each_time(
    parse: Parse, find_function: FindFunction, body: str, expected: str | None
) -> None:
    module = parse(f"{HEAD}def f(x, g, env, action):\n    {body}\n")
    scope = find_function(module, "f")
    assert isinstance(scope.node, ast.FunctionDef)
    assert expected == Changing(module).unsteady(scope.node.body, scope)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.x = y", "`compute` sets `self.x`"),
        ("return self.count + y", "`compute` reads `self.count`, which changes"),
        ("return self.fixed + y", None),
        ("global COUNT\n        COUNT = 2", "`compute` sets a global"),
        ("return y * random.random()", "`compute` draws from `random`"),
        ("return y * random.random() if y else y", None),
        ("if y:\n            y = random.random()\n        return y", None),
        ("if random.random() > 0.5:\n            y = 2\n        return y", "`compute` draws from `random`"),
        ("return self.rng.random() * y", "`compute` draws from `self.rng`"),
        ("self.log.append(y)", "`compute` calls `self.log.append`"),
        ("seen = []\n        seen.append(y)\n        return seen", None),
        ("a, b, c, d = env.step(y)", "`compute` calls `env.step`, which advances a simulation"),
        ("return self.inner(y)", "`inner` sets `self.x`"),
        ("return self.compute(y)", None),
        ("return y", None),
    ],
)
def test_why_a_called_method_must_run_each_time(
    parse: Parse, find_statement: FindStatement, body: str, expected: str | None
) -> None:
    text = (
        f"{HEAD}class A:\n    def __init__(self):\n        self.count = 0\n        self.fixed = 1\n"
        "        self.rng = random.Random(0)\n        self.log = []\n"
        "    def advance(self): self.count += 1\n"
        "    def inner(self, y):\n        self.x = y\n"
        f"    def compute(self, y):\n        {body}\n"
        "    def f(self, y):\n        loss = self.compute(y)\n"
    )
    module = parse(text)
    statement, scope = find_statement(module, "loss")
    changing = Changing(module)
    assert expected == changing.unsteady([statement], scope)
    assert expected == changing.unsteady_function(scope)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("self.x = y", None),
        ("return y * random.random()", None),
        ("self.log.append(y)", "`compute` calls `self.log.append`"),
        ("writer.write(y)", "`compute` calls `writer.write`"),
        ("a, b, c, d = env.step(y)", "`compute` calls `env.step`, which advances a simulation"),
    ],
)
def test_effects_that_a_compiled_function_does_not_see(
    parse: Parse, find_statement: FindStatement, body: str, expected: str | None
) -> None:
    module = parse(
        f"{HEAD}class A:\n    def compute(self, y):\n        {body}\n"
        "    def f(self, y):\n        loss = self.compute(y)\n"
    )
    statement, scope = find_statement(module, "loss")
    assert expected == Changing(module).unseen([statement], scope)


def test_a_step_of_an_environment_in_the_statements_themselves_is_unseen(
    parse: Parse, find_statement: FindStatement
) -> None:
    module = parse("def f(env, a):\n    s, r, d, i = env.step(a)\n")
    statement, scope = find_statement(module, "s, r")
    assert "calls `env.step`, which advances a simulation" == Changing(module).unseen([statement], scope)


def test_a_lambda_is_looked_into_like_a_function(parse: Parse, find_statement: FindStatement) -> None:
    module = parse(f"{HEAD}def g(y): return random.random()\ndef f(y):\n    h = lambda: g(y)\n")
    lam = next(scope for scope in module.index.functions if isinstance(scope.node, ast.Lambda))
    assert "`g` draws from `random`" == Changing(module).unsteady_function(lam)
