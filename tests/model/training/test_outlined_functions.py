"""Loss computations of functions and scripts that become functions."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tpulint.model.module import Module

Parse = Callable[[str], Module]
Outline = Callable[[Module], str]

HEAD = """import torch
from torch import nn


class Net(nn.Module):
    def forward(self, x):
        return x


"""

#: The text before and after, by what it shows; the last `backward` counts.
CASES = {
    "the comment above a statement moves with it": (
        """\
def f(model, criterion, x, y):
    out = model(x)
    # the loss
    loss = criterion(out, y)
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x, criterion, y):
    out = model(x)
    # the loss
    loss = criterion(out, y)
    return loss


def f(model, criterion, x, y):
    loss = compute_loss(model, x, criterion, y)
    loss.backward()
""",
    ),
    "the comment above the first statement moves with it, and leaves no second blank line": (
        """\
def f(model, criterion, x, y):
    y = y + 1

    # the output
    # of the model
    out = model(x)

    # the criterion
    scale = len(y)
    loss = criterion(out, y) * scale
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x, criterion, y, scale):
    # the output
    # of the model
    out = model(x)
    loss = criterion(out, y) * scale
    return loss


def f(model, criterion, x, y):
    y = y + 1

    # the criterion
    scale = len(y)
    loss = compute_loss(model, x, criterion, y, scale)
    loss.backward()
""",
    ),
    "what each round of a loop writes first is no parameter": (
        """\
def f(model, frozen, xs):
    loss = 0
    for x in xs:
        with torch.no_grad():
            target = frozen(x)
        loss += (model(x) - target).sum()
    loss.backward()
""",
        """\
@differentiable
def compute_loss(xs, frozen, model):
    loss = 0
    for x in xs:
        with torch.no_grad():
            target = frozen(x)
        loss += (model(x) - target).sum()
    return loss


def f(model, frozen, xs):
    loss = compute_loss(xs, frozen, model)
    loss.backward()
""",
    ),
    "an input that may not be bound is bound to None": (
        """\
def f(model, x, y):
    if y:
        w = y
    loss = model(x).exp()
    if y:
        loss = loss + w
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x, y, w):
    loss = model(x).exp()
    if y:
        loss = loss + w
    return loss


def f(model, x, y):
    w = None
    if y:
        w = y
    loss = compute_loss(model, x, y, w)
    loss.backward()
""",
    ),
    "the name of a caught exception is neither an input nor an output": (
        """\
def f(model, xs):
    loss = 0
    for x in xs:
        try:
            loss = loss + model(x).sum()
        except ValueError as error:
            print(error)
    loss.backward()
""",
        """\
@differentiable
def compute_loss(xs, model):
    loss = 0
    for x in xs:
        try:
            loss = loss + model(x).sum()
        except ValueError as error:
            print(error)
    return loss


def f(model, xs):
    loss = compute_loss(xs, model)
    loss.backward()
""",
    ),
    "an annotation without a value binds nothing": (
        """def f(model, x, flag):
    loss: torch.Tensor
    if flag:
        loss = model(x).exp()
    loss.backward()
""",
        """@differentiable
def compute_loss(flag, model, x, loss):
    if flag:
        loss = model(x).exp()
    return loss


def f(model, x, flag):
    loss: torch.Tensor
    loss = None
    loss = compute_loss(flag, model, x, loss)
    loss.backward()
""",
    ),
    "long signatures and calls are wrapped": (
        """\
def f(model, criterion_of_the_first_stage, images_of_the_batch, labels_of_the_batch, weights_of_the_batch):
    loss = criterion_of_the_first_stage(model(images_of_the_batch), labels_of_the_batch, weights_of_the_batch)
    loss.backward()
""",
        """\
@differentiable
def compute_loss(
    criterion_of_the_first_stage,
    model,
    images_of_the_batch,
    labels_of_the_batch,
    weights_of_the_batch,
):
    loss = criterion_of_the_first_stage(model(images_of_the_batch), labels_of_the_batch, weights_of_the_batch)
    return loss


def f(model, criterion_of_the_first_stage, images_of_the_batch, labels_of_the_batch, weights_of_the_batch):
    loss = compute_loss(
        criterion_of_the_first_stage,
        model,
        images_of_the_batch,
        labels_of_the_batch,
        weights_of_the_batch,
    )
    loss.backward()
""",
    ),
    "a check that may return stays between two functions": (
        """\
def f(model, D, x):
    a = model(x)
    if a.isnan().any():
        return
    loss = D(a).exp()
    loss.backward()
""",
        """\
@differentiable
def compute_a(model, x):
    a = model(x)
    return a


@differentiable
def compute_loss(D, a):
    loss = D(a).exp()
    return loss


def f(model, D, x):
    a = compute_a(model, x)
    if a.isnan().any():
        return
    loss = compute_loss(D, a)
    loss.backward()
""",
    ),
    "the function stands above decorators and comments": (
        """\
# about f
@wrapped
def f(model, x):
    loss = model(x).exp()
    opt.zero_grad()
    print(loss.item())
    loss = loss + 1
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x):
    loss = model(x).exp()
    return loss


# about f
@wrapped
def f(model, x):
    loss = compute_loss(model, x)
    opt.zero_grad()
    print(loss.item())
    loss = loss + 1
    loss.backward()
""",
    ),
    "a string of several lines keeps its text": (
        """\
def f(model, x):
    loss = model(x, '''a
b''').exp()
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x):
    loss = model(x, '''a
b''').exp()
    return loss


def f(model, x):
    loss = compute_loss(model, x)
    loss.backward()
""",
    ),
    "a side effect that is not seen prevents compilation": (
        """\
seen = []


def helper(model, x):
    seen.append(x)
    return model(x)


def f(model, x):
    loss = helper(model, x)
    loss.backward()
""",
        """\
seen = []


def helper(model, x):
    seen.append(x)
    return model(x)


@differentiable(compiled=False)  # `helper` calls `seen.append`
def compute_loss(model, x):
    loss = helper(model, x)
    return loss


def f(model, x):
    loss = compute_loss(model, x)
    loss.backward()
""",
    ),
    "a helper that also prints is split": (
        """\
def helper(model, x):
    out = model(x)
    loss = out.exp()
    print(loss.item())
    return loss


def f(model, x):
    loss = helper(model, x)
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x):
    out = model(x)
    loss = out.exp()
    return loss


def helper(model, x):
    loss = compute_loss(model, x)
    print(loss.item())
    return loss


def f(model, x):
    loss = helper(model, x)
    loss.backward()
""",
    ),
    "a script gets a function in front of the loss": (
        """\
model = Net()
x = torch.ones(3)
if x:
    y = load()
loss = model(x).exp()
if x:
    loss = loss * y
loss.backward()
""",
        """\
model = Net()
x = torch.ones(3)
y = None
if x:
    y = load()


@differentiable
def compute_loss(model, x, y):
    loss = model(x).exp()
    if x:
        loss = loss * y
    return loss


loss = compute_loss(model, x, y)
loss.backward()
""",
    ),
    "blank lines and trailing comments stay": (
        """\
def f(model, x):
    loss = (
        model(x)
        .exp()  # why
    )

    if x:
        loss = loss + 1
    loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x):
    loss = (
        model(x)
        .exp()  # why
    )

    if x:
        loss = loss + 1
    return loss


def f(model, x):
    loss = compute_loss(model, x)
    loss.backward()
""",
    ),
    "a loss that asks for gradients is moved first": (
        """\
def f(model, x, y):
    out = model(x)
    loss = out.exp()
    loss.backward(retain_graph=True)
    g = torch.autograd.grad(out, x)
    other = g.exp()
    other.backward()
""",
        """\
@differentiable
def compute_other(model, x):
    out = model(x)
    g = torch.autograd.grad(out, x)
    other = g.exp()
    return out, other


def f(model, x, y):
    out, other = compute_other(model, x)
    loss = out.exp()
    loss.backward(retain_graph=True)
    other.backward()
""",
    ),
    "a function that is defined in between stays": (
        """\
def f(model, x):
    out = model(x)
    def inner():
        return out
    loss = inner().exp()
    loss.backward()
""",
        """\
@differentiable
def compute_out(model, x):
    out = model(x)
    return out


def f(model, x):
    out = compute_out(model, x)
    def inner():
        return out
    loss = inner().exp()
    loss.backward()
""",
    ),
    "a branch on one row with an unbound result": (
        """\
def f(model, x):
    if x: loss = model(x).exp()
    loss.backward()
""",
        """\
@differentiable
def compute_loss(x, model, loss):
    if x: loss = model(x).exp()
    return loss


def f(model, x):
    loss = None
    loss = compute_loss(x, model, loss)
    loss.backward()
""",
    ),
    "a hidden state goes from one iteration to the next": (
        """\
def f(model, xs):
    hidden = None
    for x in xs:
        out, hidden = model(x, hidden)
        loss = out.exp()
        loss.backward()
        hidden = hidden.detach()
""",
        """\
@differentiable
def compute_loss(model, x, hidden):
    out, hidden = model(x, hidden)
    loss = out.exp()
    return hidden, loss


def f(model, xs):
    hidden = None
    for x in xs:
        hidden, loss = compute_loss(model, x, hidden)
        loss.backward()
        hidden = hidden.detach()
""",
    ),
    "a deleted name is an output": (
        """\
def f(model, x):
    out = model(x)
    spec = stft(out)
    del out
    loss = other(spec)
    loss.backward()
    mel = stft(spec)
""",
        """\
@differentiable
def compute_loss(model, x, stft, other):
    out = model(x)
    spec = stft(out)
    loss = other(spec)
    return out, spec, loss


def f(model, x):
    out, spec, loss = compute_loss(model, x, stft, other)
    del out
    loss.backward()
    mel = stft(spec)
""",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_a_loss_computation_becomes_a_function(
    parse: Parse, outline: Outline, before: str, after: str
) -> None:
    assert HEAD + after == outline(parse(HEAD + before))
