"""The work of an analysis grows with the size of a function as a polynomial, whatever the function repeats.

The work is counted in calls of Python functions, not in seconds.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

from tpulint.engine.run import analyse_units, as_units
from tpulint.settings import Settings

SMALL, LARGE = 8, 16
#: Twice the statements may take this many times as long: more than cubic is too much.
BOUND = 8.0

#: What a function repeats; `{i}` counts, `{j}` and `{k}` are the two numbers before it.
REPEATED = {
    "conditional writes": "if flags[{i}]:\n    q = f(q)",
    "writes in both branches": "if flags[{i}]:\n    q = f(q)\nelse:\n    q = g(q)",
    "tests of tensors": "if q.sum() > {i}:\n    q = q + {i}",
    "two names that need each other": "q{i} = f(q{j}, q{k})",
    "two attributes that need each other": "self.q{i} = self.q{j} + self.q{k}",
    "tuples": "q{i}, r{i} = f(r{j}, q{j}), g(q{j}, r{k})",
    "swapped names": "q, r = r, q",
    "calls of a module": "q = self.layer(q) + q",
    "loops": "for _ in range({i}):\n    q = self.layer(q)",
    "loops that change two names": "while q.sum() > {i}:\n    q, r = f(r), f(q)",
    "masks": "q = q[q > {i}]",
    "writes to views": "v{i} = q[{i}]\nv{i}[0] = r[{i}]\nq = q + v{i}.sum()",
    "conditional expressions": "q = f(q) if flags[{i}] else g(q, r)",
    "try": "try:\n    q = f(q)\nexcept ValueError:\n    q = r",
    "with": "with torch.no_grad():\n    q{i} = f(q{j})\nq = q + q{i}",
    "nested functions": "def h{i}(x):\n    return h{j}(x) + h{k}(x)\nq = h{i}(q)",
    "lambdas": "h{i} = lambda x: h{j}(h{k}(x))\nq = h{i}(q)",
    "losses": "loss{i} = f(q{j}) + q.sum()\nq = q + loss{i}",
    "device tests": "if device.type == 'cuda':\n    q = q.cuda()\nelse:\n    q = q.cpu()",
    "devices": "d{i} = 'cuda' if d{j} else d{k}\nq = q.to(d{i})",
    "early returns": "if flags[{i}]:\n    return q",
    "dictionaries": "d = {{**d, 'q': f(d['q'], q), 'r': d['q']}}",
    "lists": "qs = [*qs, *qs]\nqs.append(q)",
    "item": "n = q[{i}].item()\nif n > 0:\n    r = r[:n]",
    "aliases": "a{i} = a{j} if flags[{i}] else a{k}\na{i} += q",
}

#: Ways to nest the next statement in the one before.
NESTED = {
    "ifs": "if flags[{i}]:\n    q = f(q)\n    ",
    "ifs with else": "if flags[{i}]:\n    q = f(q)\nelse:\n    q = g(q)\n    ",
    "loops": "for x{i} in q:\n    q = f(q, x{i})\n    ",
    "withs": "with torch.no_grad():\n    q = f(q)\n    ",
    "functions": "def h{i}(q):\n    q = f(q)\n    ",
    "tries": "try:\n    q = f(q)\nexcept ValueError:\n    ",
}

#: What a file repeats beside its functions.
BESIDE = {
    "functions that call two others": "def f{i}(x):\n    return f{j}(x) + f{k}(x)",
    "methods of heirs": (
        "class C{i}(C{j}, C{k}):\n    def forward(self, x):\n"
        "        return super().forward(x) + self.c{j}(x)\n"
        "    def c{i}(self, x):\n        return self.c{j}(x)"
    ),
    "parameters passed on": "def p{i}(x, device='cuda'):\n    return p{j}(x, device) + p{k}(x, device)",
    "losses passed on": "def l{i}(loss, opt):\n    l{j}(loss, opt)\n    l{k}(loss + 1, opt)",
    "modules in modules": (
        "class M{i}(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.a, self.b = M{j}(), M{k}()\n    def forward(self, x):\n        return self.a(self.b(x))"
    ),
    "aliases of modules": "n{i} = n{j} if flags else n{k}",
}

FRAMES = {
    "training": (
        "import torch\n\nclass T:\n    def __init__(self):\n"
        "        self.layer = torch.nn.Linear(2, 2).cuda()\n"
        "        self.opt = torch.optim.SGD(self.layer.parameters(), 0.1)\n\n"
        "    def step(self, q, r, flags, device):\n"
        "        q0 = q1 = r0 = r1 = a0 = a1 = self.layer(q)\n{body}\n"
        "        loss = q.sum() + r.sum()\n        self.opt.zero_grad()\n        loss.backward()\n"
        "        self.opt.step()\n        return loss.item()\n"
    ),
    "forward": (
        "import torch\n\nclass M(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
        "        self.layer = torch.nn.Linear(2, 2)\n\n"
        "    def forward(self, q, r, flags, device):\n"
        "        q0 = q1 = r0 = r1 = a0 = a1 = self.layer(q)\n{body}\n"
        "        return q[q > 0].sum() + r\n"
    ),
}


def _indented(text: str) -> str:
    return "\n".join(f"        {line}" for line in text.splitlines())


def _repeated(pattern: str, count: int) -> str:
    return "\n".join(pattern.format(i=i, j=i - 1, k=i - 2) for i in range(2, count + 2))


def _nested(pattern: str, count: int) -> str:
    body = "q = f(q)"
    for i in range(count):
        lines = body.replace("\n", "\n    ")
        body = pattern.format(i=i) + lines
    return body


def _calls(text: str) -> int:
    """How many Python functions the analysis of a file calls."""
    count = 0

    def counted(frame: FrameType, event: str, argument: object) -> None:
        nonlocal count
        count += event == "call"

    units = as_units({"/project/main.py": text.encode()})
    settings = Settings(root=Path("/project"))
    former = sys.getprofile()
    sys.setprofile(counted)
    try:
        analysis = analyse_units(units, settings, jobs=1)
    finally:
        sys.setprofile(former)
    assert not analysis.errors
    return count


@pytest.mark.parametrize("frame", FRAMES.values(), ids=FRAMES)
@pytest.mark.parametrize(
    ("pattern", "write"),
    [*((p, _repeated) for p in REPEATED.values()), *((p, _nested) for p in NESTED.values())],
    ids=[*REPEATED, *(f"nested {name}" for name in NESTED)],
)
def test_twice_the_statements_take_no_more_than_cubic_work(
    pattern: str, write: Callable[[str, int], str], frame: str
) -> None:
    small, large = (_calls(frame.format(body=_indented(write(pattern, n)))) for n in (SMALL, LARGE))
    assert large < BOUND * small


BEGINNING = (
    "import torch\n\nclass C1(torch.nn.Module):\n    def forward(self, x):\n        return x[x > 0]\n"
    "class C0(C1):\n    pass\n"
    "class M1(torch.nn.Module):\n    def forward(self, x):\n        return x.item()\n"
    "class M0(M1):\n    pass\ndef f1(x):\n    return x.nonzero()\ndef f0(x):\n    return f1(x)\n"
    "def p0(x, device):\n    return x.to(device)\ndef p1(x, device):\n    return x.to(device)\n"
    "def l0(loss, opt):\n    loss.backward()\n    opt.step()\ndef l1(loss, opt):\n    l0(loss, opt)\n"
    "flags = n0 = n1 = M1().cuda()\n"
)


@pytest.mark.parametrize("pattern", BESIDE.values(), ids=BESIDE)
def test_twice_the_definitions_take_no_more_than_cubic_work(pattern: str) -> None:
    ends = (
        "\nopt = torch.optim.SGD(M{n}().parameters(), 0.1)\n"
        "for x in flags:\n    l{n}(M{n}()(x).sum() + f{n}(x), opt)"
    )
    small, large = (_calls(BEGINNING + _repeated(pattern, n - 1) + ends.format(n=n)) for n in (SMALL, LARGE))
    assert large < BOUND * small
