"""Versions and copies that `enable()` refuses."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
import torchax_compat
from torchax_compat import environment

pytestmark = pytest.mark.usefixtures("disabled")


def test_another_copy_that_is_enabled_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "_torchax_compat", "program.torchax_compat", raising=False)
    with pytest.raises(RuntimeError, match=r"`program\.torchax_compat`"):
        torchax_compat.enable()
    assert not torchax_compat.is_enabled()


def test_versions_that_were_not_tested_are_refused_unless_forced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "tested_versions", lambda: {"torch": ["1.0", "2.0"]})
    with pytest.raises(
        torchax_compat.UnsupportedVersion, match=r"torch 2.* was not tested.*torch 1.0 or 2.0"
    ):
        torchax_compat.enable()
    assert not torchax_compat.is_enabled()
    torchax_compat.enable(force=True)
    assert torchax_compat.is_enabled()
    torchax_compat.disable()


def test_package_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environment, "tested_versions", lambda: {"no-such-package": ["1"]})
    with pytest.raises(torchax_compat.UnsupportedVersion, match="needs no-such-package, which is not inst"):
        torchax_compat.enable(force=True)


@pytest.mark.parametrize(
    ("version", "release", "expected"),
    [
        ("2.13.0+cpu", "2.13", True),
        ("2.130.0", "2.13", False),
        ("0.10.2", "0.10", True),
        ("0.1", "0.10", False),
    ],
)
def test_version_belongs_to_release(version: str, release: str, expected: bool) -> None:
    assert expected is environment._is_of(version, release)


def test_module_that_cannot_be_imported_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    module = SimpleNamespace(name="torchax_compat.of_another_torchax")
    monkeypatch.setattr(environment.pkgutil, "walk_packages", lambda *_: [module])
    monkeypatch.setattr(environment, "_import_errors", [])
    for refused in (torchax_compat.enable, torchax_compat.enable, torchax_compat.status):
        with pytest.raises(
            torchax_compat.UnsupportedVersion, match=r"No module named '.*of_another_torchax'"
        ):
            refused()
    assert not torchax_compat.is_enabled()
