"""Two copies of the runtime in one process."""

from __future__ import annotations

import sys
import types

import pytest
from torchax_compat import environment


def test_former_runtime_in_the_same_program_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pkg.torchax_training", types.ModuleType("torchax_training"))
    monkeypatch.setattr(environment, "_MARK", "_no_such_mark")
    with pytest.raises(RuntimeError, match=r"also imports `pkg\.torchax_training`"):
        environment._check_copies()


def test_second_copy_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch, environment._MARK, "pkg._vendor.torchax_compat", raising=False)
    with pytest.raises(RuntimeError, match=r"already: `pkg\._vendor\.torchax_compat`"):
        environment._check_copies()


def test_environment_that_the_program_has_left_is_entered_again() -> None:
    import torch
    import torchax
    import torchax_compat

    torchax.disable_globally()
    torchax_compat.enable()
    assert torch.ones(2, device="jax").sum().item() == 2
