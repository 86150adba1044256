"""Expressions that are modules, and calls that compute with their parameters."""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.training.learned import Learned, infers

Parse = Callable[[str], Module]
ParseProject = Callable[[Mapping[str, str]], dict[str, Module]]
Find = Callable[..., tuple[ast.expr, Scope]]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]
FindFunction = Callable[[Module, str], Scope]

HEAD = """
import torch
from torch import nn
from torchax_compat import differentiable
class Net(nn.Module):
    def __init__(self):
        self.scale = nn.Parameter(torch.ones(1))
        self.inner = nn.Linear(2, 2)
    def forward(self, x):
        return self.inner(x)
class Features:
    def __init__(self):
        self.net = Net()
    def __call__(self, x):
        return self.net(x)
    def encode(self, x):
        return self.net(x)
    def measure(self, x):
        return len(x)
@differentiable
def compute(x): return Net()(x)
def both(x): return compute(x) + 1
def mixed(x): return compute(x) + Net()(x)
def loop(x): return loop(x)
def helper(x):
    net = Net()
    return net(x)
def outer(x): return helper(x)
def frozen(x):
    net = Net()
    with torch.no_grad():
        return net(x)
@torch.no_grad()
def predict(x): return Net()(x)
def plain(x): return x.sum()
def fit(x, net):
    net(x).sum().backward()
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("net", True),
        ("Net()", True),
        ("linear", True),
        ("features", False),
        ("model", True),  # by its name
        ("encoder", False),  # a tensor by its annotation
        ("self.netG", True),
        ("self.optimizer", False),
        ("args.model", True),
        ("model_path", False),
        ("Discriminator", False),
        ("helper", False),
        ("torch.nn", False),
        ("f(x)", False),
        ("x", False),
        ("nets[0]", True),
        ("self.models['encoder']", True),
        ("model['encoder']", True),
        ("model[0]", False),
        ("model[1:]", False),
        ("f(x)[0]", False),
        ("asked", True),
        ("asked.sub", False),
        ("table['x']", True),
        ("teacher", True),
    ],
)
def test_an_expression_that_is_a_module(parse: Parse, find: Find, value: str, expected: bool) -> None:
    module = parse(
        f"{HEAD}def f(self, x, model, args, model_path, encoder: torch.Tensor, nets, asked, table, build):\n"
        "    net = Net()\n    linear = nn.Linear(2, 2)\n    features = Features()\n"
        "    asked.eval()\n    table['x'].parameters()\n    teacher = build(args).eval().cuda()\n"
        f"    return g({value})\n"
    )
    assert expected == Learned(module).is_module(*find(module, value, -1))


def test_self_is_a_module_in_a_method_of_one(parse: Parse, find: Find) -> None:
    module = parse(f"{HEAD}class A:\n    def f(self):\n        return g(self)\n")
    assert not Learned(module).is_module(*find(module, "self", -1))
    assert Learned(module).is_module(*find(module, "self", 0))


def test_eval_on_a_local_variable_tells_nothing_of_one_in_another_function(parse: Parse, find: Find) -> None:
    module = parse("def f(thing):\n    thing.eval()\ndef g():\n    thing = load()\n    return h(thing)\n")
    assert not Learned(module).is_surely_module(*find(module, "thing", -1))
    assert Learned(module).is_surely_module(*find(module, "thing", 0))


def test_a_parameter_is_a_module_if_a_variable_of_its_name_is_one(parse: Parse, find: Find) -> None:
    module = parse("def f():\n    thing = load()\n    thing.eval()\ndef g(thing):\n    return h(thing)\n")
    assert Learned(module).is_surely_module(*find(module, "thing", -1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("net(x)", True),
        ("net.inner(x)", True),
        ("net.encode(x)", True),
        ("model(x)", True),
        ("nn.Linear(2, 2)(x)", True),
        ("helper(x)", True),
        ("outer(x)", True),
        ("features(x)", True),
        ("features.encode(x)", True),
        ("features.measure(x)", False),
        ("frozen(x)", False),
        ("plain(x)", False),
        ("loop(x)", False),
        ("compute(x)", False),
        ("both(x)", False),
        ("mixed(x)", True),
        ("fit(x, net)", False),
        ("net.parameters()", False),
        ("net.init_weights()", False),
        ("run(net, x)", True),
        ("run(x, model=net)", True),
        ("run(args.model)", False),
        ("run(x)", False),
        ("Runner(net)", True),
        ("Features(net)", False),
        ("'{}'.format(net)", False),
        ("torch.sum(net)", False),
        ("x.sum()", False),
    ],
)
def test_a_call_that_computes_with_the_parameters_of_a_module(
    parse: Parse, find: Find, value: str, expected: bool
) -> None:
    module = parse(
        f"{HEAD}def f(x, model, args, run, Runner):\n    net = Net()\n"
        f"    features = Features()\n    y = {value}\n"
    )
    node, scope = find(module, value, -1)
    assert isinstance(node, ast.Call)
    assert expected == Learned(module).call(node, scope)
    assert expected == Learned(module).within(module.statement(node), scope)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("run(x)", True),
        ("self.engine.run(x)", True),
        ("x.sum()", False),
        ("d.get(x)", False),
        ("torch.sum(x)", False),
        ("len(x)", False),
        ("Features()", False),
        ("features.measure(x)", True),
        ("plain(x)", False),
    ],
)
def test_a_call_of_an_unknown_function_counts_in_generous_mode(
    parse: Parse, find: Find, value: str, expected: bool
) -> None:
    module = parse(f"{HEAD}def f(self, x, d, run):\n    features = Features()\n    y = {value}\n")
    node, scope = find(module, value, -1)
    assert isinstance(node, ast.Call)
    assert expected == Learned(module, generous=True).call(node, scope)
    assert not Learned(module).call(node, scope)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("pass", True),
        ("raise NotImplementedError", True),
        ("'''Override.'''\n        ...", True),
        ("return self.net(x)", True),
        ("return len(x)", False),
    ],
)
def test_a_method_that_heirs_define_may_compute(parse: Parse, find: Find, body: str, expected: bool) -> None:
    module = parse(
        f"{HEAD}class T:\n    def loss(self, x):\n        {body}\n"
        "    def f(self, x):\n        self.net = Net()\n        y = self.loss(x)\n"
    )
    node, scope = find(module, "self.loss(x)")
    assert isinstance(node, ast.Call)
    assert expected == Learned(module, generous=True).call(node, scope)


def test_the_step_of_a_trainer_computes_if_it_gives_a_value(parse: Parse, find: Find) -> None:
    text = (
        f"{HEAD}class T:\n    def step(self, x):\n        {{}}\n"
        "    def f(self, x):\n        self.net = Net()\n        y = self.step(x)\n"
    )
    for body, expected in (
        ("return self.net(x)", True),
        ("self.net(x)", False),
        ("self.net(x)\n        return self", False),
    ):
        module = parse(text.format(body))
        node, scope = find(module, "self.step(x)")
        assert isinstance(node, ast.Call)
        assert expected == Learned(module).call(node, scope), body


def test_excluded_calls_do_not_count(parse: Parse, find: Find) -> None:
    module = parse(f"{HEAD}def f(x, model):\n    y = model(x)\n")
    node, scope = find(module, "model(x)")
    assert not Learned(module).within(module.statement(node), scope, {id(node)})


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = sum(p.norm() for p in model.parameters())", True),
        ("for n, p in model.named_parameters():\n        y = p", True),
        ("for p in model.buffers():\n        y = p", False),
        ("for p in load().parameters():\n        y = p", False),
        ("for p in params:\n        y = p", False),
    ],
)
def test_a_penalty_on_the_weights(
    parse: Parse, find_statement: FindStatement, text: str, expected: bool
) -> None:
    module = parse(f"def f(model, params):\n    {text}\n")
    statement, scope = find_statement(module, text[:5], -1)
    assert expected == Learned(module).goes_through_parameters(statement, scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = net.inner.weight @ x", True),
        ("y = net.scale * x", True),
        ("y = net.weight.shape[0]", False),
        ("y = net.weight.detach()", False),
        ("net.weight.clamp_(0, 1)", False),
        ("net.weight = x", False),
        ("y = net.size * x", False),
        ("y = x.weight", False),
        ("y = dict(model.named_parameters())", True),
        ("y = OrderedDict(model.named_parameters())", True),
        ("y = dict(x.items())", False),
        ("y = sum(model.parameters())", False),
    ],
)
def test_a_statement_that_reads_the_parameters_of_a_module(
    parse: Parse, find_statement: FindStatement, text: str, expected: bool
) -> None:
    module = parse(f"{HEAD}def f(x, model):\n    net = Net()\n    {text}\n")
    statement, scope = find_statement(module, ast.unparse(ast.parse(text)), -1)
    assert expected == Learned(module).reads_parameters(statement, scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def f(a):\n    w = torch.zeros(3, requires_grad=True)\n", {"w"}),
        ("def f(a):\n    torch.optim.SGD([a], lr=1)\n", {"a"}),
        ("def f(a, b):\n    ws = [a, b]\n    torch.optim.SGD(ws)\n", {"a", "b"}),
        ("def f(a, b):\n    for w in [a, b]:\n        w.requires_grad = True\n", {"a", "b"}),
        ("def f(a):\n    optim.SGD([a], lr=1)\n", set()),
        ("w = torch.zeros(3, requires_grad=True)\ndef f(a): pass\n", {"w"}),
        ("def f(a): pass\ndef g():\n    w = torch.zeros(3, requires_grad=True)\n", set()),
        (
            "def g():\n    w = torch.zeros(3, requires_grad=True)\n    def f(a): pass\n",
            {"w"},
        ),
        ("class A:\n    def g(self): self.w = nn.Parameter(x)\ndef f(a): pass\n", {"self.w"}),
    ],
)
def test_tensors_whose_gradients_are_asked_for_by_name(
    parse: Parse, find_function: FindFunction, text: str, expected: set[str]
) -> None:
    module = parse(f"import torch\nfrom torch import nn\n{text}")
    name = "g.f" if text.startswith("def g") else "f"
    learned = Learned(module)
    assert expected == learned.leaves(find_function(module, name))
    assert expected == learned.leaves(find_function(module, name))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = memory.sample(x)", {"memory.sample(x)", "memory.sample", "memory", "x"}),
        ("self.buffer.push(x)", {"self.buffer.push(x)", "self.buffer.push", "self.buffer", "self", "x"}),
        ("y = model.sample(x)", set()),
        ("y = memory", set()),
        ("y = memory_net(x)", set()),
        ("y = f(x).memory.sample(x)", set()),
    ],
)
def test_calls_of_replay_buffers_and_other_stateful_objects(
    parse: Parse, find_statement: FindStatement, text: str, expected: set[str]
) -> None:
    module = parse(f"def f(self, x, memory, model):\n    {text}\n")
    statement, scope = find_statement(module, text)
    kept = Learned(module).kept(statement, scope)
    nodes = [node for node in ast.walk(statement) if isinstance(node, ast.expr) and id(node) in kept]
    assert expected == {ast.unparse(node) for node in nodes}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("y = compute(x)", True),
        ("y = both(x)", True),
        ("y = mixed(x)", False),
        ("y = helper(x)", False),
        ("y = loop(x)", False),
        ("y = compute(x) + 1", False),
        ("y = x", False),
        ("compute(x)", False),
    ],
)
def test_a_statement_that_only_calls_what_jax_differentiates(
    parse: Parse, find_statement: FindStatement, text: str, expected: bool
) -> None:
    module = parse(f"{HEAD}def f(x):\n    {text}\n")
    assert expected == Learned(module).is_settled(*find_statement(module, text))


@pytest.mark.parametrize(
    ("returned", "expected"),
    [("x.sum()", {"y", "z"}), ("x.item()", set()), ("x.item() if x else x", {"y", "z"})],
)
def test_what_such_a_statement_binds_unless_it_is_a_number(
    parse: Parse, find_statement: FindStatement, returned: str, expected: set[str]
) -> None:
    module = parse(f"def g(x): return {returned}\ndef f(x):\n    y, z = g(x)\n    w = x\n")
    assert expected == Learned(module).given(*find_statement(module, "y, z"))
    assert {"w"} == Learned(module).given(*find_statement(module, "w = x"))


def test_what_a_function_got_from_such_calls_above_a_statement(
    parse: Parse, find_statement: FindStatement
) -> None:
    module = parse(f"{HEAD}def f(x):\n    a = compute(x)\n    b = x\n    here = 1\n    c = compute(x)\n")
    assert {"a"} == Learned(module).handed_on(*find_statement(module, "here"))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("dist.sample()", True),
        ("dist.sample().clamp(-1, 1)", True),
        ("dist.rsample()", False),
        ("model.sample()", False),
        ("x", False),
    ],
)
def test_a_value_that_is_drawn_from_a_distribution(
    parse: Parse, find: Find, value: str, expected: bool
) -> None:
    module = parse(f"def f(x, dist, model):\n    y = {value}\n")
    assert expected == Learned(module).is_drawn(*find(module, value, -1))


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("predict(x)", True),
        ("helper(x)", False),
        ("agent.act(x)", True),
        ("agent.learn(x)", False),
        ("late.act(x)", True),
        ("unknown(x)", False),
        ("x", False),
    ],
)
def test_a_value_of_a_function_that_keeps_no_gradients(
    parse: Parse, find: Find, value: str, expected: bool
) -> None:
    module = parse(
        f"{HEAD}class Agent:\n    @torch.no_grad()\n    def act(self, x): return x\n"
        "    def learn(self, x): return x\n"
        "def f(x):\n    agent = Agent()\n    late = None\n    late = load() or Agent()\n"
        f"    late = Agent()\n    y = {value}\n"
    )
    node, scope = find(module, value, -1)
    assert expected == infers(module, node, scope)
    assert not infers(module, None, scope)
