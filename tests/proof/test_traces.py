"""The abstract trace of `tpulint verify`: all failing lines at once, beside the findings of `check`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.proof.conftest import Verify
from tpulint.verify import missing_packages

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")

MODEL = """\
import torch
from torch import nn


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.scale = torch.full((4,), 2.0)

    def forward(self, x):
        if x.sum() > 0:  # branch
            x = x + 1
        else:
            x = x - 1
        self.last = x  # leak
        first = int(x[0, 0])  # item
        chosen = x[x > 0]  # mask
        steps = torch.arange(x.argmax())  # size
        x = x * self.scale  # host tensor
        print(f"mean {x.mean():.2f}")  # item
        array = x.detach().cpu().numpy()  # host copy
        assert x.min() > -100  # branch
        if x.max() > 1e9:  # branch
            raise ValueError("too large")
        places = torch.nonzero(x)  # size
        while x.sum() < 3:  # branch
            x = x * 2
        return self.fc(x) + x.mean().item()  # item


class Odd(nn.Module):
    def forward(self, x):
        x = x + torch.special.airy_ai(x)  # operator
        return memoryview(b"").cast(x) if hasattr(x, "_elem") else x  # error


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.odd = Odd()
        self.first = Block()
        self.second = Block()

    def forward(self, x):
        x = self.first(self.odd(x.cuda()))
        if x.shape[0] > 100:
            x = x[x > 0]  # not reached
        return self.second(x)
"""


PROGRAM = """\
import torch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 2)

    def forward(self, x):
        x = self.fc(x)
        if x.sum() > 1e6:
            return x * 2
        return x


model = Net().to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(5):
    loss = model(torch.ones(3, 2).cuda()).sum()
    loss.backward()
    optimizer.step()
"""


def lines_of(trace: dict[str, Any], *states: str) -> set[tuple[int, str]]:
    return {(line["line"], line["hazard"]) for line in trace["lines"] if line["state"] in states}


def marked(text: str) -> set[tuple[int, str]]:
    rows = [(row, line.partition("  # ")[2]) for row, line in enumerate(text.splitlines(), 1)]
    return {(row, mark) for row, mark in rows if mark and mark != "not reached"}


def test_one_trace_lists_every_line_that_fails(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(MODEL)
    _, report, _ = verify("model.py:Net", "--input", "rand(4, 4)")
    trace = report["verifications"][0]["trace"]
    assert "complete" == trace["state"]
    assert marked(MODEL) == lines_of(trace, "confirmed", "missed")
    (row,) = [row for row, line in enumerate(MODEL.splitlines(), 1) if "# not reached" in line]
    assert {(row, "")} == lines_of(trace, "not reached")
    assert {"TPU303", "TPU301", "TPU401", "TPU305"} <= {line["code"] for line in trace["lines"]}


def test_modules_that_a_program_calls_are_traced(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PROGRAM)
    _, report, _ = verify("train.py")
    trace = report["verifications"][0]["trace"]
    assert [("confirmed", "train.py", 11, "branch")] == [
        (line["state"], line["path"], line["line"], line["hazard"]) for line in trace["lines"]
    ]


def test_a_trace_can_be_left_out(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("def double(x):\n    return x * 2\n")
    code, report, _ = verify("model.py:double", "--input", "rand(2)", "--no-trace")
    assert (0, None) == (code, report["verifications"][0]["trace"])
