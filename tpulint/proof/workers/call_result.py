"""The result of a call, in a separate module, because classes of `__main__` cannot be unpickled elsewhere."""

from __future__ import annotations

from dataclasses import dataclass

from tpulint.verify.values import Group, Value


@dataclass(frozen=True, slots=True)
class CallResult:
    """The results of a call, the gradients of weights and inputs, and the buffers after the call."""

    is_module: bool
    results: Value
    gradients: Group
    buffers: Group
    operations: int = 0
    notes: tuple[str, ...] = ()
