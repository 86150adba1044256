"""Modules that the project itself jits, through whatever calls: their `forward` is traced for certain."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tpulint.engine.run import as_units, linked
from tpulint.model.project.trace_path import Certainty
from tpulint.settings import Settings

NETS = """
import torch
from torch import nn

class Net(nn.Module):
    def forward(self, x): return x

def build(width):
    net = Net()
    return net

shared = Net().to("jax").eval()
"""
HEAD = """
import functools, jax, torch, torchax, nets
from nets import Net, build, shared
from torchax.interop import jax_jit, JittableModule
from torch.func import functional_call
"""


def is_jitted(folder: Path, program: str) -> bool:
    texts = {"nets": NETS, "train": HEAD + textwrap.dedent(program)}
    files = {str(folder / f"{name}.py"): text.encode() for name, text in texts.items()}
    path = linked(as_units(files), Settings(), jobs=1).trace_path("nets.Net.forward")
    return path is not None and path.certainty is Certainty.JIT


@pytest.mark.parametrize(
    "program",
    [
        'model = Net().to("jax")\ncall = jax_jit(lambda p, x: functional_call(model, p, (x,)))',
        "model = nets.Net()\nf = torchax.compile(model)",
        "def main():\n    model = Net().cuda().eval()\n    return JittableModule(model)",
        "params, call = torchax.extract_jax(Net())\nf = jax.jit(call)",
        "f = torchax.compile(build(3))",
        "model = build(3)\nf = torchax.compile(model)",
        "f = torchax.compile(shared)",
        "model = Net()\n@jax_jit\ndef step(p, x): return functional_call(model, p, (x,))",
        "f = jax_jit(functools.partial(functional_call, shared))",
        "model = Net()\ndef run(x): return model(x)\nf = jax_jit(run)",
        "def run(model, x):\n    return jax_jit(lambda p: functional_call(model, p, (x,)))\nrun(Net(), 1)",
        "def compiled(model): return torchax.compile(model)\ndef main(): compiled(model=Net())",
        "model = torch.nn.Sequential(torch.nn.Linear(4, 4), Net())\nf = torchax.compile(model)",
        """
        class Trainer:
            def __init__(self):
                self.model = Net().to("jax")
                self.step = jax_jit(self.compute)
            def compute(self, p, x): return functional_call(self.model, p, (x,))
        """,
    ],
)
def test_the_project_jits_the_module(tmp_path: Path, program: str) -> None:
    assert is_jitted(tmp_path, program)


@pytest.mark.parametrize(
    "program",
    [
        "model = Net()\nf = torchax.compile(torch.nn.Linear(2, 2))\nmodel(1)",
        "def run(model, x): return jax_jit(lambda p: functional_call(model, p, (x,)))\nrun(load(), 1)",
        "x = Net().to('jax')\ndef f(y): return y\ng = jax_jit(f)",
    ],
)
def test_the_project_jits_something_else(tmp_path: Path, program: str) -> None:
    assert not is_jitted(tmp_path, program)
