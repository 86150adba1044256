"""Dtypes of NumPy arrays, and expressions over the elements that a mask selects."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.names.scopes import Scope
from tpulint.model.values.arrays import dtype_of_array
from tpulint.model.values.masked import lifted

Parse = Callable[[str], Module]
Find = Callable[..., tuple[ast.expr, Scope]]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("np.arange(3)", "torch.int64"),
        ("np.arange(0, -3)", "torch.int64"),
        ("np.arange(0.5)", None),
        ("np.array([1, 2])", "torch.int64"),
        ("np.array([[1], (2, 3)])", "torch.int64"),
        ("np.array([True, False])", "torch.bool"),
        ("np.array([1, 2.0])", None),
        ("np.array([1, n])", None),
        ("np.array([])", None),
        ("np.full(3, 7)", "torch.int64"),
        ("np.full(3, 7.0)", None),
        ("np.zeros(3)", None),
        ("np.zeros(3, dtype=np.int64)", "torch.int64"),
        ("np.zeros(3, dtype='bool')", "torch.bool"),
        ("np.zeros(3, dtype=bool)", "torch.bool"),
        ("np.zeros(3, dtype=n)", None),
        ("np.zeros(3, dtype=3)", None),
        ("load(dtype=np.int64)", None),
        ("a.astype(np.int64)", "torch.int64"),
        ("a.astype('int64')", "torch.int64"),
        ("a.astype(n)", None),
        ("np.argsort(a)", "torch.int64"),
        ("np.isnan(a)", "torch.bool"),
        ("ids", "torch.int64"),
        ("twice", None),
        ("n", None),
        ("a[0]", None),
        ("np.array([1], copy=False)", None),
    ],
)
def test_the_dtype_of_an_array(parse: Parse, find: Find, value: str, expected: str | None) -> None:
    module = parse(
        "import numpy as np\ndef f(a, n):\n    ids = np.arange(3)\n    twice = ids\n    twice = a\n"
        f"    out = g({value})\n"
    )
    assert expected == dtype_of_array(module, *find(module, value, -1))


@pytest.mark.parametrize(
    ("value", "text", "plain"),
    [
        ("x[m] * 2", "x * 2", True),
        ("x[m] + y[m]", "x + y", True),
        ("x[m] - 1", "x - 1", True),
        ("x[m] * y[m]", "x * y", False),
        ("x[m] / 2", "x / 2", False),
        ("-x[m]", "-x", True),
        ("~m[m]", "~m", True),
        ("x[m].exp()", "x.exp()", False),
        ("torch.exp(x[m])", "torch.exp(x)", False),
        ("torch.clamp(x[m], min=0)", "torch.clamp(x, min=0)", False),
        ("x[m] + x.sum()", "x + x.sum()", True),
        ("(x + y)[m] * 2", "(x + y) * 2", True),
        ("x[m]", "x", True),
        ("x[m].sum()", "x[m].sum()", True),  # one number for all
    ],
)
def test_an_expression_over_selected_elements_over_all_of_them(
    parse: Parse, find: Find, value: str, text: str, plain: bool
) -> None:
    module = parse(
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor, y: torch.Tensor, m: torch.BoolTensor):\n"
        f"        return {value}\n"
    )
    node, scope = find(module, value)
    found = lifted(module, node, scope, find(module, "m", -1)[0])
    assert found is not None
    assert (text, plain) == (found.text, found.plain)


@pytest.mark.parametrize(
    "value",
    [
        "x[m] @ y",
        "x[m] + y",
        "x[m].softmax(0)",
        "x[m].cpu()",
        "np.exp(x[m])",
        "f(x[m])",
        "unknown[m] + 1",
        "x[y]",
        "x[m] if y else 1",
        "torch.exp(y)",
    ],
)
def test_an_expression_that_does_not_work_element_by_element(parse: Parse, find: Find, value: str) -> None:
    module = parse(
        "import torch\nimport numpy as np\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor, y: torch.Tensor, m: torch.BoolTensor, unknown, f):\n"
        f"        unknown = unknown.part\n        return m, {value}\n"
    )
    node, scope = find(module, value, -1)
    assert lifted(module, node, scope, find(module, "m")[0]) is None


@pytest.mark.parametrize(
    ("mask", "value", "expected"),
    [
        ("x > 0", "x[m] * 2", True),
        ("x > 0", "x[m] * 2 + y[m]", False),
        ("x.sum() > 0", "x[m] * 2", False),
        ("x * 2", "x[m] * 2", False),
    ],
)
def test_a_mask_that_has_the_shape_of_its_tensor(
    parse: Parse, find: Find, mask: str, value: str, expected: bool
) -> None:
    module = parse(
        "import torch\nclass Net(torch.nn.Module):\n"
        "    def forward(self, x: torch.Tensor, y: torch.Tensor):\n"
        f"        m = {mask}\n        return {value}\n"
    )
    node, scope = find(module, value)
    found = lifted(module, node, scope, find(module, "m", -1)[0])
    assert found is not None
    assert expected == found.same_shape
