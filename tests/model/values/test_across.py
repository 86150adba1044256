"""What functions of one file learn from one another: arguments, results, and tensors on the host."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.across import (
    callers,
    handed_kind,
    returned_in_file,
    stepped_through,
    steps_through,
)
from tpulint.model.values.kinds import UNKNOWN, Kind

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]
FindFunction = Callable[[Module, str], Scope]
Describe = Callable[[Kind], str]

HEAD = "import torch\nfrom torch import nn\n"


@pytest.mark.parametrize(
    ("helper", "call", "expected"),
    [
        ("def g(y): return y", "g(x)", "Tensor"),
        ("def g(y): return y", "g(y=x)", "Tensor"),
        ("def g(y): return y", "g(3)", "Static"),
        ("def g(y): return y", "g(x) + g(x)", "Tensor"),
        ("def g(y): return y", "g(x) if g(3) else 1", "Tensor?"),
        ("def g(y): return y", "g(load())", "Unknown"),
        ("def g(y): return y", "g(x) + g(load())", "Unknown"),
        ("def g(y): return y", "g(*x)", "Unknown"),
        ("def g(y): return y", "g()", "Unknown"),
        ("def g(a, y): return y", "g(*x, x)", "Unknown"),
        ("def g(a, *, y): return y", "g(1, y=x)", "Tensor"),
        ("g = lambda y: y", "g(x)", "Unknown"),
        ("def g(y): return y", "other.g(x)", "Unknown"),
        ("def g(y): return y", "3", "Unknown"),
    ],
)
def test_what_all_calls_pass_as_a_parameter(
    parse: Parse, describe: Describe, helper: str, call: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}{helper}\nclass Net(nn.Module):\n"
        f"    def forward(self, x: torch.Tensor):\n        return {call}\n"
    )
    for scope in module.index.functions:
        module.flow(scope)
    assert expected == describe(handed_kind(module, module.index.functions[0], "y"))


@pytest.mark.parametrize(
    ("call", "expected"),
    [("self.g(x)", "Tensor"), ("self.g(1, x)", "Static"), ("self.g(y=x)", "Tensor"), ("net.g(x)", "Unknown")],
)
def test_what_methods_pass_to_one_of_the_same_class(
    parse: Parse, describe: Describe, call: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}class Net(nn.Module):\n    def g(self, y, z=1): return y\n"
        f"    def forward(self, x: torch.Tensor, net):\n        return {call}\n"
        "class Other:\n    def f(self): self.g(load())\n"
    )
    for scope in module.index.functions:
        module.flow(scope)
    assert expected == describe(handed_kind(module, module.index.functions[0], "y"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("def g(y): return y\n", ["Net.forward"]),
        ("def g(y: int): return y\n", []),
        ("def g(): return 1\n", []),
        ("g = lambda y: y\n", []),
    ],
)
def test_traced_callers_of_a_function_with_undeclared_parameters(
    parse: Parse, text: str, expected: list[str]
) -> None:
    module = parse(
        f"{HEAD}{text}class Net(nn.Module):\n    def forward(self, x):\n        return g(x)\n"
        "def host():\n    g(3)\n"
    )
    assert expected == [scope.qualname for scope in callers(module, module.index.functions[0])]


SCHEDULER = """
import torch
class Scheduler:
    def __init__(self):
        self.timesteps = torch.arange(10)
    def step(self, sample, timestep: int, eta: float): return self.timesteps
def step(timestep): return timestep
"""


def test_a_parameter_that_is_named_for_an_attribute_of_its_class(
    parse: Parse, find_function: FindFunction
) -> None:
    module = parse(SCHEDULER)
    method, function = find_function(module, "Scheduler.step"), find_function(module, "step")
    assert "timesteps" == stepped_through(module, method, "timestep")
    assert "timesteps" == stepped_through(module, method, "prev_timestep")
    assert stepped_through(module, method, "eta") is None
    assert stepped_through(module, function, "timestep") is None
    assert steps_through(module, method)
    assert not steps_through(module, function)
    assert not steps_through(module, find_function(module, "Scheduler.__init__"))


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        ("def f(x: torch.Tensor): return x", "Tensor"),
        ("def f(x: torch.Tensor):\n    if x is None: return 1\n    return x", "Tensor?"),
        ("def f(): return 3", "Static"),
        ("def f(x: torch.Tensor): return [x, 1]", "(Tensor, Static)"),
        ("def f(x: torch.Tensor): return [y for y in x]", "[Tensor]"),
        ("def f(): return None", "Static[None]"),
        ("def f(x: torch.Tensor): yield x", "Unknown"),
        ("async def f(x: torch.Tensor): return x", "Unknown"),
        ("@torch.no_grad()\ndef f(x: torch.Tensor): return x", "Tensor"),
        ("@torch.inference_mode\ndef f(x: torch.Tensor): return x", "Tensor"),
        ("@cached\ndef f(x: torch.Tensor): return x", "Unknown"),
        ("def f(x: torch.Tensor): pass", "Unknown"),
    ],
)
def test_what_a_function_of_the_file_returns(
    parse: Parse, describe: Describe, find_function: FindFunction, function: str, expected: str
) -> None:
    module = parse(f"{HEAD}{function}\n")
    assert expected == describe(returned_in_file(module, find_function(module, "f")))


def test_a_class_returns_nothing(parse: Parse) -> None:
    module = parse("class A: pass\n")
    assert UNKNOWN == returned_in_file(module, module.index.classes[0])


def test_a_function_that_only_some_calls_give_a_tensor_is_unknown(
    parse: Parse, find_function: FindFunction
) -> None:
    module = parse(
        f"{HEAD}def half(y): return y / 2 if y else 1\n"
        "class Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return half(x) + half(3)\n"
    )
    assert UNKNOWN == returned_in_file(module, find_function(module, "half"))


HELPERS = """
import torch
from torch import nn
def shift(x: torch.Tensor, by=None, *, scale=1):
    if by is None:
        by = torch.zeros(3)
    return x + by
def declared(x: torch.Tensor, n): return x
def many(x, y=None): return x
def grid(n, device=None): return torch.zeros(n, device=device)
def generate(x): yield x
@cached
def wrapped(x): return x
class Net(nn.Module):
    def forward(self, x: torch.Tensor, u):
        host = torch.ones(3)
        return {}
"""


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("shift(host)", "Tensor[host]"),
        ("shift(x=host, by=host)", "Tensor[float, host]"),
        ("shift(host, x)", "Tensor"),
        ("many([host, host])", "(Tensor[float, host], Tensor[float, host])"),
        ("declared(host, u)", "Tensor[host]"),
        ("declared(u, host)", "Tensor"),
        ("grid(3)", "Tensor[float, host]"),
        ("grid(3, device=x.device)", "Tensor[float]"),
        ("shift(host, **u)", "Tensor"),
        ("shift(*[host])", "Tensor"),
        ("shift(host, host, host)", "Tensor[float]"),
        ("shift(host, other=1)", "Tensor"),
        ("generate(host)", "Unknown"),
        ("wrapped(host)", "Unknown"),
    ],
)
def test_a_call_that_passes_host_tensors_or_no_device(
    parse: Parse, describe: Describe, find: Find, value: str, expected: str
) -> None:
    module = parse(HELPERS.format(value))
    node, scope = find(module, value)
    assert expected == describe(module.kind(node, scope))


def test_a_host_tensor_that_meets_one_of_the_device_in_a_called_function(
    parse: Parse, find_function: FindFunction
) -> None:
    module = parse(HELPERS.format("shift(x, host)"))
    flow = module.flow(find_function(module, "Net.forward"))
    assert flow is not None
    (origin,) = flow.mixed
    assert "torch.ones(3)" == ast.unparse(module.makers[origin])


def test_types_of_a_function_whose_device_is_left_out(
    parse: Parse, find: Find, find_function: FindFunction
) -> None:
    module = parse(HELPERS.format("grid(3)"))
    node, scope = find(module, "torch.zeros(n, device=device)")
    assert module.kind(node, scope).is_traced
    by_default = module.walks.by_default(find_function(module, "grid"))
    assert not by_default[id(node)].is_traced
    assert by_default is module.walks.by_default(find_function(module, "grid"))
