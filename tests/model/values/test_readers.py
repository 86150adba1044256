"""Who reads an attribute that traced code has set, and the hooks of modules."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.readers import Reader, Readers, handed_by_hooks, mentions, registered_hooks

Parse = Callable[[str], Module]
FindStatement = Callable[..., tuple[ast.stmt, Scope]]

NOBODY, LATER = Reader(), Reader(later=True)


@pytest.fixture
def reader(parse: Parse, find_statement: FindStatement) -> Callable[..., Reader | None]:
    """Who reads `self.state` that the first `self.state = ...` of a `forward` sets."""

    def reader(forward: str, others: str = "", start: str = "self.state = ") -> Reader | None:
        lines = forward.replace("\n", "\n        ")
        module = parse(
            f"import torch\nclass Net(torch.nn.Module):\n    def forward(self, x):\n        {lines}\n{others}"
        )
        statement, scope = find_statement(module, start)
        return Readers(module).of("state", statement, scope)

    return reader


@pytest.mark.parametrize(
    ("forward", "expected"),
    [
        ("self.state = x", NOBODY),
        ("self.state = x\nreturn self.state", None),
        ("y = self.state\nself.state = x\nreturn y", LATER),
        ("self.state = self.state.to(x.device)\nreturn self.state", LATER),
        ("if x.dim() > 1:\n    self.state = x\nreturn self.state", LATER),
        ("if x.dim() > 1:\n    self.state = x\n    return self.state", None),
        ("if x.dim() > 1:\n    self.state = x\nelse:\n    self.state = x + 1\nreturn self.state", None),
        ("if x.dim() > 1:\n    self.state = x\nelse:\n    raise ValueError\nreturn self.state", None),
        ("if self.training:\n    self.state = x\nreturn self.state", None),
        ("if x.dim() > 1:\n    pass\nelse:\n    self.state = x\nreturn self.state", LATER),
    ],
)
def test_a_forward_that_reads_what_it_has_set(
    reader: Callable[..., Reader | None], forward: str, expected: Reader | None
) -> None:
    assert expected == reader(forward)


def test_the_second_of_two_assignments_is_set_before(reader: Callable[..., Reader | None]) -> None:
    body = "self.state = x\nif x.dim() > 1:\n    self.state = x + 1\nreturn self.state"
    assert reader(body, start="self.state = x + 1") is None


@pytest.mark.parametrize(
    ("others", "expected"),
    [
        ("def report(net):\n    print(net.state)\n", Reader("report")),
        ("net = Net()\nprint(net.state)\n", Reader("")),
        ("class Other:\n    def __init__(self, net):\n        self.x = net.state\n", NOBODY),
        ("def report(net):\n    net.state = 3\n", NOBODY),
    ],
)
def test_code_of_the_host_that_reads_it(
    reader: Callable[..., Reader | None], others: str, expected: Reader
) -> None:
    assert expected == reader("self.state = x", others)


@pytest.mark.parametrize(
    ("forward", "helpers", "expected"),
    [
        ("self.state = x\nreturn self.use()", "    def use(self): return self.state\n", None),
        (
            "if x is None:\n    return self.use()\nself.state = x\nreturn self.use()",
            "    def use(self): return self.state\n",
            LATER,
        ),
        (
            "self.keep(x)\nreturn self.use()",
            "    def keep(self, x):\n        self.state = x\n    def use(self): return self.state\n",
            None,
        ),
        (
            "if x.dim() > 1:\n    self.keep(x)\nreturn self.use()",
            "    def keep(self, x):\n        self.state = x\n    def use(self): return self.state\n",
            LATER,
        ),
    ],
)
def test_another_method_that_reads_it(
    reader: Callable[..., Reader | None], forward: str, helpers: str, expected: Reader | None
) -> None:
    assert expected == reader(forward, helpers)


def test_a_conditional_call_from_host_code_does_not_count(reader: Callable[..., Reader | None]) -> None:
    helpers = "    def keep(self, x):\n        self.state = x\n    def use(self): return self.state\n"
    host = "def main(net):\n    if net:\n        net.keep(3)\n"
    assert reader("self.keep(x)\nreturn self.use()", helpers + host) is None


def test_an_inner_function_of_a_method_has_no_callers_of_its_own(
    reader: Callable[..., Reader | None],
) -> None:
    body = "def inner():\n    self.state = x\ninner()\nreturn self.use()"
    assert reader(body, "    def use(self): return self.state\n") is None


def test_a_compiled_function_that_sets_an_attribute_of_an_argument(
    parse: Parse, find_statement: FindStatement
) -> None:
    module = parse("import torch\n@torch.compile\ndef f(net, x):\n    net.state = x\n    return net.state\n")
    assert Readers(module).of("state", *find_statement(module, "net.state = ")) is None


HOOKS = """
import torch
class Net(torch.nn.Module):
    def __init__(self, part):
        part.register_forward_hook(self.keep)
        part.register_forward_pre_hook(before)
        part.register_forward_hook(load())
        part.register_forward_hook()
        part.register_backward_hook(self.other)
    def keep(self, module, args, out):
        features = out[0]
        other = 3
    def other(self, module, args, out): pass
def before(module, args):
    return args
"""


def test_hooks_with_their_names_for_what_they_get(parse: Parse) -> None:
    module = parse(HOOKS)
    names = {id(scope): scope.qualname for scope in module.index.functions}
    found = {names[key]: value for key, value in handed_by_hooks(module).items()}
    assert {"Net.keep": {"args", "out", "features"}, "before": {"args"}} == found


def test_registered_hooks_with_the_class_that_registers_them(parse: Parse) -> None:
    module = parse(f"{HOOKS}part.register_forward_hook(before)\n")
    found = {(ast.unparse(hook), owner) for hook, _, owner in registered_hooks(module)}
    net = "app.Net"
    assert {("self.keep", net), ("before", net), ("load()", net), ("before", None)} == found


@pytest.mark.parametrize(("text", "expected"), [("f(a.b)", True), ("b.a", False), ("c", False)])
def test_an_expression_that_mentions_a_name(text: str, expected: bool) -> None:
    assert expected == mentions(ast.parse(text, mode="eval").body, {"a"})
