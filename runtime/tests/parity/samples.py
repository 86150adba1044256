"""Tensors and operators of the tables: an operator is compared with torch for each of its samples."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

Function = Callable[..., Any]

#: How the elements of a tensor are drawn. `corners` has equal elements, zeros and halves, where gradients and
#: the order of elements are a matter of convention; `special` has infinities, NaN, large and small numbers.
SPREAD, CORNERS, SPECIAL = "spread", "corners", "special"
_SPECIAL = (float("nan"), float("inf"), -float("inf"), -0.0, 0.0, 1e30, -1e30, 1e-30)


@dataclass(frozen=True)
class Sample:
    """A tensor to be drawn.

    Attributes:
        shape: its shape.
        dtype: its dtype.
        low: the least element.
        high: the greatest element; integers are less.
        is_distinct: whether its elements differ from each other.
        make: makes something else of the drawn tensor, such as a positive definite matrix.
    """

    shape: tuple[int, ...]
    dtype: torch.dtype = torch.float32
    low: float = -3
    high: float = 3
    is_distinct: bool = False
    make: Function | None = None

    def draw(self, generator: torch.Generator, how: str) -> torch.Tensor:
        """The tensor on the host."""
        made = self._drawn(generator, how).to(self.dtype)
        return made if self.make is None else self.make(made)

    def _drawn(self, generator: torch.Generator, how: str) -> torch.Tensor:
        if self.is_distinct:
            count = torch.Size(self.shape).numel()
            values = torch.linspace(self.low, self.high, count)
            return values[torch.randperm(count, generator=generator)].reshape(self.shape)
        if self.dtype == torch.bool:
            return torch.rand(self.shape, generator=generator) < 0.5
        if not (self.dtype.is_floating_point or self.dtype.is_complex):
            return torch.randint(int(self.low), int(self.high), self.shape, generator=generator)
        dtype = torch.complex64 if self.dtype.is_complex else torch.float32
        unit = torch.rand(self.shape, generator=generator, dtype=dtype)
        values = self.low + (self.high - self.low) * unit
        if how == CORNERS:
            halves = torch.view_as_real(values) if dtype.is_complex else values
            halves.mul_(2).round_().div_(2)
        elif how == SPECIAL and (self.low, self.high) == (-3, 3):
            flat = values.view(-1)
            for number in range(0, flat.numel(), 2):
                flat[number] = _SPECIAL[int(torch.randint(len(_SPECIAL), (), generator=generator))]
        return values


def of_dtype(dtype: torch.dtype, **options: Any) -> Callable[..., Sample]:
    """A function of sizes that gives a sample."""

    def sample(*shape: int, **more: Any) -> Sample:
        return Sample(shape, dtype, **options | more)

    return sample


f32 = of_dtype(torch.float32)
bf16 = of_dtype(torch.bfloat16)
i8 = of_dtype(torch.int8, low=-5, high=6)
i32 = of_dtype(torch.int32, low=-5, high=6)
i64 = of_dtype(torch.int64, low=-5, high=6)
u8 = of_dtype(torch.uint8, low=0, high=200)
boolean = of_dtype(torch.bool)
c64 = of_dtype(torch.complex64)
positive = of_dtype(torch.float32, low=0.5, high=3)
unit = of_dtype(torch.float32, low=0.1, high=0.9)
small = of_dtype(torch.float32, low=-0.9, high=0.9)
distinct = of_dtype(torch.float32, is_distinct=True)


def index(*shape: int, below: int) -> Sample:
    """Indices less than a number."""
    return Sample(shape, torch.int64, 0, below)


def _definite(matrix: torch.Tensor) -> torch.Tensor:
    return matrix @ matrix.mT + 2 * torch.eye(matrix.shape[-1])


def _regular(matrix: torch.Tensor) -> torch.Tensor:
    return matrix + 4 * torch.eye(matrix.shape[-1])


definite = of_dtype(torch.float32, low=-1, high=1, make=_definite)
regular = of_dtype(torch.float32, low=-1, high=1, make=_regular)


@dataclass(frozen=True, eq=False)
class Operator:
    """An operator of torch, and what it is called with.

    Attributes:
        name: its name in reports.
        function: calls it.
        samples: for each call, its arguments; those that are samples are drawn.
        has_special: whether it is also called with NaN, infinities, and large and small numbers.
        is_composite: whether it consists of dozens of operations, each of which JAX would compile: it is only
            compared compiled as a whole.
    """

    name: str
    function: Function
    samples: Sequence[tuple[Any, ...]]
    has_special: bool = False
    is_composite: bool = False

    def draw(self, seed: int, how: str) -> list[list[Any]]:
        """The arguments of all calls."""
        generator = torch.Generator().manual_seed(seed)
        return [
            [one.draw(generator, how) if isinstance(one, Sample) else one for one in arguments]
            for arguments in self.samples
        ]

    def ways(self) -> list[str]:
        """How its arguments are drawn."""
        return [SPREAD, CORNERS, *([SPECIAL] if self.has_special else [])]


@dataclass
class Table:
    """Operators by name; each name is given once."""

    operators: dict[str, Operator] = field(default_factory=dict)

    def add(
        self,
        functions: Mapping[str, Function],
        *samples: tuple[Any, ...],
        has_special: bool = False,
        is_composite: bool = False,
    ) -> None:
        """Add operators that are called with the same samples."""
        for name, function in functions.items():
            if name in self.operators:
                raise ValueError(f"there are two operators {name}")
            self.operators[name] = Operator(name, function, samples, has_special, is_composite)

    def __iter__(self) -> Iterator[Operator]:
        return iter(self.operators.values())


def named(*functions: Function) -> dict[str, Function]:
    """Functions by their names."""
    return {function.__name__: function for function in functions}


def in_place(*names: str) -> dict[str, Function]:
    """Methods that write to a tensor, by name: each gives a tensor that it was applied to, and its result."""

    def called(name: str, x: torch.Tensor, *args: Any) -> Any:
        written = x.clone()
        return written, getattr(written, name)(*args)

    return {name: functools.partial(called, name) for name in names}
