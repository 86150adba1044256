"""Functions that do something with what they are given, wherever they are called."""

from __future__ import annotations

import ast
from typing import NamedTuple

from tpulint.knowledge.training import ACCELERATORS
from tpulint.model.names.qualified import dotted

#: What an instance of accelerate's `Accelerator` is called.
_ACCELERATOR = "accelerator"


class Taker(NamedTuple):
    """A function that calls `backward` on one of its parameters, or that saves it.

    `function` is its qualified name, `position` that of the parameter among the arguments of a call.
    `is_whole` says that it does so with the parameter itself, not with what it makes of it.
    """

    function: str
    position: int
    parameter: str
    is_whole: bool = True


def handed_to_accelerate(call: ast.Call) -> ast.expr | None:
    """The loss in `accelerator.backward(loss)`; None for other calls."""
    receiver = dotted(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if receiver is None or _ACCELERATOR not in receiver.rpartition(".")[2].lower() or not call.args:
        return None
    return call.args[0]


def is_accelerator(call: ast.Call, name: str | None) -> bool:
    """Whether the call creates an `Accelerator` without `cpu=True`."""
    is_on_host = any(
        word.arg == "cpu" and isinstance(word.value, ast.Constant) and word.value.value
        for word in call.keywords
    )
    return name in ACCELERATORS and not is_on_host
