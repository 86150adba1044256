"""How tracing reaches a function: the chain of calls from a trace root, and how sure it is."""

from __future__ import annotations

import enum
from typing import NamedTuple


class Certainty(enum.IntEnum):
    """How sure it is that code is traced, surest first.

    `JIT`: the project jits the root by name. `FORWARD`: the root is the `forward` of a module that nobody in
    the project jits. `INTERFACE`: the root is a function of a package that takes tensors and is for others
    to call, jitted or not.
    """

    JIT = 0
    FORWARD = 1
    INTERFACE = 2


class Step(NamedTuple):
    """How tracing gets to a function: from which caller (None for a root), by which place."""

    caller: str | None
    label: str
    path: str
    row: int
    column: int
    certainty: Certainty


class TracePath(NamedTuple):
    """The call chain from a trace root to a function.

    Each step has the `path`, `row` and `column` of a call, and a `label` for messages. `certainty` says how
    sure it is that the root is traced.
    """

    steps: tuple[Step, ...]
    certainty: Certainty
