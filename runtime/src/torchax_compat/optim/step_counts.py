"""The step count of an optimizer, with full precision for `1 - beta ** step`.

PyTorch computes this with Python numbers.
In 32 bits it is wrong by 1e-5 at the first steps of Adam, whose second beta is nearly one.
"""

from __future__ import annotations

import math
from typing import Any

import jax.numpy as jnp
import torch
import torchax
from torchax.tensor import Tensor

from ..tensor import arrays


class State(dict[str, Any]):
    """The state of a parameter while an optimizer's step is traced: its `step` is a `_Count`."""

    def __init__(self, entries: Any = ()) -> None:
        super().__init__()
        for name, value in dict(entries).items():
            self[name] = value

    def __setitem__(self, name: str, value: Any) -> None:
        if name == "step" and isinstance(value, torch.Tensor) and value.ndim == 0:
            value = _Count(arrays.on_torchax(value).jax(), torchax.default_env())
        super().__setitem__(name, value)


class _Count(Tensor):
    def item(self) -> Any:
        """The count itself: torch computes with it as with a number."""
        return self

    def __rpow__(self, base: Any) -> Any:
        power = super().__rpow__(base)
        return _Power(power.jax(), base, self.jax()) if type(base) is float and 0 < base < 1 else power


class _Power(Tensor):
    """A beta to the power of a count."""

    @staticmethod
    def __new__(cls: Any, value: Any, _base: Any, _count: Any) -> Any:
        return Tensor.__new__(cls, value, torchax.default_env())

    def __init__(self, value: Any, base: Any, count: int) -> None:
        super().__init__(value, torchax.default_env())
        self._logarithm = count * math.log(base)

    def __rsub__(self, other: Any) -> Any:
        return arrays.tensor(-jnp.expm1(self._logarithm)) if other == 1 else super().__rsub__(other)

    def __sub__(self, other: Any) -> Any:
        return arrays.tensor(jnp.expm1(self._logarithm)) if other == 1 else super().__sub__(other)
