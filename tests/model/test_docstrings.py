"""Which parameters a docstring declares tensors."""

from __future__ import annotations

import ast
import time

import pytest

from tpulint.model.names.docstrings import documented_tensors
from tpulint.model.names.index import index


def tensors(text: str) -> set[str]:
    tree = ast.parse(f'def f(x, y):\n    """Compute.\n\n    {text}\n    """\n')
    return set(documented_tensors(index(tree, "", {}).functions[0]))


@pytest.mark.parametrize(
    "text",
    [
        "Args:\n        x (torch.Tensor): what comes in",
        "Args:\n        x (LongTensor): indices ``(batch, len)``",
        "Args:\n        x (Tensor, optional): a mask",
        "Args:\n        x: A tensor of shape [batch, features].",
        "Args:\n        x: input of shape (batch, features)",
        "Args:\n        x: [B, T, C]",
        "Args:\n        x: float tensor, the means",
        "Parameters\n    ----------\n    x : torch.FloatTensor\n        What comes in.",
        ":param x: input tensor",
        ":param torch.Tensor x: what comes in",
        ":type x: torch.Tensor",
        "- **x** (batch, seq_len, dim): inputs",
        "Arguments:\n        x: scores [batch x len x dim]",
    ],
)
def test_a_docstring_declares_a_tensor(text: str) -> None:
    assert tensors(text) == {"x"}


@pytest.mark.parametrize(
    "text",
    [
        "Args:\n        x (int): the number of tensors",
        "Args:\n        x: list of tensors",
        "Args:\n        x: dict of torch.Tensor",
        "Args:\n        x: number of dimensions of the tensor",
        "Args:\n        x (np.ndarray or Tensor): what comes in",
        "Args:\n        x: whether to give a tensor",
        "Args:\n        x: function from a tensor to a tensor",
        "Args:\n        x: size of the image (height, width)",
        "Returns:\n        A tensor of shape [batch].",
        "A tensor comes in.",
    ],
)
def test_a_docstring_declares_no_tensor(text: str) -> None:
    assert "x" not in tensors(text)


def test_long_lines_take_no_time() -> None:
    started = time.process_time()
    for text in ("(b x " * 2000, "x: (b, " + "a x * " * 5000, ":param " + "a " * 5000, "x (" * 4000):
        tensors(text)
    assert time.process_time() - started < 1
