"""The statements that lead from the outputs of modules to a loss."""

from __future__ import annotations

import ast
from collections.abc import Callable

import pytest

from tpulint.model.module import Module
from tpulint.model.training.learned import Learned
from tpulint.model.training.losses import backward_calls
from tpulint.model.training.regions import Obstacle, Region, next_rounds, region

Parse = Callable[[str], Module]
Parts = dict[str, list[str]]

HEAD = """
import random
import torch
from torch import nn
from torch.nn import functional as F
from torchax_compat import differentiable
@differentiable
def compute(x): return x
def penalty(y, x): return torch.autograd.grad(y, x)[0]
"""


def lines(statements: tuple[ast.stmt, ...]) -> list[str]:
    return [ast.unparse(one).replace("\n   ", "") for one in statements]


@pytest.fixture
def found(parse: Parse) -> Callable[..., Region | Obstacle | None]:
    """The region of the last `backward` in the body of a function."""

    def found(body: str) -> Region | Obstacle | None:
        text = body.replace("\n", "\n    ")
        module = parse(
            f"{HEAD}def f(self, model, D, x, y, xs, criterion, opt, log, memory, env):\n    {text}\n"
        )
        loss, scope = list(backward_calls(module))[-1]
        wanted = {node.id for node in ast.walk(loss) if isinstance(node, ast.Name)}
        return region(module, Learned(module), module.statement(loss), wanted, scope)

    return found


@pytest.mark.parametrize(
    ("body", "statements", "inputs", "outputs"),
    [
        ("loss = criterion(model(x), y)", ["loss = criterion(model(x), y)"], "criterion model x y", "loss"),
        (
            "out = model(x)\nloss = criterion(out, y)",
            ["out = model(x)", "loss = criterion(out, y)"],
            "model x criterion y",
            "loss",
        ),
        ("y = y.long()\nloss = model(x) - y", ["loss = model(x) - y"], "model x y", "loss"),
        (
            "out = model(x)\nloss = out.mean()\nloss = loss / 2",
            ["out = model(x)", "loss = out.mean()", "loss = loss / 2"],
            "model x",
            "loss",
        ),
        (
            "self.out = model(x)\nloss = self.out.mean()",
            ["self.out = model(x)", "loss = self.out.mean()"],
            "model x",
            "self.out loss",
        ),
        (
            "with torch.autocast('cuda'):\n    out = model(x)\n    loss = out.mean()",
            ["with torch.autocast('cuda'): out = model(x) loss = out.mean()"],
            "model x",
            "loss",
        ),
        (
            "loss = 0\nfor a in xs:\n    loss = loss + model(a).mean()",
            ["loss = 0", "for a in xs: loss = loss + model(a).mean()"],
            "xs model",
            "loss",
        ),
        (
            "losses = []\nfor a in xs:\n    losses.append(model(a))\nloss = sum(losses)",
            ["losses = []", "for a in xs: losses.append(model(a))", "loss = sum(losses)"],
            "xs model",
            "loss",
        ),
        (
            "loss = model(x).mean()\nif y is not None:\n    loss = loss + y",
            ["loss = model(x).mean()", "if y is not None: loss = loss + y"],
            "model x y",
            "loss",
        ),
        (
            "loss = model(x).mean()\nfor p in D.parameters():\n    loss = loss + p.norm()",
            ["loss = model(x).mean()", "for p in D.parameters(): loss = loss + p.norm()"],
            "model x D",
            "loss",
        ),
        (
            "w = x.clone().requires_grad_()\nloss = criterion(w, y)",
            ["loss = criterion(w, y)"],
            "criterion w y",
            "loss",
        ),
    ],
)
def test_statements_that_compute_a_loss(
    found: Callable[..., Region | Obstacle | None],
    body: str,
    statements: list[str],
    inputs: str,
    outputs: str,
) -> None:
    one = found(f"{body}\nloss.backward()")
    assert isinstance(one, Region)
    assert (statements, set(inputs.split()), outputs.split()) == (
        lines(one.statements),
        set(one.inputs),
        list(one.outputs),
    )


@pytest.mark.parametrize(
    ("body", "statements", "ahead", "behind"),
    [
        (
            "out = model(x)\nopt.zero_grad()\nloss = out.mean()",
            ["out = model(x)", "loss = out.mean()"],
            ["opt.zero_grad()"],
            [],
        ),
        (
            "out = model(x)\nlog.append(out.item())\nloss = out.mean()",
            ["out = model(x)", "loss = out.mean()"],
            [],
            ["log.append(out.item())"],
        ),
        (
            "out = model(x)\nlabel = out.argmax().item()\nlog.add(label)\nloss = out.mean()",
            ["out = model(x)", "loss = out.mean()"],
            [],
            ["label = out.argmax().item()", "log.add(label)"],
        ),
        (
            "out = model(x)\nlabel = y.float()\nloss = out - label",
            ["out = model(x)", "loss = out - label"],
            ["label = y.float()"],
            [],
        ),
        # Random numbers of one generator are drawn in their order.
        (
            "out = F.dropout(model(x))\nnoise = torch.rand(3)\nloss = out - noise",
            ["out = F.dropout(model(x))", "noise = torch.rand(3)", "loss = out - noise"],
            [],
            [],
        ),
        (
            "out = model(x)\nk = random.random()\nloss = out - k",
            ["out = model(x)", "loss = out - k"],
            ["k = random.random()"],
            [],
        ),
        # An input that is reassigned is moved along.
        (
            "out = model(x)\nx = x.float()\nloss = criterion(out, x)",
            ["out = model(x)", "x = x.float()", "loss = criterion(out, x)"],
            [],
            [],
        ),
        (
            "out = model(x)\nx = x.float()\nloss = criterion(out)",
            ["out = model(x)", "x = x.float()", "loss = criterion(out)"],
            [],
            [],
        ),
        # A number that is read from the output is moved along if the loss needs it.
        (
            "out = model(x)\nx = out.detach()\nloss = (out - x).mean()",
            ["out = model(x)", "x = out.detach()", "loss = (out - x).mean()"],
            [],
            [],
        ),
        (
            "out = model(x)\nn = out.mean().item()\nloss = out / n",
            ["out = model(x)", "n = out.mean().item()", "loss = out / n"],
            [],
            [],
        ),
    ],
)
def test_statements_in_between_run_before_or_behind(
    found: Callable[..., Region | Obstacle | None],
    body: str,
    statements: list[str],
    ahead: list[str],
    behind: list[str],
) -> None:
    one = found(f"{body}\nloss.backward()")
    assert isinstance(one, Region)
    assert (statements, ahead, behind) == (lines(one.statements), lines(one.ahead), lines(one.behind))


def test_the_span_of_a_region_is_in_the_order_of_the_text(
    found: Callable[..., Region | Obstacle | None],
) -> None:
    one = found("out = model(x)\nopt.zero_grad()\nlog.append(out.item())\nloss = out.mean()\nloss.backward()")
    assert isinstance(one, Region)
    assert ["out = model(x)", "opt.zero_grad()", "log.append(out.item())", "loss = out.mean()"] == lines(
        one.span
    )


@pytest.mark.parametrize(
    "body",
    [
        "loss = criterion(x, y)\nloss.backward()",
        "loss.backward()",
        "loss = compute(x)\nloss.backward()",
        "loss = x.mean()\nloss = loss / 2\nloss.backward()",
        "out = model(x)\nloss = criterion(x, y)\nloss.backward()",
        "out = model(x)\nout = x\nloss = out.mean()\nloss.backward()",
        "out = model(x).item()\nloss = out * y\nloss.backward()",
        "out = memory.sample()\nloss = out.mean()\nloss.backward()",
        "memory.push(model(x))\nout = memory.sample()\nloss = out.mean()\nloss.backward()",
        "loss = model(x)\nopt.step()\nloss = criterion(x, y)\nloss.backward()",
        # A loop with an optimizer step in it.
        "loss = model(x)\nfor a in xs:\n    loss = loss + a\n    opt.step()\nloss.backward()",
        "opt.step()\nif y:\n    loss.backward()",
        "if y is not None:\n    loss = criterion(y)\n    loss.backward()",
        (
            "a = criterion(x, y)\na.backward(retain_graph=True)\n"
            "b = penalty(a, x)\nloss = criterion(b)\nloss.backward()"
        ),
        # A replay buffer breaks the graph.
        "for a in xs:\n    memory.push(model(a))\nloss = criterion(memory.sample())\nloss.backward()",
    ],
)
def test_no_region_where_no_module_leads_to_the_loss(
    found: Callable[..., Region | Obstacle | None], body: str
) -> None:
    assert found(body) is None


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (
            "out = model(x)\nif out.isnan().any():\n    out = x\n    return\nloss = criterion(out)",
            "may leave the function before the loss is computed",
        ),
        (
            (
                "for a in xs:\n    out = model(a)\n"
                "    if out.isnan().any():\n"
                "        out = a\n        continue\n"
                "    loss = criterion(out)\n    loss.backward()"
            ),
            "may leave the loop iteration before the loss is computed",
        ),
        (
            "try:\n    out = model(x)\nexcept RuntimeError:\n    out = x\nloss = criterion(out)",
            "is a `try` statement",
        ),
        (
            (
                "self.out = model(x)\nlog.append(self)\n"
                "try:\n    loss = criterion(self.out)\nexcept RuntimeError:\n    loss = y"
            ),
            "passes `self` to other code before the loss is computed",
        ),
        (
            (
                "out = model(x)\nx = next(xs)\n"
                "try:\n    loss = criterion(out)\nexcept RuntimeError:\n    loss = y"
            ),
            "changes `x` before the loss is computed",
        ),
        (
            (
                "out = model(x)\nopt.step()\nif y:\n    try:\n        loss = criterion(out)\n"
                "    except RuntimeError:\n        loss = y\n    loss.backward()"
            ),
            "is a `try` statement",
        ),
        (
            (
                "try:\n    a = model(x)\nexcept RuntimeError:\n    a = y\nif a.isnan().any():\n    return\n"
                "loss = criterion(D(a))"
            ),
            "may leave the function before the loss is computed",
        ),
        (
            "a = model(x)\nb = D(a)\na = next(xs)\nloss = criterion(b)",
            "changes `a` before the loss is computed",
        ),
        (
            (
                "try:\n    out = model(x)\nexcept RuntimeError:\n    out = x\nopt.step()\n"
                "if y is not None:\n    loss = criterion(out, y)\n    loss.backward()"
            ),
            "is a `try` statement",
        ),
        (
            "a = model(x)\nif a.max().item() > 9:\n    a = a / 2\nelse:\n    return\nloss = criterion(D(a))",
            "may leave the function before the loss is computed",
        ),
    ],
)
def test_why_a_loss_computation_cannot_be_moved(
    found: Callable[..., Region | Obstacle | None], body: str, why: str
) -> None:
    one = found(body if "backward" in body else f"{body}\nloss.backward()")
    assert isinstance(one, Obstacle)
    assert why == one.why


@pytest.mark.parametrize(
    ("body", "statements", "earlier"),
    [
        # A check that may end the function stays between two regions.
        (
            "a = model(x)\nif a.isnan().any():\n    return\nloss = criterion(D(a))",
            ["loss = criterion(D(a))"],
            [["a = model(x)"]],
        ),
        (
            "a = model(x)\nx = next(xs)\nloss = criterion(a)",
            ["loss = criterion(a)"],
            [["a = model(x)"]],
        ),
        # A check of something else runs before.
        (
            "a = model(x)\nif y is None:\n    return\nloss = criterion(D(a))",
            ["a = model(x)", "loss = criterion(D(a))"],
            [],
        ),
        # The output was computed before a step of the optimizer.
        (
            (
                "out = model(x)\nopt.step()\nif y is not None:\n"
                "    loss = criterion(out, y)\n    loss.backward()"
            ),
            ["loss = criterion(out, y)"],
            [["out = model(x)"]],
        ),
        (
            "h = compute(x)\nif y:\n    loss = criterion(h)\n    loss.backward()",
            ["loss = criterion(h)"],
            [],
        ),
        # The statement that makes a module is no part of the computation.
        (
            "D = copied(D, model(x))\nloss = criterion(D, y)\nloss.backward()\nD.eval()",
            ["loss = criterion(D, y)"],
            [],
        ),
        # The output bears gradients in a branch, too.
        (
            "out = model(x)\nif y is not None:\n    loss = criterion(out, y)\n    loss.backward()",
            ["loss = criterion(out, y)"],
            [],
        ),
        (
            "if y is None:\n    a = model(x)\nelse:\n    return\nloss = criterion(a)",
            ["loss = criterion(a)"],
            [["a = model(x)"]],
        ),
    ],
)
def test_regions_in_front_of_a_statement_that_stays(
    found: Callable[..., Region | Obstacle | None], body: str, statements: list[str], earlier: list[list[str]]
) -> None:
    one = found(body if "backward" in body else f"{body}\nloss.backward()")
    assert isinstance(one, Region)
    assert (statements, earlier) == (lines(one.statements), [lines(part.statements) for part in one.earlier])


@pytest.mark.parametrize(
    ("body", "statements"),
    [
        # Two losses of one output are computed before the first is differentiated.
        (
            "out = model(x)\na = criterion(out, y)\nb = D(out)\na.backward(retain_graph=True)\nb.backward()",
            ["out = model(x)", "b = D(out)"],
        ),
        # `torch.autograd.grad` is recorded together with the outputs that it differentiates.
        (
            (
                "out = model(x)\na = criterion(out, y)\na.backward(retain_graph=True)\n"
                "b = penalty(out, x)\nloss = criterion(b, y)\nloss.backward()"
            ),
            ["out = model(x)", "b = penalty(out, x)", "loss = criterion(b, y)"],
        ),
        # A `with` binds the scaled loss.
        (
            "loss = criterion(model(x), y)\nwith scale_loss(loss, opt) as scaled:\n    scaled.backward()",
            ["loss = criterion(model(x), y)"],
        ),
        (
            "for a in xs:\n    memory.push(a)\n    loss = criterion(D(a))\nloss.backward()",
            ["for a in xs: memory.push(a) loss = criterion(D(a))"],
        ),
        # A loop that only collects detached values.
        (
            (
                "out = model(x)\nh = []\nfor a in xs:\n"
                "    h.append(out.detach())\nloss = criterion(h)\nloss.backward()"
            ),
            ["out = model(x)"],
        ),
        (
            (
                "out = model(x)\nfor a in xs:\n    h = out.detach()\n"
                "    log.add(h)\nloss = criterion(out)\nloss.backward()"
            ),
            ["out = model(x)", "loss = criterion(out)"],
        ),
        # A loop that detaches its hidden state.
        (
            (
                "out = model(x)\nfor a in xs:\n"
                "    h = out.detach()\n"
                "    out = out + h\nloss = criterion(out)\n"
                "loss.backward()"
            ),
            ["out = model(x)", "for a in xs: h = out.detach() out = out + h", "loss = criterion(out)"],
        ),
        (
            (
                "out = model(x)\nwhile y:\n    with y:\n        if a:\n            out = out * 2\n"
                "loss = criterion(out)\nloss.backward()"
            ),
            ["out = model(x)", "while y: with y:     if a:         out = out * 2", "loss = criterion(out)"],
        ),
        (
            "out = model(x)\nfor a in out:\n    b = a * 2\nloss = criterion(b)\nloss.backward()",
            ["out = model(x)", "for a in out: b = a * 2", "loss = criterion(b)"],
        ),
        (
            "D = copied(D)\nout = D(x)\nloss = criterion(out)\nloss.backward()\nD.eval()",
            ["out = D(x)", "loss = criterion(out)"],
        ),
    ],
)
def test_a_loss_among_others(
    found: Callable[..., Region | Obstacle | None], body: str, statements: list[str]
) -> None:
    one = found(body)
    assert isinstance(one, Region)
    assert statements == lines(one.statements)


def test_a_feature_that_a_hook_saves_is_an_output_of_the_module(parse: Parse) -> None:
    module = parse(
        "features = {}\ndef hook(module, args, out):\n    features['x'] = out\n"
        "def f(model, x, criterion):\n    model.register_forward_hook(hook)\n"
        "    out = model(x)\n    loss = criterion(features['x'])\n    loss.backward()\n"
    )
    ((node, scope),) = backward_calls(module)
    found = region(module, Learned(module), module.statement(node), {"loss"}, scope)
    assert isinstance(found, Region)
    assert ["out = model(x)", "loss = criterion(features['x'])"] == lines(found.statements)


def test_a_loss_in_an_inner_loop_of_a_branch(found: Callable[..., Region | Obstacle | None]) -> None:
    one = found(
        "h = model(x)\nfor a in xs:\n    if a:\n        loss = criterion(D(a))\n        loss.backward()"
    )
    assert isinstance(one, Region)
    assert ["loss = criterion(D(a))"] == lines(one.statements)


def test_an_output_that_is_differentiated_behind_the_branch_of_a_loss(parse: Parse) -> None:
    """What is in front of the branch is moved for the other loss."""
    module = parse(
        "def f(model, x, y, criterion, opt):\n    out = model(x)\n    opt.step()\n    if y:\n"
        "        loss = criterion(out)\n        loss.backward()\n    out.backward()\n"
    )
    node, scope = next(backward_calls(module))
    assert region(module, Learned(module), module.statement(node), {"loss"}, scope) is None


def test_a_loss_that_is_computed_anew_for_the_next_round(parse: Parse) -> None:
    module = parse(
        "def f(model, xs):\n    loss = model(xs).mean().exp()\n    for x in xs:\n"
        "        loss.backward()\n        loss = model(x).mean().exp()\n"
    )
    ((node, scope),) = backward_calls(module)
    learned, anchor = Learned(module), module.statement(node)
    first = region(module, learned, anchor, {"loss"}, scope)
    assert isinstance(first, Region)
    (again,) = next_rounds(module, learned, first, anchor, scope)
    assert ["loss = model(x).mean().exp()"] == lines(again.statements)
