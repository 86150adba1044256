"""Imports of torchvision and torchaudio outside of the torchax environment, and `nms`."""

from __future__ import annotations

import importlib
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torchax
from torchax.ops import ops_registry
from torchax_compat.vision import imports


@pytest.fixture
def hook() -> Iterator[Any]:
    made = imports._Hook()
    yield made
    made.remove()


def test_libraries_with_operators_of_their_own_are_imported_outside_of_torchax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchaudio.py").write_text("import torch\nmade = type(torch.ones(1, device='meta'))\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchaudio", raising=False)
    torchaudio = importlib.import_module("torchaudio")

    assert torch.Tensor is torchaudio.made
    monkeypatch.delitem(sys.modules, "torchaudio")
    finder = next(one for one in sys.meta_path if isinstance(one, imports._Hook))
    assert finder.find_spec("torchvision.no_such_module", []) is None
    assert finder.find_spec("math") is None


def test_boxes_are_suppressed_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def nms(boxes: Any, scores: Any, least: float) -> Any:
        return (scores > least).nonzero().flatten()

    monkeypatch.setattr(torch.ops.torchvision, "nms", nms, raising=False)
    boxes, scores = torch.ones(3, 4, device="jax"), torch.tensor([0.1, 0.9, 0.6], device="jax")
    assert [1, 2] == imports._kept(boxes, scores, 0.5).tolist()


def test_nms_is_registered_once_torchvision_is_imported_until_the_hook_is_removed(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nms() -> None:
        raise AssertionError

    nms.default = object()
    monkeypatch.setattr(torch.ops.torchvision, "nms", nms, raising=False)
    known = torchax.default_env()._ops, ops_registry.all_torch_functions
    before = [dict(one) for one in known]
    hook.execute(lambda _: None, types.ModuleType("torchvision.ops"))
    assert before == list(known)
    hook.execute(lambda _: None, types.ModuleType("torchvision"))
    assert imports._kept is known[0][nms].func is known[1][nms].func
    hook.remove()
    assert before == list(known)


def test_without_the_operators_of_torchvision_there_is_no_nms(
    hook: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torchax.ops.jtorchvision_nms", None)
    before = dict(torchax.default_env()._ops)
    hook.register_nms()
    assert before == torchax.default_env()._ops
