"""Each target of a patch: `enable()` raises if it is missing or changed, and then changes nothing."""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torchax
import torchax_compat
from torchax.ops import ops_registry
from torchax_compat import environment
from torchax_compat.patches import application, record
from torchax_compat.patches.declarations import (
    OPERATORS,
    PATCHES,
    SETUPS,
    DuplicatePatchError,
    Operator,
    Patch,
    Setup,
    operator,
    patch,
    setup,
)

environment.import_all()
TARGETS = list(PATCHES)
EXISTING = [target for target, one in PATCHES.items() if not one.is_new]
NEW = [target for target, one in PATCHES.items() if one.is_new]

pytestmark = pytest.mark.usefixtures("disabled")
_MISSING = object()


def _held() -> dict[Any, Any]:
    """What `enable()` would change, by target and operator."""
    found: dict[Any, Any] = {}
    for target in TARGETS:
        owner, name = application.owner_of(target)
        found[target] = vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else _MISSING
    for registry in (
        ops_registry.all_aten_ops,
        ops_registry.all_torch_functions,
        torchax.default_env()._ops,
    ):
        found |= {(id(registry), operation): one for operation, one in registry.items()}
    found["meta_path"] = list(sys.meta_path)
    return found


@pytest.fixture
def unchanged(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing may be different after the test, once its own changes are undone."""
    before = _held()
    yield
    monkeypatch.undo()
    assert not torchax_compat.is_enabled()
    after = _held()
    assert before.keys() == after.keys()
    changed = [key for key in before if before[key] is not after[key] and before[key] != after[key]]
    assert [] == changed


class _Without:
    """An object without one of its attributes, where the attribute itself cannot be deleted."""

    def __init__(self, owner: Any, name: str) -> None:
        self._owner, self._name = owner, name

    def __getattr__(self, name: str) -> Any:
        if name == self._name:
            raise AttributeError(name)
        return getattr(self._owner, name)


def _change_owner(monkeypatch: pytest.MonkeyPatch, target: str, owner: Any, name: str) -> None:
    find = application.owner_of
    monkeypatch.setattr(application, "owner_of", lambda one: (owner, name) if one == target else find(one))


def _assert_refused(target: str, attribute: str) -> None:
    """`enable()` raises and names a target, and others at most where a class inherits this attribute."""
    with pytest.raises(torchax_compat.UnsupportedVersion) as raised:
        torchax_compat.enable()
    named = re.findall(
        r"`([\w.]+:[\w.]+)` (?:does not exist|exists already|has the signature)", str(raised.value)
    )
    assert target in named
    assert {attribute} == {re.split(r"[:.]", one)[-1] for one in named}


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("target", EXISTING)
def test_missing_target_is_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = application.owner_of(target)
    if name in getattr(owner, "__dict__", {}):
        monkeypatch.delattr(owner, name)
    else:  # it is inherited, or belongs to an object such as a function
        _change_owner(monkeypatch, target, _Without(owner, name), name)
    _assert_refused(target, name)


def _of_another_signature(renamed_parameter: object) -> None:
    raise AssertionError


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("target", EXISTING)
def test_target_with_another_signature_is_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    owner, name = application.owner_of(target)
    if isinstance(owner, type | types.ModuleType):
        monkeypatch.setattr(owner, name, _of_another_signature)
    else:
        _change_owner(monkeypatch, target, types.SimpleNamespace(**{name: _of_another_signature}), name)
    _assert_refused(target, name)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("target", NEW)
def test_new_attribute_that_exists_is_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _, name = application.owner_of(target)
    _change_owner(monkeypatch, target, types.SimpleNamespace(**{name: None}), name)
    _assert_refused(target, name)


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("target", TARGETS)
def test_target_whose_owner_is_missing_is_named(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    find = application.owner_of

    def of_renamed(one: str) -> tuple[Any, str]:
        return find(one.replace(":", "_renamed:") if one == target else one)

    monkeypatch.setattr(application, "owner_of", of_renamed)
    assert [f"`{target}` does not exist"] == application.moved(record.read())


def test_signatures_on_record_are_up_to_date() -> None:
    """If this fails, run `python -m torchax_compat.patches.record`."""
    recorded = record.read()
    assert EXISTING and sorted(EXISTING) == list(recorded)
    assert record.merged(recorded) == recorded


def test_signatures_are_recorded_beside_those_of_other_versions() -> None:
    target = "torch.nn:Module.to"
    found = record.merged({target: ["of another version"]})
    assert ["of another version", "torch.nn.modules.module.Module(self, *args, **kwargs)"] == found[target]


def test_signatures_of_patched_functions_are_not_recorded() -> None:
    torchax_compat.enable()
    try:
        with pytest.raises(RuntimeError, match="call `disable"):
            record.merged({})
    finally:
        torchax_compat.disable()


class _Refusing:
    def __setattr__(self, name: str, value: object) -> None:
        raise ValueError("refused")


def _raise() -> None:
    raise ValueError("refused")


@pytest.mark.usefixtures("unchanged")
@pytest.mark.parametrize("where", ["setup", "patch", "operator"])
def test_patch_that_raises_leaves_nothing_applied(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if where == "setup":
        monkeypatch.setitem(SETUPS, "raising", Setup("raising", _raise, ""))
    elif where == "operator":
        monkeypatch.setitem(OPERATORS, "raising", Operator([], _raise, {}, ""))  # a list cannot be registered
    else:
        module = types.ModuleType("module_with_refusing_object")
        module.refusing, module.attribute = _Refusing(), None
        monkeypatch.setattr(_Refusing, "attribute", None, raising=False)
        monkeypatch.setitem(sys.modules, module.__name__, module)
        target = f"{module.__name__}:refusing.attribute"
        monkeypatch.setitem(PATCHES, target, Patch(target, 1, ""))
    with pytest.raises((ValueError, TypeError), match=r"refused|unhashable"):
        torchax_compat.enable()


def test_functions_imported_by_name_are_replaced_and_restored(monkeypatch: pytest.MonkeyPatch) -> None:
    program = types.ModuleType("program_with_imported_names")
    program.load, program.clip, program.Generator = (
        torch.load,
        torch.nn.utils.clip_grad_norm_,
        torch.Generator,
    )
    program.add = torch.add
    before = dict(vars(program))
    monkeypatch.setitem(sys.modules, program.__name__, program)
    torchax_compat.enable()
    assert (torch.load, torch.nn.utils.clip_grad_norm_) == (program.load, program.clip)
    assert program.load is not before["load"] and program.clip is not before["clip"]
    assert program.Generator is torch.Generator is not before["Generator"]
    assert program.add is before["add"]
    torchax_compat.disable()
    assert before == vars(program)


def test_names_in_libraries_are_left_as_they_are() -> None:
    torchax_compat.enable()
    try:
        assert torch.serialization.load is PATCHES["torch:load"].value.__globals__["_load"]
        assert torch.serialization.load is not torch.load
    finally:
        torchax_compat.disable()


def test_second_declaration_of_a_target_is_an_error() -> None:
    with pytest.raises(DuplicatePatchError, match="torch:load"):
        patch("torch:load", why="")(torch.load)
    with pytest.raises(DuplicatePatchError, match="copy_"):
        operator(_raise, torch.ops.aten.copy_, why="")
    with pytest.raises(DuplicatePatchError, match="XLA_FLAGS"):
        setup("XLA_FLAGS", why="")(_raise)
    assert PATCHES["torch:load"].value is not torch.load
    assert OPERATORS[torch.ops.aten.copy_].function is not _raise
    assert SETUPS["XLA_FLAGS"].run is not _raise
