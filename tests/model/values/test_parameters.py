"""Inferred types of parameters: by annotation, default and use."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.kinds import Kind, Tensor
from tpulint.model.values.parameters import annotated_kind, parameter_kinds

Parse = Callable[[str], Module]
Describe = Callable[[Kind], str]
FindFunction = Callable[[Module, str], Scope]

HEAD = """
from typing import Any, Dict, List, Literal, Optional, Tuple, Union
import numpy as np
import torch
from torch import nn
from jaxtyping import Bool, Float
class Config:
    pass
"""


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ("torch.Tensor", "Tensor"),
        ("torch.LongTensor", "Tensor[int]"),
        ("'torch.Tensor'", "Tensor"),
        ("'not valid ('", "Unknown"),
        ("Float[torch.Tensor, 'b n']", "Tensor[float]"),
        ("Bool[torch.Tensor, 'b']", "Tensor[bool]"),
        ("Optional[torch.Tensor]", "Tensor"),
        ("torch.Tensor | None", "Tensor"),
        ("Union[torch.Tensor, float]", "Tensor?"),
        ("None", "Static[None]"),
        ("int", "Static"),
        ("str", "Static"),
        ("torch.device", "Device"),
        ("np.ndarray", "Array"),
        ("list", "[Unknown]"),
        ("List[torch.Tensor]", "[Tensor]"),
        ("dict[str, torch.Tensor]", "[Tensor]"),
        ("Dict[str, int]", "[Static]"),
        ("tuple[torch.Tensor, int]", "(Tensor, Static)"),
        ("Tuple[torch.Tensor, ...]", "[Tensor]"),
        ("Literal['a', 'b']", "Static"),
        ("type[Config]", "Unknown"),
        ("Annotated[torch.Tensor, 'b']", "Tensor"),
        ("nn.Linear", "Instance[torch.nn.Linear]"),
        ("torch.optim.Adam", "Instance[torch.optim.Adam]"),
        ("Config", "Instance[app.Config]"),
        ("Any", "Unknown"),
        ("Other[torch.Tensor]", "Unknown"),
        ("1 + 2", "Unknown"),
        ("f(x)", "Unknown"),
        ("undefined", "Unknown"),
    ],
)
def test_the_type_that_an_annotation_declares(
    parse: Parse, describe: Describe, annotation: str, expected: str
) -> None:
    module = parse(f"{HEAD}from typing import Annotated\ndef f(p: {annotation}): return p\n")
    assert expected == describe(parameter_kinds(module, module.index.functions[0])["p"])


def test_a_qualified_annotation_means_itself(parse: Parse, describe: Describe) -> None:
    node = ast.parse("builtins.tuple[torch.Tensor, builtins.int]", mode="eval").body
    assert "(Tensor, Static)" == describe(annotated_kind(parse(HEAD), node, None))


@pytest.mark.parametrize(
    ("parameter", "expected"),
    [
        ("p=3", "Static"),
        ("p='a'", "Static"),
        ("p='cuda:0'", "Device[cuda]"),
        ("p=-1", "Static"),
        ("p=(1, 2)", "[Static]"),
        ("p=(1, x)", "Unknown"),
        ("p=None", "Unknown"),
        ("p=load()", "Unknown"),
        ("*p", "[Unknown]"),
        ("**p", "[Unknown]"),
        ("p", "missing"),
        ("*, p=True", "Static"),
        ("p: int = None", "Static"),
    ],
)
def test_the_type_that_a_default_tells(
    parse: Parse, describe: Describe, parameter: str, expected: str
) -> None:
    module = parse(f"{HEAD}def f({parameter}): return p\n")
    kinds = parameter_kinds(module, module.index.functions[0])
    assert expected == (describe(kinds["p"]) if "p" in kinds else "missing")


def test_a_type_comment_declares_parameters(parse: Parse, describe: Describe) -> None:
    module = parse(f"{HEAD}def f(p, q):\n    # type: (torch.Tensor, int) -> torch.Tensor\n    return p\n")
    kinds = parameter_kinds(module, module.index.functions[0])
    assert ["Tensor", "Static"] == [describe(kinds[name]) for name in ("p", "q")]


def test_self_is_an_instance_of_its_class(
    parse: Parse, describe: Describe, find_function: FindFunction
) -> None:
    module = parse(
        "class A:\n    def f(self): pass\n    @classmethod\n    def g(cls): pass\ndef h(self): pass\n"
    )
    assert "Instance[app.A]" == describe(parameter_kinds(module, find_function(module, "A.f"))["self"])
    assert "Instance[app.A]" == describe(parameter_kinds(module, find_function(module, "A.g"))["cls"])
    assert {} == parameter_kinds(module, find_function(module, "h"))


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("return p.unsqueeze(0)", "Tensor"),
        ("return torch.softmax(p, -1)", "Tensor"),
        ("return self.linear(p)", "Tensor"),
        ("return p", "Tensor"),  # the input of the module
        ("return p.shape", "Tensor"),
        ("return p.names", "Unknown"),
        ("a, b = p\n        return a", "Unknown"),
        ("return p['a']", "Unknown"),
        ("return torch.arange(p)", "Unknown"),
        ("return torch.arange(p.shape[0])", "Tensor"),
        ("return self.table[:p]", "Unknown"),
        ("return self.table[:p.shape[0]]", "Tensor"),
        ("return self.table.view(p)", "Unknown"),
        ("scores = p[0]\n        boxes = p[1]\n        return scores", "[Tensor]"),
        ("scores = p[0]\n        boxes = p[1]\n        return p", "Tensor"),
        ("scores = p[0]\n        return scores", "Tensor"),
    ],
)
def test_the_first_parameter_of_a_forward(
    parse: Parse, describe: Describe, find_function: FindFunction, body: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}class Net(nn.Module):\n    def __init__(self):\n        self.linear = nn.Linear(2, 2)\n"
        f"        self.table = load()\n    def forward(self, p):\n        {body}\n"
    )
    kinds = parameter_kinds(module, find_function(module, "Net.forward"))
    assert expected == describe(kinds["p"])


@pytest.mark.parametrize(
    ("signature", "body", "expected"),
    [
        ("x, p", "return p.unsqueeze(0)", "Tensor"),
        ("x, p", "return p", "Unknown"),
        ("x, p", "return p + 1", "Unknown"),
        ("x, p", "return helper(x, x)", "Unknown"),
        ("x, p=None", "return p.masked_fill(x, 0)", "Tensor"),
        ("x, p=3", "return x + p", "Static"),
        ("x, p: Config", "return p", "Instance[app.Config]"),
    ],
)
def test_the_other_parameters_of_a_forward(
    parse: Parse, describe: Describe, find_function: FindFunction, signature: str, body: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}def helper(a, b): return b\n"
        f"class Net(nn.Module):\n    def forward(self, {signature}):\n        {body}\n"
    )
    kinds = parameter_kinds(module, find_function(module, "Net.forward"))
    assert expected == describe(kinds["p"])


@pytest.mark.parametrize(
    ("call", "expected"),
    [("helper(x)", "Tensor"), ("helper(x.shape)", "Static"), ("helper(load())", "Unknown"), ("3", "Unknown")],
)
def test_a_parameter_of_a_helper_is_what_traced_code_passes(
    parse: Parse, describe: Describe, find_function: FindFunction, call: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}@torch.compile\ndef helper(p): return p\n"
        f"class Net(nn.Module):\n    def forward(self, x: torch.Tensor):\n        return {call}\n"
    )
    flow = module.flow(find_function(module, "helper"))
    assert flow is not None
    assert expected == describe(flow.initial["p"])


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("torch.matmul(p, q)", ["Tensor", "Tensor"]),
        ("torch.softmax(p, q)", ["Tensor", "Unknown"]),
        ("torch.zeros_like(p) * q", ["Tensor", "Unknown"]),
        ("torch.cat([p, q])", ["Tensor", "Tensor"]),
        ("torch.einsum(p, q)", ["Unknown", "Tensor"]),
        ("einops.rearrange(p, q)", ["Tensor", "Unknown"]),
        ("load().masked_fill(p, q)", ["Tensor", "Unknown"]),
        ("torch.where(p, q, 0)", ["Tensor", "Unknown"]),
    ],
)
def test_the_operands_of_functions_of_torch_are_tensors(
    parse: Parse, describe: Describe, find_function: FindFunction, value: str, expected: list[str]
) -> None:
    module = parse(f"{HEAD}import einops\n@torch.compile\ndef helper(p, q): return {value}\n")
    kinds = parameter_kinds(module, find_function(module, "helper"))
    assert expected == [describe(kinds[name]) for name in ("p", "q")]


@pytest.mark.parametrize(
    ("timesteps", "expected"),
    [("torch.arange(10)", "Tensor[scalar]"), ("torch.tensor(3)", "Static"), ("[1, 2]", "Static")],
)
def test_a_method_that_takes_an_element_of_a_tensor_of_its_class(
    parse: Parse, describe: Describe, find_function: FindFunction, timesteps: str, expected: str
) -> None:
    module = parse(
        f"{HEAD}class Scheduler(nn.Module):\n    def __init__(self):\n        self.timesteps = {timesteps}\n"
        "    def forward(self, x: torch.Tensor, timestep: int):\n        return self.scale(x, timestep)\n"
        "    def scale(self, x, t: int): return x * t\n"
        "    def inner(self, x, timestep: int, t: int): return x * t\n"
    )
    kinds = parameter_kinds(module, find_function(module, "Scheduler.forward"))
    assert expected == describe(kinds["timestep"])


def test_a_method_that_passes_such_an_element_on(parse: Parse, find_function: FindFunction) -> None:
    module = parse(
        f"{HEAD}class Scheduler(nn.Module):\n    def __init__(self):\n"
        "        self.timesteps = torch.arange(10)\n"
        "    def forward(self, x: torch.Tensor, timestep: int):\n"
        "        return self.scale(x, timestep, timestep)\n"
        "    def scale(self, x, timestep: int, t: int): return x * t\n"
    )
    flow = module.flow(find_function(module, "Scheduler.scale"))
    assert flow is not None
    kind = flow.initial["t"]
    assert isinstance(kind, Tensor)
    assert ("t", True) == (kind.root, kind.is_traced)
