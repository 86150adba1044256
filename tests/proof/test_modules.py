"""`tpulint verify FILE.py:MODULE`: each test calls real modules, before and after `fix`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.proof.conftest import Verify
from tpulint.verify import missing_packages

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")

MODEL = """\
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.first = nn.Linear(4, width)
        self.norm = nn.BatchNorm1d(width)
        self.last = nn.Linear(width, 2)

    def forward(self, x, mask=None):
        scale = torch.ones(1).cuda()
        x = torch.relu(self.norm(self.first(x))) * scale
        if mask is not None:
            x = x * mask
        return {"logits": self.last(x), "length": x.shape[1]}


def double(x):
    return x * 2, x.argmax()


def verify_wide():
    return Net(width=16), (torch.randn(3, 4),), {"mask": torch.ones(3, 16)}


def verify_double():
    return double, (torch.randn(5),)


def verify_nothing():
    return "Net"
"""


@pytest.fixture(autouse=True)
def model(tmp_path: Path) -> Path:
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path / "model.py"


def test_a_module_gives_the_same_results_gradients_and_buffers(verify: Verify) -> None:
    code, report, _ = verify("model.py:Net", "--input", "randn(6, 4)", "--input", "mask=ones(6, 8)")
    (found,) = report["verifications"]
    assert (0, "same", "module") == (code, found["state"], found["kind"])
    counts = {row["what"]: (row["state"], row["count"]) for row in found["compared"]}
    # Two inputs and six parameters have gradients; `length` is a result, too.
    assert {"results": ("same", 2), "gradients": ("same", 8), "buffers": ("same", 3)} == counts
    assert found["fixes"] > 0


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("self.last(x)", "self.last(x) * 1.001", "results"),
        ("self.last(x)", "self.last(x).detach()", "gradients"),
        ("nn.BatchNorm1d(width)", "nn.BatchNorm1d(width, momentum=0.2)", "buffers"),
        ("self.last(x)", "self.last(x).half()", "results"),
        ("self.last(x)", "self.last(x)[None]", "results"),
    ],
)
def test_a_fix_that_changes_a_module_differs(
    verify: Verify, monkeypatch: pytest.MonkeyPatch, before: str, after: str, what: str
) -> None:
    from tpulint.proof import project

    fix = project._fix

    def fix_wrongly(folder: Path) -> int:
        file = folder / "model.py"
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))
        return fix(folder)

    monkeypatch.setattr(project, "_fix", fix_wrongly)
    code, report, _ = verify("model.py:Net", "--input", "randn(6, 4)")
    (found,) = report["verifications"]
    assert (1, "differs") == (code, found["state"])
    assert what in {row["what"] for row in found["compared"] if row["state"] == "differs"}


def test_functions_of_a_file_give_modules_with_inputs(verify: Verify) -> None:
    code, report, _ = verify("model.py:verify_w*", "model.py:verify_d*")
    states = {one["target"]: (one["kind"], one["state"]) for one in report["verifications"]}
    expected = {"model.py:verify_wide": ("module", "same"), "model.py:verify_double": ("function", "same")}
    assert (0, expected) == (code, states)


def test_targets_of_the_table_are_verified(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text(
        "[tool.tpulint.verify]\ntimeout = 100\n\n[[tool.tpulint.verify.targets]]\n"
        'target = "model.py:Net(width=2)"\ninputs = ["randn(3, 4)"]\n'
    )
    code, report, _ = verify()
    (found,) = report["verifications"]
    assert (0, "same") == (code, found["state"])
    assert found["target"].endswith("model.py:Net(width=2)")


def test_a_module_that_fails_is_not_run_and_another_is_verified(verify: Verify) -> None:
    code, report, _ = verify("model.py:Net", "model.py:double", "--input", "randn(3, 5)")
    first, second = report["verifications"]
    assert (2, "not run", "same") == (code, first["state"], second["state"])
    assert ["RuntimeError", "x = torch.relu(self.norm(self.first(x))) * scale"] == [
        first["failure"]["type"],
        first["failure"]["frames"][-1]["code"],
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("model.py:Nett",), "model.py has no `Nett`; it defines Net, double, verify_wide, verify_double"),
        (("model.py:Net", "--input", "randnn(2)"), "--input `randnn(2)` raises NameError"),
        (("model.py:verify_other*",), "model.py has no function `verify_other*`"),
        (("model.py:verify_nothing",), "`verify_nothing()` returns a str, not a module or function"),
        (("model.py:Net", "train.py"), "`train.py` is not `FILE.py:NAME`"),
    ],
)
def test_what_is_not_there_gives_one_line_and_exit_2(
    verify: Verify, arguments: tuple[str, ...], message: str
) -> None:
    code, report, err = verify(*arguments)
    assert (2, {}) == (code, report)
    assert message in err.splitlines()[-1]
