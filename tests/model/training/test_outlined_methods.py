"""Loss computations of methods that become methods, or functions where they need no `self`."""

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
    "a method that reads an attribute of self becomes a method": (
        """\
class T:
    def f(self, x):
        loss = self.model(x).mean().exp()
        loss.backward()
""",
        """\
class T:

    @differentiable
    def compute_loss(self, x):
        loss = self.model(x).mean().exp()
        return loss

    def f(self, x):
        loss = self.compute_loss(x)
        loss.backward()
""",
    ),
    "an attribute that stands on another line than self is renamed": (
        """\
class T:
    def f(self, x):
        self.out = self.model(x)
        loss = (self
                .out.exp()
                + self.  # the output
                out.log()).sum()
        loss.backward()
""",
        """\
class T:

    @differentiable
    def compute_loss(self, x):
        out = self.model(x)
        loss = (out
                .exp()
                + out  # the output
                .log()).sum()
        return out, loss

    def f(self, x):
        self.out, loss = self.compute_loss(x)
        loss.backward()
""",
    ),
    "an attribute that changes becomes a parameter": (
        """\
class T:
    def g(self):
        self.count += 1

    def f(self, x):
        loss = self.model(x).exp() / self.count
        loss.backward()
""",
        """\
class T:
    def g(self):
        self.count += 1

    @differentiable
    def compute_loss(self, x, count):
        loss = self.model(x).exp() / count
        return loss

    def f(self, x):
        loss = self.compute_loss(x, self.count)
        loss.backward()
""",
    ),
    "an attribute that is only written is assigned the result": (
        """\
class T:
    def f(self, model, x):
        self.loss = model(x).exp()
        self.loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x):
    loss = model(x).exp()
    return loss


class T:
    def f(self, model, x):
        self.loss = compute_loss(model, x)
        self.loss.backward()
""",
    ),
    "an attribute gets a variable name of its own": (
        """\
class T:
    def f(self, model, x, out):
        self.out = model(x)
        loss = self.out.exp() + out
        loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x, out):
    self_out = model(x)
    loss = self_out.exp() + out
    return self_out, loss


class T:
    def f(self, model, x, out):
        self.out, loss = compute_loss(model, x, out)
        loss.backward()
""",
    ),
    "an attribute that is written on a condition keeps its value": (
        """\
class T:
    def f(self, model, x):
        loss = model(x).exp()
        if x:
            self.aux = model(x)
            loss = loss + self.aux
        loss.backward()
""",
        """\
@differentiable
def compute_loss(model, x, aux):
    loss = model(x).exp()
    if x:
        aux = model(x)
        loss = loss + aux
    return loss, aux


class T:
    def f(self, model, x):
        loss, self.aux = compute_loss(model, x, getattr(self, "aux", None))
        loss.backward()
""",
    ),
    "what another method keeps for the loss is moved too": (
        """\
class T:
    def f(self, x):
        self.out = self.model(x)

    def g(self, y):
        loss = self.disc(self.out).exp()
        loss.backward()
""",
        """\
class T:

    @differentiable(compiled=False)  # calls functions that tpulint does not know
    def compute_out(self, x):
        out = self.model(x)
        return out

    def f(self, x):
        self.out = self.compute_out(x)

    @differentiable(compiled=False)  # calls functions that tpulint does not know
    def compute_loss(self, out):
        loss = self.disc(out).exp()
        return loss

    def g(self, y):
        loss = self.compute_loss(self.out)
        loss.backward()
""",
    ),
    "an augmented assignment of an attribute": (
        """\
class T:
    def f(self, x):
        self.count += self.model(x).exp()
        loss = self.count.exp()
        loss.backward()
""",
        """\
class T:

    @differentiable
    def compute_loss(self, count, x):
        count += self.model(x).exp()
        loss = count.exp()
        return count, loss

    def f(self, x):
        self.count, loss = self.compute_loss(self.count, x)
        loss.backward()
""",
    ),
    "what is computed between two methods is moved too": (
        """\
class T:
    def f(self, x):
        self.spec = stft(self.model(x))
        self.mel = stft(self.spec)

    def g(self, y):
        loss = self.disc(self.mel).exp()
        loss.backward()
""",
        """\
@differentiable(compiled=False)  # calls functions that tpulint does not know
def compute_mel(stft, spec):
    mel = stft(spec)
    return mel


class T:

    @differentiable(compiled=False)  # calls functions that tpulint does not know
    def compute_spec(self, stft, x):
        spec = stft(self.model(x))
        return spec

    def f(self, x):
        self.spec = self.compute_spec(stft, x)
        self.mel = compute_mel(stft, self.spec)

    @differentiable(compiled=False)  # calls functions that tpulint does not know
    def compute_loss(self, mel):
        loss = self.disc(mel).exp()
        return loss

    def g(self, y):
        loss = self.compute_loss(self.mel)
        loss.backward()
""",
    ),
}


@pytest.mark.parametrize(("before", "after"), CASES.values(), ids=CASES)
def test_a_loss_computation_becomes_a_method(parse: Parse, outline: Outline, before: str, after: str) -> None:
    assert HEAD + after == outline(parse(HEAD + before))
