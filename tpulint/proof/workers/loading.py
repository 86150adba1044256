"""Loads the user's module or function, and its inputs, from the expressions of a target."""

from __future__ import annotations

import ast
import builtins
import fnmatch
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from tpulint.proof.targets import CASE, name_and_value


class BadTargetError(Exception):
    """A target, an input or a topology does not exist; the message is one line."""


@dataclass(frozen=True, slots=True)
class Subject:
    """A module or function, and its arguments."""

    call: Callable[..., Any]
    arguments: tuple[Any, ...] = ()
    keywords: dict[str, Any] = field(default_factory=dict)

    @property
    def is_module(self) -> bool:
        """Whether it is an `nn.Module`."""
        import torch

        return isinstance(self.call, torch.nn.Module)


def imported(path: Path) -> ModuleType:
    """Import a file, by its full name if it is in a package; other files of its folder can be imported."""
    top = path.parent
    while (top / "__init__.py").exists():
        top = top.parent
    sys.path.insert(0, str(top))
    parts = path.relative_to(top).with_suffix("").parts
    if len(parts) > 1:
        return importlib.import_module(".".join(parts).removesuffix(".__init__"))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def names_of_cases(module: ModuleType, pattern: str) -> list[str]:
    """The names of the functions of a file that match a pattern such as `verify_*`."""
    names = [name for name, value in vars(module).items() if inspect.isfunction(value)]
    return [name for name in names if name.startswith(CASE) and fnmatch.fnmatchcase(name, pattern)]


def subject(module: ModuleType, path: str, expression: str, inputs: Sequence[str]) -> Subject:
    """Evaluate the expressions of a target.

    Raises:
        BadTargetError: a name does not exist, or the value cannot be called.
        Exception: the user's code raises it.
    """
    import torch

    names = {"torch": torch, **vars(module)}
    for node in ast.walk(ast.parse(expression, mode="eval")):
        if isinstance(node, ast.Name) and node.id not in names and not hasattr(builtins, node.id):
            own = [name for name, value in vars(module).items() if _is_own(value, module)]
            defined = ", ".join(own) or "no class or function"
            raise BadTargetError(f"{path} has no `{node.id}`; it defines {defined}")
    torch.manual_seed(0)  # tpulint: ignore[TPU617]
    found = eval(compile(expression, path, "eval"), names)  # the user's expression, in a process of its own
    if inspect.isfunction(found) and found.__name__.startswith(CASE):
        return _of_case(found)
    if isinstance(found, type):
        found = found()
    if not callable(found):
        raise BadTargetError(f"`{expression}` in {path} is a {type(found).__name__}, which cannot be called")
    arguments, keywords = evaluated(inputs)
    return Subject(found, arguments, keywords)


def _of_case(function: Callable[[], Any]) -> Subject:
    made = function()
    match made:
        case (call, tuple() | list() as arguments) if callable(call):
            return Subject(call, tuple(arguments))
        case (call, tuple() | list() as arguments, dict() as keywords) if callable(call):
            return Subject(call, tuple(arguments), keywords)
    raise BadTargetError(
        f"`{function.__name__}()` returns a {type(made).__name__}, not a module or function, a tuple of"
        " arguments, and optionally a dict of keyword arguments"
    )


def _is_own(value: object, module: ModuleType) -> bool:
    is_code = isinstance(value, type) or inspect.isfunction(value)
    return is_code and getattr(value, "__module__", "") == module.__name__


def evaluated(inputs: Sequence[str]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The values of inputs such as `randn(2, 3)` and `mask=ones(2, 5)`.

    Raises:
        BadTargetError: one of them cannot be evaluated.
    """
    import torch

    torch.manual_seed(1)  # tpulint: ignore[TPU617]
    arguments, keywords = [], {}
    for text in inputs:
        name, value = name_and_value(text)
        try:
            made = eval(value, {**vars(torch), "torch": torch})  # the user's expression, in its own process
        except Exception as error:
            raise BadTargetError(f"--input `{text}` raises {type(error).__name__}: {error}") from None
        if name:
            keywords[name] = made
        else:
            arguments.append(made)
    return tuple(arguments), keywords
