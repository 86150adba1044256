"""Code for functions of other modules, which programs may have imported by name before they are patched."""

from __future__ import annotations

from types import CodeType
from typing import Any


def code_that_calls(name: str) -> CodeType:
    """Code of a function that forwards its arguments to the global `name` of the module it is assigned in."""
    return _forward.__code__.replace(co_names=(name,))


def _forward(*args: Any, **kwargs: Any) -> Any:
    return _target(*args, **kwargs)


def _target(*_args: Any, **_kwargs: Any) -> Any:
    """Its name is the one that `code_that_calls` replaces."""
