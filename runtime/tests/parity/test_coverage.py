"""The tables have each operator that the runtime implements or patches."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torchax
from torchax_compat import environment
from torchax_compat.patches import application
from torchax_compat.patches.declarations import OPERATORS, PATCHES
from torchax_compat.tensor import compiled_operations

from . import comparison
from .differences import UNREACHED
from .tables.draws import ALL
from .test_operators import TABLES

environment.import_all()


def _is_operator(target: str) -> bool:
    """Whether a patch replaces a function that computes, or initializes, a tensor."""
    module, _, name = target.partition(":")
    if module == "torch":
        return hasattr(torch._C._VariableFunctions, name)
    return module in ("torch.nn.functional", "torch.nn.init", "torch.sparse")


PATCHED = [target for target in PATCHES if _is_operator(target)]


@pytest.fixture
def called(monkeypatch: pytest.MonkeyPatch) -> set[Any]:
    """The operators and patches that are called during a test, even if they were compiled before."""
    monkeypatch.setattr(compiled_operations, "_operations", {})
    monkeypatch.setattr(compiled_operations, "_decompositions", {})
    found: set[Any] = set()

    def recorded(what: Any, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            found.add(what)
            return function(*args, **kwargs)

        return call

    registry = torchax.default_env()._ops
    for operation in OPERATORS:
        one = registry[operation]
        monkeypatch.setitem(registry, operation, dataclasses.replace(one, func=recorded(operation, one.func)))
    for target in PATCHED:
        owner, name = application.owner_of(target)
        monkeypatch.setattr(owner, name, recorded(target, getattr(owner, name)))
    return found


def test_operators_of_the_runtime_are_in_the_tables(called: set[Any]) -> None:
    for table in TABLES.values():
        for operator in table:
            with contextlib.suppress(Exception):  # its tests show it
                comparison.trace(operator)
    for draw in ALL.values():
        with contextlib.suppress(Exception):
            draw("jax")
    assert PATCHED
    assert set() == set(PATCHED) - called
    packets = {_packet(one) for one in called}
    missing = {str(one) for one in OPERATORS if _packet(one) not in packets}
    assert [] == sorted(name for name in missing if not any(one in name for one in UNREACHED))


def _packet(operation: Any) -> Any:
    """An operator without its overload."""
    return getattr(operation, "overloadpacket", operation)
