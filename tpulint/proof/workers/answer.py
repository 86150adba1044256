"""What a worker gives back of a call; in a module of its own, since what `__main__` has is not unpickled."""

from __future__ import annotations

from dataclasses import dataclass

from tpulint.verify.values import Group, Value


@dataclass(frozen=True, slots=True)
class Answer:
    """What a call gave: results, gradients of the weights and inputs, and buffers after the call."""

    is_module: bool
    results: Value
    gradients: Group
    buffers: Group
    operations: int = 0
    notes: tuple[str, ...] = ()
