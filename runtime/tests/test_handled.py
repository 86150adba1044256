"""What the table `HANDLED` says that the runtime handles has the results of torch."""

from __future__ import annotations

import importlib.util
import random
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes
from torchax.interop import jax_jit
from torchax_compat import differentiable

from tpulint.dev import probe_operators
from tpulint.dev.handled_samples import SAMPLES, UNHANDLED, program
from tpulint.knowledge.handled import HANDLED
from tpulint.knowledge.implemented import IMPLEMENTED

CODES = {one.name: one.code for one in probe_operators.samples()}
Step = tuple[list[Any], list[Any]]


def _ways() -> Iterator[tuple[str, str, str]]:
    for subject, samples in SAMPLES.items():
        ways = ("eager", "compiled", "jitted") if HANDLED[subject].in_jit else ("eager", "compiled")
        yield from ((subject, name, way) for name in samples for way in ways)


@pytest.fixture
def model_of(tmp_path: Path) -> Iterator[Callable[[str], type[Any]]]:
    """The model of a sample, in a module of its own; several of one sample share nothing."""
    names: list[str] = []

    def load(body: str) -> type[Any]:
        names.append(f"sample_{len(names)}")
        path = tmp_path / f"{names[-1]}.py"
        path.write_text(program(body, runtime=False))
        spec = importlib.util.spec_from_file_location(names[-1], path)
        assert spec is not None and spec.loader is not None
        module = sys.modules[names[-1]] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        found: type[Any] = module.Model
        return found

    yield load
    for name in names:
        del sys.modules[name]


@pytest.mark.parametrize(("subject", "name", "way"), list(_ways()))
def test_sample_has_the_result_of_torch(
    subject: str, name: str, way: str, model_of: Callable[[str], type[Any]]
) -> None:
    body = SAMPLES[subject][name]
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        expected = _steps(model_of(body), "cpu", way)
    found = _steps(model_of(body), "jax", way)
    for (due, given), (result, left) in zip(expected, found, strict=True):
        assert _equal(due, result)
        if way != "jitted":  # JAX passes copies
            assert _equal(given, left)


@pytest.mark.parametrize("name", UNHANDLED)
def test_sample_that_is_not_handled_differs_from_torch(
    name: str, model_of: Callable[[str], type[Any]]
) -> None:
    _, way, body = UNHANDLED[name]
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        expected = _steps(model_of(body), "cpu", way)
    try:
        found = _steps(model_of(body), "jax", way)
    except Exception:
        return
    assert not all(_equal(due, result) for (due, _), (result, _) in zip(expected, found, strict=True))


def _steps(model_class: type[Any], device: str, way: str) -> list[Step]:
    """The results of three calls, and the arguments after them."""
    torch.manual_seed(0)
    model = model_class().to(device)

    def call(*given: torch.Tensor) -> Any:
        return model(*given)

    function = call
    if device == "jax":
        function = {"eager": call, "compiled": differentiable(call), "jitted": jax_jit(call)}[way]
    found: list[Step] = []
    for number in range(3):
        given = [value.to(device) for value in _given(number)]
        _seed(number)
        result = function(*given)
        found.append((pytree.tree_leaves(result), given))
    return found


def _given(number: int) -> list[torch.Tensor]:
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        generator = torch.Generator().manual_seed(number)
        return [
            torch.randn(3, 4, generator=generator) * (1 + number),
            torch.rand(3, 4, generator=generator) + 0.1,
            torch.rand(3, 4, generator=generator) > 0.5,
            torch.randint(1, 4, (3,), generator=generator),
        ]


def _seed(number: int) -> None:
    random.seed(number)
    np.random.seed(number)
    torch.manual_seed(number)


def _equal(expected: list[Any], found: list[Any]) -> bool:
    return len(expected) == len(found) and all(map(_same, expected, found))


def _same(expected: Any, found: Any) -> bool:
    """Whether two results agree, be one a number of Python and the other a tensor."""
    one, other = (
        torch.as_tensor(value.detach().cpu()) if isinstance(value, torch.Tensor) else value
        for value in (expected, found)
    )
    if isinstance(one, torch.Tensor) or isinstance(other, torch.Tensor):
        with torch._C.DisableTorchFunction(), _disable_current_modes():
            return probe_operators._same(torch.as_tensor(one), torch.as_tensor(other))
    return bool(one == pytest.approx(other)) if isinstance(one, float) else bool(one == other)


@pytest.mark.parametrize("name", sorted(IMPLEMENTED))
def test_operator_runs_in_jitted_code(name: str) -> None:
    in_jit = HANDLED["operators"].in_jit
    assert isinstance(in_jit, frozenset)
    assert (name in in_jit) == _runs_jitted(name)


def _runs_jitted(name: str) -> bool:
    with torch._C.DisableTorchFunction(), _disable_current_modes():
        values = probe_operators._values()
        code = f"lambda {', '.join(values)}: {CODES[name]}"
        function: Any = eval(code, {"torch": torch, "F": torch.nn.functional})
        expected = function(*values.values())
        if isinstance(expected, torch.Tensor) and expected.layout is not torch.strided:
            expected = expected.to_dense()
    try:
        found = jax_jit(function)(*(value.to("jax") for value in values.values()))
    except Exception:
        return False
    return probe_operators._same(expected, found)
