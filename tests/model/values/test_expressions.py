"""Inferred types of expressions, and what conditions tell."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.values.kinds import Tensor

Infer = Callable[..., str]
Parse = Callable[[str], Module]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("3", "Static[3]"),
        ("'a'", "Static['a']"),
        ("None", "Static[None]"),
        ("...", "Static"),
        ("b'a'", "Static"),
        ("torch.float32", "Static['torch.float32']"),
        ("math.pi", "Static"),
        ("np.pi", "Unknown"),
        ("undefined", "Unknown"),
        ("x.shape", "Static"),
        ("x.T", "Tensor"),
        ("ids.grad", "Tensor[int]"),
        ("x.device", "Device"),
        ("x.cpu().device", "Device[cpu]"),
        ("x.requires_grad", "Static"),
        ("x.missing", "Unknown"),
        ("self.size", "Static"),
        ("self.buffer", "Tensor"),
        ("self.linear.weight", "Tensor"),
        ("self.layers", "[Instance[torch.nn.Linear]]"),
        ("self.training", "Static"),
        ("torch.max(x, 0).values", "Tensor"),
        ("torch.max(x, 0).other", "Unknown"),
        ("x.item().real", "Data"),
        ("device.type", "Static"),
        ("unknown.device", "Device"),
        ("unknown.shape", "Static"),
        ("unknown.other", "Unknown"),
        ("f'{x}{n:>{n}}'", "Static"),
        ("(yield x)", "Unknown"),
        ("lambda: x", "Unknown"),
    ],
)
def test_types_of_names_attributes_and_literals(infer: Infer, value: str, expected: str) -> None:
    assert expected == infer(f"out = {value}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x + 1", "Tensor"),
        ("1 - ids", "Tensor[int]"),
        ("ids / 2", "Tensor[float]"),
        ("ids + x.float()", "Tensor[float]"),
        ("mask & unknown.mask", "Tensor[bool]"),
        ("mask & x", "Tensor[bool]"),
        ("mask & ids", "Tensor"),
        ("mask * 2", "Tensor"),
        ("x.sum() + 1", "Tensor[scalar]"),
        ("x.sum() + x.mean()", "Tensor[float, scalar]"),
        ("x.sum() + x", "Tensor"),
        ("x + array", "Tensor"),
        ("array + 1", "Array"),
        ("'%s' % x", "Static"),
        ("[x] + [n]", "(Tensor, Static)"),
        ("[x] + xs", "[Tensor]"),
        ("[x] * n", "[Tensor]"),
        ("x.item() + 1", "Data"),
        ("n + 1", "Static"),
        ("n + unknown.a", "Unknown"),
        ("-x", "Tensor"),
        ("~mask", "Tensor[bool]"),
        ("-n", "Static"),
        ("-xs", "Unknown"),
        ("not x", "Data"),
        ("not n", "Static"),
        ("not unknown.a", "Unknown"),
    ],
)
def test_types_of_arithmetic(infer: Infer, value: str, expected: str) -> None:
    assert expected == infer(f"out = {value}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x > 0", "Tensor[bool]"),
        ("x.sum() > 0", "Tensor[bool, scalar]"),
        ("x == None", "Static"),
        ("x == 'a'", "Static"),
        ("x is None", "Static"),
        ("3 in x", "Data"),
        ("x in xs", "Data"),
        ("n in [1, 2]", "Unknown"),
        ("x in unknown", "Data"),
        ("array > 0", "Array"),
        ("x.item() > 0", "Data"),
        ("n > 0", "Static"),
        ("device == device", "Static"),
        ("unknown.a > 0", "Unknown"),
        ("x and n", "Tensor?"),
        ("n and mask", "Tensor[bool]"),
        ("n or mask", "Tensor?[bool]"),
        ("unknown.a and mask", "Unknown"),
        ("x if n else x", "Tensor"),
        ("x if n else 1", "Tensor?"),
        ("'cuda' if n else 'cpu'", "Device[cuda]"),
        ("x if torch.jit.is_scripting() else n", "Static"),
        ("x if not torch.jit.is_scripting() else n", "Tensor"),
        ("optional if optional is not None else x", "Tensor"),
    ],
)
def test_types_of_comparisons_and_conditional_expressions(infer: Infer, value: str, expected: str) -> None:
    assert expected == infer(f"out = {value}")


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("(x, n)", "(Tensor, Static)"),
        ("[x, *xs]", "[Tensor]"),
        ("[n, *unknown]", "[Unknown]"),
        ("{x, x}", "(Tensor, Tensor)"),
        ("{'a': x, **unknown}", "[Unknown]"),
        ("{'a': x}", "[Tensor]"),
        ("[y + 1 for y in xs]", "[Tensor]"),
        ("[a for a, b in zip(ids, xs) if b is not None]", "[Tensor[int]]"),
        ("{k: v for k, v in {'a': x}.items()}", "[Tensor]"),
        ("[unknown[k] for k in unknown]", "[Unknown]"),
        ("[x[k] for k in x]", "[Tensor]"),
        ("(y := x)", "Tensor"),
        ("x[0]", "Tensor"),
        ("ids[:, None]", "Tensor[int]"),
        ("torch.zeros(3)[0]", "Tensor[float, scalar, host]"),
        ("torch.zeros(3)[None]", "Tensor[float, host]"),
        ("torch.zeros(3)[1:]", "Tensor[float, host]"),
        ("torch.zeros(3)[x]", "Tensor[float]"),
        ("(x, n)[1]", "Static"),
        ("(x, x)[5]", "Tensor"),
        ("xs[n]", "Tensor"),
        ("xs[1:]", "[Tensor]"),
        ("x.shape[0]", "Static"),
        ("x.shape[x.item()]", "Data"),
        ("x.tolist()[0]", "Data"),
        ("array[0]", "Array"),
        ("unknown.a[0]", "Unknown"),
        ("unknown.a[:, 0]", "Tensor"),
        ("unknown.a[:, 1:]", "Tensor"),
        ("unknown.a[mask]", "Tensor"),
        ("unknown.a[unknown.a != 0]", "Tensor"),
        ("unknown.a[unknown.b > 0]", "Tensor"),
        ("unknown.a[~(unknown.b > 0) & (unknown.c < 1)]", "Tensor"),
        ("unknown.a[unknown.b == 0]", "Unknown"),
        ("unknown.a[near]", "Tensor"),
        ("unknown.a[far]", "Unknown"),
        ("unknown.a[either]", "Tensor"),
    ],
)
def test_types_of_containers_and_of_their_items(infer: Infer, value: str, expected: str) -> None:
    head = "near = unknown.b > 0\nfar = load()\neither = (unknown.b > 0) if n else (unknown.b < 0)\n"
    assert expected == infer(f"{head}out = {value}")


def test_an_awaited_value_is_unknown(infer: Infer) -> None:
    assert "Unknown" == infer("async def g():\n    return await x\nout = g()")


@pytest.mark.parametrize(
    ("test", "then", "otherwise"),
    [
        ("isinstance(unknown, torch.Tensor)", "Tensor", "Unknown"),
        ("torch.is_tensor(unknown)", "Tensor", "Unknown"),
        ("not isinstance(unknown, torch.Tensor)", "Unknown", "Tensor"),
        ("isinstance(unknown, (int, float))", "Static", "Unknown"),
        ("isinstance(unknown, list)", "[Unknown]", "Unknown"),
        ("isinstance(unknown, str) and n", "Static", "Unknown"),
        ("n and isinstance(unknown, torch.Tensor)", "Tensor", "Unknown"),
        ("n or not isinstance(unknown, torch.Tensor)", "Unknown", "Tensor"),
        ("unknown is None", "Static[None]", "Unknown"),
        ("unknown is not None", "Unknown", "Static[None]"),
        ("isinstance(unknown, dict)", "Unknown", "Unknown"),
        ("hasattr(unknown, 'x')", "Unknown", "Unknown"),
        ("unknown.dtype == torch.bool", "Unknown", "Unknown"),
        ("unknown", "Unknown", "Unknown"),
    ],
)
def test_what_a_condition_tells_of_a_name(infer: Infer, test: str, then: str, otherwise: str) -> None:
    assert (then, otherwise) == (
        infer(f"unknown = load()\nif {test}:\n    out = unknown"),
        infer(f"unknown = load()\nif {test}:\n    pass\nelse:\n    out = unknown"),
    )


@pytest.mark.parametrize(
    ("value", "test", "then", "otherwise"),
    [
        ("x", "value.dtype == torch.bool", "Tensor[bool]", "Tensor"),
        ("x", "value.dtype != torch.bool", "Tensor", "Tensor[bool]"),
        ("x", "isinstance(value, torch.Tensor)", "Tensor", "Unknown"),
        ("x if n else 1", "isinstance(value, float)", "Static", "Tensor"),
        ("x if n else [1]", "isinstance(value, (list, tuple))", "[Tensor?]", "Tensor"),
        ("xs", "isinstance(value, list)", "[Tensor]", "[Tensor]"),
        ("None if n else None", "value is not None", "Unknown", "Static[None]"),
    ],
)
def test_what_a_condition_tells_of_a_known_value(
    infer: Infer, value: str, test: str, then: str, otherwise: str
) -> None:
    assert (then, otherwise) == (
        infer(f"value = {value}\nif {test}:\n    out = value"),
        infer(f"value = {value}\nif {test}:\n    pass\nelse:\n    out = value"),
    )


def test_isinstance_of_an_attribute_narrows_it_in_the_branch_alone(infer: Infer) -> None:
    assert "Tensor" == infer("if isinstance(unknown.a, torch.Tensor):\n    out = unknown.a")
    assert "Unknown" == infer("if isinstance(unknown.a, torch.Tensor):\n    pass\nelse:\n    out = unknown.a")


@pytest.mark.parametrize(
    ("test", "expected"),
    [
        ("torch.jit.is_scripting()", "Static"),
        ("not torch.jit.is_scripting()", "Tensor"),
        ("torch.jit.is_scripting() or not torch.jit.is_scripting()", "Tensor"),
        ("torch.jit.is_scripting() and n", "Static"),
        ("not torch.jit.is_scripting() and not torch.jit.is_scripting()", "Tensor"),
        ("not torch.jit.is_scripting() and n", "Tensor?"),
        ("x.device.type == 'mps'", "Static"),
        ("on_mps", "Static"),
        ("n", "Tensor?"),
    ],
)
def test_a_branch_that_tracing_never_takes(infer: Infer, test: str, expected: str) -> None:
    body = f"on_mps = x.device.type == 'mps'\nif {test}:\n    value = x\nelse:\n    value = n\nout = value"
    assert expected == infer(body)


def test_both_branches_count_in_code_that_is_not_traced(parse: Parse) -> None:
    module = parse(
        "import torch\ndef f(n: int, x: torch.Tensor):\n"
        "    if torch.jit.is_scripting():\n        y = x\n    else:\n        y = n\n    return y\n"
    )
    flow = module.flow(module.index.functions[0])
    assert flow is not None
    (kind,) = flow.returned
    assert Tensor(certain=False) == kind


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("x * 2 + 1", "x"),
        ("x > 0", "x"),
        ("x.exp()", "x"),
        ("x.sum()", ""),
        ("x.view(-1)", ""),
        ("x + mask", ""),
        ("x + x.sum()", "x"),
        ("x * unknown", ""),
    ],
)
def test_a_value_computed_element_by_element_has_the_shape_of_its_operand(
    parse: Parse, value: str, expected: str
) -> None:
    module = parse(
        "import torch\nfrom torch import nn\nclass Net(nn.Module):\n"
        f"    def forward(self, x: torch.Tensor, mask: torch.Tensor, unknown):\n        return {value}\n"
    )
    flow = module.flow(module.index.functions[0])
    assert flow is not None
    (kind,) = flow.returned
    assert isinstance(kind, Tensor)
    assert expected == kind.root
