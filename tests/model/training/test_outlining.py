"""Outlining of loss computations: why there is none, the names of the functions, and line endings."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.training.losses import backward_calls
from tpulint.model.training.steps import NOT_FOUND, SHARED_LINE
from tpulint.plan import Kind, Rewrite

Parse = Callable[[str], Module]
Outline = Callable[[Module], str]


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("loss.backward()", NOT_FOUND),
        ("loss = model(x).exp(); print(1)\n    loss.backward()", SHARED_LINE),
        ("text = 'é'; loss = model(x).exp()\n    loss.backward()", SHARED_LINE),
        (
            "try:\n        loss = model(x).exp()\n    except E:\n        loss = x\n    loss.backward()",
            "line 2 is a `try` statement: move that statement before or after the loss computation",
        ),
    ],
)
def test_why_a_loss_computation_becomes_no_function(
    parse: Parse, outline: Outline, body: str, why: str
) -> None:
    assert why == outline(parse(f"def f(model, x):\n    {body}\n"))


def test_two_losses_of_a_file_get_different_names(parse: Parse) -> None:
    module = parse(
        "def f(model, x):\n    loss = model(x).exp()\n    loss.backward()\n"
        "def g(model, x):\n    loss = model(x).exp() * 2\n    loss.backward()\n"
    )
    steps = [module.training_steps.of(loss, scope) for loss, scope in backward_calls(module)]
    rewrites = [one for step in steps for one in step.moved() if isinstance(one, Rewrite)]
    calls = [one.code[0] for one in rewrites if one.kind is Kind.REPLACE_RUN]
    assert ["loss = compute_loss(model, x)", "loss = compute_loss_in_g(model, x)"] == calls


def test_windows_line_endings_are_kept(parse: Parse, outline: Outline) -> None:
    before = "def f(model, x):\r\n    loss = model(x).exp()\r\n    loss.backward()\r\n"
    after = (
        "\r\n\r\n@differentiable\r\ndef compute_loss(model, x):\r\n    loss = model(x).exp()\r\n"
        "    return loss\r\n\r\n\r\ndef f(model, x):\r\n"
        "    loss = compute_loss(model, x)\r\n    loss.backward()\r\n"
    )
    assert after == outline(parse(before))
