"""Ends a program after so many steps of an optimizer, and shifts the weights that it begins with."""

from __future__ import annotations

import functools
import types
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Extent:
    """How far a program runs, and from which weights."""

    steps: int = 0
    """The number of steps of an optimizer after which it ends; 0 for all."""
    shift: float = 0.0
    """By how much each weight is changed, up or down, before a module is called for the first time."""
    relative_shift: float = 0.0
    """The same as a part of the weight; the larger change counts."""


class EndOfSteps(SystemExit):
    """Ends the program with exit code 0."""


class StepCounter:
    """Counts the steps of each optimizer; ends the program where one would take a step too many.

    So the program gets to print what it prints after its last step.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._taken: Counter[int] = Counter()
        self._optimizers: list[Any] = []
        self._depth = 0
        self.at_step: Callable[[], None] = lambda: None
        """Is called after each step."""

    @property
    def steps(self) -> int:
        """The number of steps of the optimizer that took the most."""
        return max(self._taken.values(), default=0)

    def install(self) -> None:
        """Count from now on; torch must be imported by now, and may be patched by torchax later."""
        import torch

        owner, counter = torch.optim.Optimizer, self
        init = owner.__init__

        @functools.wraps(init)
        def initialized(optimizer: Any, *args: Any, **kwargs: Any) -> None:
            if "step" not in vars(optimizer):
                optimizer.step = type(optimizer).step.__get__(optimizer)
            init(optimizer, *args, **kwargs)

        def set_attribute(optimizer: Any, name: str, value: Any) -> None:
            # Schedulers and the runtime put functions of their own in place of `step`.
            object.__setattr__(
                optimizer, name, counter._counted(optimizer, value) if name == "step" else value
            )

        owner.__init__ = initialized
        owner.__setattr__ = set_attribute

    def _counted(self, optimizer: Any, step: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(step)
        def counted(_: Any, *args: Any, **kwargs: Any) -> Any:
            if self._depth:
                return step(*args, **kwargs)
            if self._limit and self._taken[id(optimizer)] >= self._limit:
                raise EndOfSteps(0)
            self._depth += 1
            try:
                result = step(*args, **kwargs)
            finally:
                self._depth -= 1
            if not self._taken[id(optimizer)]:
                self._optimizers.append(optimizer)  # so that no other gets its id
            self._taken[id(optimizer)] += 1
            self.at_step()
            return result

        return types.MethodType(counted, optimizer)  # schedulers ask for the function of a method


def shift(tensors: Iterable[Any], amount: float, relative: float = 0.0) -> None:
    """Change each number of floating-point tensors, up or down, by a generator of its own.

    The change is an amount, or a part of the number, if that is larger; at least what its dtype resolves.
    """
    import torch

    generator = torch.Generator()
    generator.manual_seed(1)
    with torch.no_grad():
        for tensor in tensors:
            if tensor.is_floating_point() and not torch.nn.parameter.is_lazy(tensor):
                signs = torch.randint(0, 2, tuple(tensor.shape), generator=generator) * 2 - 1
                part = max(relative, torch.finfo(tensor.dtype).eps)
                tensor.add_(signs.to(tensor.dtype) * (tensor.detach().abs() * part).clamp(min=amount))
