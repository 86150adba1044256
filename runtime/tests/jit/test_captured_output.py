"""What a traced function prints and logs appears at each call, with the numbers of that call."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-subclassing-any, allow-untyped-decorators

from __future__ import annotations

import contextlib
import io
import logging
import sys
import warnings
from typing import Any

import pytest
import torch
from torch import nn
from torchax_compat import differentiable

from ..comparison import plain_torch

X = torch.linspace(-1, 2, 12).reshape(4, 3)
LINES: list[str] = []
logger = logging.getLogger("tests.runtime.printed")


@pytest.fixture(autouse=True)
def _nothing_kept():
    LINES.clear()
    yield
    logger.handlers[:] = []


def told(function, device: str, steps: int = 4) -> tuple[str, str]:
    """What is printed and logged by some steps."""
    printed, logged = io.StringIO(), io.StringIO()
    logger.handlers[:], logger.propagate = [logging.StreamHandler(logged)], False
    torch.manual_seed(0)
    net = nn.Linear(3, 2).to(device)
    with contextlib.redirect_stdout(printed):
        for k in range(steps):
            function(net, (X + k / 4).to(device)).sum().backward()
    return printed.getvalue(), logged.getvalue()


def same(function: Any, *, is_compiled: bool = True, steps: int = 4) -> None:
    with plain_torch():
        expected = told(function, "cpu", steps)
    decorated = differentiable(function)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        assert expected == told(decorated, "jax", steps)
    assert any(expected) and is_compiled == decorated.compiled_function.is_compiled


def test_constant_text_is_printed_at_each_call() -> None:
    def compute_loss(net, x):
        print("hello 1.5")
        return net(x)

    same(compute_loss)


def test_numbers_in_texts_are_those_of_each_call() -> None:
    def compute_loss(net, x):
        far, count = net(x).square().mean(), int((net(x) > 0).sum())
        print(f"far {far:.3f} near {far.item():>9.2f}", round(float(far), 2), {"count": count}, str(count))
        return far

    same(compute_loss)


def test_numbers_are_logged_by_arguments_and_in_texts() -> None:
    def compute_loss(net, x):
        far = net(x).square().mean()
        logger.warning("far %.3f %s", far.item(), "m")
        logger.warning(f"far {far.item():.3f}")
        logger.warning({"not": "a text"})
        logger.error("all of %(unit)s", {"unit": "them"})
        return far

    same(compute_loss)


def test_lines_may_be_written_to_the_output_itself() -> None:
    def compute_loss(net, x):
        sys.stdout.writelines(["first\n", "second\n"])
        sys.stdout.flush()
        return net(x)

    same(compute_loss)


def test_text_that_differs_at_each_call_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        LINES.append("")
        print(f"call {len(LINES)} loss {net(x).sum().item():.3f}")
        return net(x)

    def plain(net, x):
        return compute_loss(net, x)

    with plain_torch():
        expected = told(plain, "cpu", 6)
    LINES.clear()
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "`.*` runs call by call")
        assert expected == told(differentiable(compute_loss), "jax", 6)


def test_text_that_is_kept_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        line = f"loss {net(x).sum().item():.3f}"
        print(line)
        LINES.append(line)
        return net(x)

    same(compute_loss, is_compiled=False)


def test_text_of_a_number_that_is_changed_lets_calls_be_compiled_one_by_one() -> None:
    def compute_loss(net, x):
        print(f"{net(x).sum().item():.3g}".ljust(12), "loss")
        return net(x)

    same(compute_loss, is_compiled=False, steps=20)


def test_format_that_a_number_does_not_have_raises_as_it_does_in_python() -> None:
    @differentiable
    def compute_loss(net, x):
        print(f"{net(x).sum().item():d}")
        return net(x)

    net = nn.Linear(3, 2).to("jax")
    for _ in range(2):
        with pytest.raises(ValueError, match="format code 'd'"):
            compute_loss(net, X.to("jax"))


def test_text_that_was_printed_ahead_of_an_error_appears(capsys: pytest.CaptureFixture[str]) -> None:
    @differentiable
    def compute_loss(net, x):
        print("started")
        if LINES:
            raise KeyError("broken")
        return net(x)

    net = nn.Linear(3, 2).to("jax")
    compute_loss(net, X.to("jax"))
    compute_loss(net, X.to("jax"))
    LINES.append("broken")
    with pytest.raises(KeyError, match="broken"):
        compute_loss(net, X.to("jax"))
    assert 3 <= capsys.readouterr().out.count("started")


def test_output_that_is_no_text_stream_keeps_its_own_attributes(capsys: pytest.CaptureFixture[str]) -> None:
    @differentiable
    def compute_loss(net, x):
        print(sys.stdout.encoding is None, sys.stdout.isatty())
        return net(x)

    net = nn.Linear(3, 2).to("jax")
    for _ in range(3):
        compute_loss(net, X.to("jax"))
    assert 1 == len(set(capsys.readouterr().out.splitlines()))
