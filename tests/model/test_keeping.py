"""Modules that keep something from call to call are distinguished from modules that only compute."""

from __future__ import annotations

import ast

import pytest

from tpulint.model.project.attribute_writes import changes_itself
from tpulint.model.project.keeping import is_of_torch

CHANGING = [
    "self.calls += 1",
    "self.last = x",
    "self.kept[0] = x",
    "self.kept[:, i].add_(x)",
    "self.inner.mean.copy_(x)",
    "self.cache.append(x)",
    "self.seen[x] = 1",
    "self.register_buffer('mean', x)",
    "del self.last",
    "if x.sum() > 0:\n            self.total, y = x, x",
]
COMPUTING = [
    "y = self.lin(x)",
    "return self.scale * x",
    "x.add_(self.bias)",
    "kept = {}\n        kept['x'] = self.bias",
]


def _class(body: str, method: str = "forward") -> ast.ClassDef:
    made = "class Net:\n    def __init__(self):\n        self.lin = 1\n"
    code = f"{made}    def {method}(self, x):\n        {body}\n"
    found = ast.parse(code).body[0]
    assert isinstance(found, ast.ClassDef)
    return found


@pytest.mark.parametrize("body", CHANGING)
def test_methods_that_write_to_the_object_change_it(body: str) -> None:
    assert changes_itself(_class(body))
    assert changes_itself(_class(body, "step"))


@pytest.mark.parametrize("body", COMPUTING)
def test_methods_that_only_read_do_not_change_it(body: str) -> None:
    assert not changes_itself(_class(body))


@pytest.mark.parametrize("body", CHANGING)
def test_making_an_object_does_not_change_it(body: str) -> None:
    assert not changes_itself(_class(body, "__post_init__"))


def test_modules_of_torch_with_statistics() -> None:
    assert is_of_torch("torch.nn.BatchNorm2d")
    assert is_of_torch("torch.nn.modules.batchnorm.SyncBatchNorm")
    assert not is_of_torch("torch.nn.LayerNorm")
    assert not is_of_torch("mine.BatchNorm2d")
