"""torchvision and torchaudio are imported without torchax, and `nms` runs on the host."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torchax
from torchax_compat.vision import imports


def test_libraries_with_operators_of_their_own_are_imported_past_torchax(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "torchaudio.py").write_text("import torch\nmade = type(torch.ones(1, device='meta'))\n")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "torchaudio", raising=False)
    torchaudio = importlib.import_module("torchaudio")

    assert torch.Tensor is torchaudio.made
    monkeypatch.delitem(sys.modules, "torchaudio")
    finder = next(one for one in sys.meta_path if isinstance(one, imports._ImportHook))
    assert finder.find_spec("torchvision.no_such_module", []) is None
    assert finder.find_spec("math") is None


def test_boxes_are_suppressed_on_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    def nms(boxes: Any, scores: Any, least: float) -> Any:
        return (scores > least).nonzero().flatten()

    monkeypatch.setattr(torch.ops.torchvision, "nms", nms, raising=False)
    boxes, scores = torch.ones(3, 4, device="jax"), torch.tensor([0.1, 0.9, 0.6], device="jax")
    assert [1, 2] == imports._kept(boxes, scores, 0.5).tolist()


def test_nms_is_registered_once_torchvision_is_imported(monkeypatch: pytest.MonkeyPatch) -> None:
    hook = imports._ImportHook()
    registered: list[int] = []
    monkeypatch.setattr(hook, "register_nms", lambda: registered.append(1))
    hook.execute(lambda _: None, type(sys)("torchvision.ops"))
    assert [] == registered
    hook.execute(lambda _: None, type(sys)("torchvision"))
    assert [1] == registered


def test_without_the_operators_of_torchvision_nms_is_not_registered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torchax.ops.jtorchvision_nms", None)
    before = dict(torchax.default_env()._ops)
    hook = imports._ImportHook()
    hook.register_nms()
    assert before == torchax.default_env()._ops
