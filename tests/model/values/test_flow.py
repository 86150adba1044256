"""Inferred types of names in the order of control flow."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.flow import merged
from tpulint.model.values.kinds import NONE, STATIC, TENSOR, UNKNOWN, Kind, Several, Tensor

Infer = Callable[..., str]
Parse = Callable[[str], Module]
FindFunction = Callable[[Module, str], Scope]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("value = x\nvalue = n\nout = value", "Static"),
        ("value: int = x\nout = value", "Tensor"),
        ("value: int\nout = value", "Unknown"),
        ("a = b = x\nout = b", "Tensor"),
        ("a, b = x, n\nout = b", "Static"),
        ("a, b = xs\nout = b", "Tensor"),
        ("a, b, c = x, n\nout = c", "Tensor?"),
        ("a, b = torch.max(ids, 0)\nout = a", "Tensor[int]"),
        ("a, *b = xs\nout = b", "[Tensor]"),
        ("[a, b] = x, n\nout = a", "Tensor"),
        ("value = n\nvalue += x\nout = value", "Tensor"),
        ("value = x\ndel value\nout = value", "Unknown"),
        ("value = x\ndef value(): pass\nout = value", "Unknown"),
        ("self.state = x\nout = self.state", "Tensor"),
        ("values = []\nvalues.append(x)\nout = values[0]", "Tensor"),
        ("values = [n]\nvalues.append(x)\nout = values", "[Tensor?]"),
        ("values = {'b': x}\nvalues['a'] = n\nout = values['a']", "Tensor?"),
        ("values = [n]\nvalues.insert(0, x)\nout = values", "(Static)"),
        ("import math as x\nout = x", "Tensor"),
    ],
)
def test_a_name_has_the_type_of_its_last_assignment(infer: Infer, body: str, expected: str) -> None:
    assert expected == infer(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("value = x\nif n:\n    value = n\nout = value", "Tensor?"),
        ("if n:\n    value = x\nelse:\n    value = ids\nout = value", "Tensor"),
        ("if n:\n    value = x\nout = value", "Tensor"),
        ("value = x\nif n:\n    value = n\n    return value\nout = value", "Tensor"),
        ("value = x\nif n:\n    value = n\n    raise ValueError(value)\nout = value", "Tensor"),
        ("value = x\nassert isinstance(unknown, torch.Tensor), value\nout = unknown", "Tensor"),
        ("if optional is None:\n    optional = x\nout = optional", "Tensor"),
        ("value = n\nmatch n:\n    case 1:\n        value = x\nout = value", "Tensor?"),
        ("value = x\ntry:\n    value = n\nexcept ValueError:\n    pass\nout = value", "Tensor?"),
        ("value = x\ntry:\n    value = n\nexcept ValueError:\n    raise\nout = value", "Static"),
        ("value = x\ntry:\n    pass\nexcept E:\n    pass\nelse:\n    value = n\nout = value", "Tensor?"),
        ("value = x\ntry:\n    load()\nfinally:\n    value = n\nout = value", "Static"),
        ("try:\n    return x\nfinally:\n    out = n", "Static"),
        ("with torch.no_grad():\n    value = x\nout = value", "Tensor"),
        ("with load() as value:\n    pass\nout = value", "Unknown"),
        ("with open('a') as f, torch.no_grad():\n    value = x\nout = value", "Tensor"),
    ],
)
def test_a_name_has_the_joined_type_of_all_branches_that_go_on(
    infer: Infer, body: str, expected: str
) -> None:
    assert expected == infer(body)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("value = n\nfor a in xs:\n    value = a\nout = value", "Tensor?"),
        ("value = n\nfor a in xs:\n    out = value\n    value = a", "Tensor?"),
        ("value = n\nfor a in xs:\n    value = a\n    continue\nout = value", "Tensor?"),
        ("value = n\nfor a in xs:\n    value = a\n    break\n    value = n\nout = value", "Tensor?"),
        ("value = n\nfor a in xs:\n    value = a\n    break\nelse:\n    value = x\nout = value", "Tensor"),
        ("value = n\nwhile value is not None:\n    value = x\nout = value", "Tensor?"),
        ("for a in x:\n    out = a", "Tensor"),
        ("for k, v in {'a': x}.items():\n    out = v", "Tensor"),
        ("for i, a in enumerate(xs):\n    out = i", "Static"),
        ("total = 0\nfor a in xs:\n    total = total + a\nout = total", "Tensor?"),
        (
            (
                "v = n\nfor a in xs:\n    for b in xs:\n"
                "        for c in xs:\n            out = v\n            v = a"
            ),
            "Tensor?",
        ),
    ],
)
def test_a_name_in_a_loop_has_the_joined_type_of_all_iterations(
    infer: Infer, body: str, expected: str
) -> None:
    assert expected == infer(body)


def test_a_context_of_the_programs_own_binds_what_enter_gives(infer: Infer) -> None:
    head = """
    class Timer:
        def __enter__(self):
            return torch.ones(3) > 0
        def __exit__(self, *args): pass
    """
    assert "Tensor[bool, host]" == infer("with Timer() as out:\n    out", head)


def test_a_parameter_that_is_made_where_it_is_left_out_is_a_tensor(infer: Infer) -> None:
    head = (
        "def inner(x: torch.Tensor, start: float | torch.Tensor = None):\n"
        "    if start is None:\n        start = x\n    return start\n"
    )
    assert "Tensor" == infer("out = inner(x, load())", head)
    assert "Tensor?" == infer("out = inner(x, load())", head.replace("start is None", "x is None"))


def test_a_method_that_reshapes_in_place_ends_the_shape_of_a_name(
    parse: Parse, find_function: FindFunction
) -> None:
    module = parse(
        "import torch\nclass Net(torch.nn.Module):\n    def forward(self, x: torch.Tensor):\n"
        "        y = x * 2\n        mask = y > 0\n        y.unsqueeze_(0)\n        return mask, y\n"
    )
    flow = module.flow(find_function(module, "Net.forward"))
    assert flow is not None
    mask, y = flow.final["mask"], flow.final["y"]
    assert isinstance(mask, Tensor) and isinstance(y, Tensor)
    assert "x" == mask.root
    assert "y@6:8" == y.root


@pytest.mark.parametrize(
    ("body", "returned", "yields"),
    [
        ("return x", [TENSOR], False),
        ("return", [NONE], False),
        ("if x is None:\n        return 1\n    return x", [STATIC, TENSOR], False),
        ("yield x", [], True),
        ("yield from x", [], True),
        ("yield", [], True),
        ("pass", [], False),
    ],
)
def test_what_a_function_returns(
    parse: Parse, find_function: FindFunction, body: str, returned: list[Kind], yields: bool
) -> None:
    module = parse(f"import torch\ndef f(x: torch.Tensor):\n    {body}\n")
    flow = module.flow(find_function(module, "f"))
    assert flow is not None
    found = [Tensor() if isinstance(kind, Tensor) else kind for kind in flow.returned]
    found = [STATIC if kind not in (TENSOR, NONE) else kind for kind in found]
    assert (returned, yields) == (found, flow.yields)


def test_the_body_of_a_lambda_is_what_it_returns(parse: Parse) -> None:
    module = parse("import torch\nf = lambda n=3: n\n")
    flow = module.flow(module.index.functions[0])
    assert flow is not None
    assert [STATIC] == flow.returned


HOST_WRITES = """
import torch
class Net(torch.nn.Module):
    def forward(self, x: torch.Tensor, xs: list):
        rows = torch.zeros(3)
        other = torch.ones(3)
        {}
        return x
"""


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("rows[0] = x", ["torch.zeros(3)"]),
        ("rows[x] = 1", ["torch.zeros(3)"]),
        ("rows[0, x] = 1", ["torch.zeros(3)"]),
        ("rows[0] = 1", []),
        ("rows[0] = other", []),
        ("x[0] = rows", []),
        ("rows = x", []),
    ],
)
def test_a_tensor_of_the_device_that_is_written_into_one_made_on_the_host(
    parse: Parse, line: str, expected: list[str]
) -> None:
    module = parse(HOST_WRITES.format(line))
    scope = module.index.functions[0]
    found = [
        ast.unparse(call)
        for node, at in module.index.nodes[ast.Subscript]
        if isinstance(node, ast.Subscript) and at.function is scope
        for call in module.written_from_device(node, scope)
    ]
    assert expected == found


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("y = x + rows", ["torch.zeros(3)"]),
        ("y = x + rows[0]", []),  # a number mixes freely
        ("y = rows + other", []),
        ("y = x[rows]", ["torch.zeros(3)"]),
        ("y = torch.cat([x, rows, other])", ["torch.zeros(3)", "torch.ones(3)"]),
        ("y = x + (torch.ones(1) + rows)", ["torch.zeros(3)"]),
        ("y = x + rows.to(x.device)", []),
        ("x[0] = rows", ["torch.zeros(3)"]),
        ("y = [rows][0] + x", ["torch.zeros(3)"]),
        ("[rows][0][1] = x", ["torch.zeros(3)"]),
    ],
)
def test_host_tensors_that_meet_one_of_the_device(parse: Parse, line: str, expected: list[str]) -> None:
    module = parse(HOST_WRITES.format(line))
    flow = module.flow(module.index.functions[0])
    assert flow is not None
    assert expected == [ast.unparse(module.makers[origin]) for origin in sorted(flow.mixed)]


def test_merging_the_types_of_several_paths() -> None:
    assert merged([None, None]) is None
    assert {"a": TENSOR} == merged([{"a": TENSOR}, None])
    one: dict[str, Kind] = {"a": TENSOR, "b": STATIC}
    assert {"a": Tensor(certain=False), "b": STATIC, "c": UNKNOWN} == merged(
        [one, {"a": STATIC, "c": UNKNOWN}]
    )
    same: dict[str, Kind] = {"a": Several(TENSOR)}
    assert same is merged([same, same])
