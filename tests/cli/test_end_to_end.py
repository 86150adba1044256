"""The command line on the real engine and rules."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from tpulint.cli import run

CUDA = "import torch\n\nx = torch.zeros(2).cuda()\n"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "model.py").write_text(CUDA)
    return tmp_path


def test_each_bad_file_is_one_error_line_and_the_others_are_checked(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "binary.py").write_bytes(b"\x7fELF\x00\x01\x02")
    (folder / "latin.py").write_bytes(b"name = '\xe9'\n")
    (folder / "broken.py").write_text("def f(:\n")
    (folder / "deep.py").write_text("x = " + "(" * 5000 + ")" * 5000 + "\n")
    (folder / "long.py").write_text("x = [" + "1, " * 3_000_000 + "]\n")
    (folder / "empty.py").touch()
    (folder / "loop.py").symlink_to("loop.py")
    code = run(["check", "--isolated", "--no-cache", "--output-format", "concise", "-q", ".", "gone.py"])
    captured = capsys.readouterr()
    told = [line.split(":")[0] for line in captured.out.splitlines()]
    told += [line.split(":")[1].strip() for line in captured.err.splitlines()]
    assert 2 == code
    assert "model.py:3:5: TPU101" in captured.out
    assert "broken.py:1:" in captured.out
    odd = {"binary.py", "latin.py", "broken.py", "deep.py", "long.py", "loop.py", "gone.py"}
    assert odd | {"model.py"} == set(told)
    assert "Traceback" not in captured.err


def test_a_syntax_error_is_a_finding(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (folder / "model.py").write_text("x = (1,\n")
    assert 1 == run(["check", "--isolated", "--no-cache", "--select", "TPU3", "--output-format", "json"])
    assert ["TPU000"] == [finding["code"] for finding in json.loads(capsys.readouterr().out)]


def test_fix_fixes_the_findings_that_check_calls_fixable(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entered = f"import torchax\n\ntorchax.enable_globally()\n{CUDA}"
    (folder / "model.py").write_text(entered)
    options = ["--isolated", "--no-cache", "--select", "TPU101"]
    assert 1 == run(["check", *options])
    assert "1 fixable with `tpulint fix`" in capsys.readouterr().out
    assert 1 == run(["fix", "--diff", *options])
    assert '+x = torch.zeros(2).to("jax")' in capsys.readouterr().out
    assert entered == (folder / "model.py").read_text()
    assert 0 == run(["fix", *options])
    assert "1 × TPU101 cuda-method" in capsys.readouterr().out
    assert entered.replace(".cuda()", '.to("jax")') == (folder / "model.py").read_text()
    assert 0 == run(["check", *options])


def test_safe_fixes_leave_the_device_of_a_program_that_does_not_enter_torchax(folder: Path) -> None:
    (folder / "model.py").write_text(CUDA)
    assert 1 == run(["fix", "--isolated", "--no-cache"])
    assert CUDA == (folder / "model.py").read_text()
    assert 0 == run(["fix", "--isolated", "--no-cache", "--unsafe-fixes"])
    assert "torchax_compat.enable()" in (folder / "model.py").read_text()


def test_a_comment_silences_a_finding(folder: Path) -> None:
    (folder / "model.py").write_text(CUDA.replace(".cuda()", ".cuda()  # tpulint: ignore[TPU101]"))
    assert 0 == run(["check", "--isolated", "--no-cache", "--select", "TPU101"])


def test_former_names_of_a_rule_still_silence_and_select_it(folder: Path) -> None:
    (folder / "model.py").write_text(CUDA + "print(torch.empty(2).cuda().data_ptr())\n")
    options = ["--isolated", "--no-cache", "--select", "tensor-address"]
    assert 1 == run(["check", *options])
    (folder / "model.py").write_text(
        CUDA + "print(torch.empty(2).cuda().data_ptr())  # tpulint: ignore[tensor-address]\n"
    )
    assert 0 == run(["check", *options])


def test_optional_rules_are_off_until_they_are_named(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = "import torch\n\n\ndef f(a, b):\n    return torch.solve(b, a)[0]\n"
    (folder / "model.py").write_text(old)
    for options in ([], ["--select", "ALL"], ["--extend-select", "ALL"], ["--select", "TPU"]):
        assert 0 == run(["check", "-q", *options, "."])
    assert 0 == run(["fix", "-q", "--unsafe-fixes", "."])
    assert old == (folder / "model.py").read_text()
    for options in (["--select", "UPG"], ["--extend-select", "removed-torch-function"]):
        assert 1 == run(["check", "-q", "--output-format", "concise", *options, "."])
        assert "model.py:5:12: UPG101 removed-torch-function:" in capsys.readouterr().out
    (folder / "pyproject.toml").write_text('[tool.tpulint]\nextend-select = ["UPG101"]\n')
    assert 0 == run(["fix", "-q", "."])
    assert (
        old.replace("torch.solve(b, a)[0]", "torch.linalg.solve(a, b)") == (folder / "model.py").read_text()
    )


def test_per_file_ignores_come_from_pyproject(folder: Path) -> None:
    (folder / "pyproject.toml").write_text(
        '[tool.tpulint]\nselect = ["TPU101"]\nper-file-ignores = { "model.py" = ["cuda-method"] }\n'
    )
    assert 0 == run(["check", "--no-cache"])


@pytest.mark.skipif(not Path("/proc/self/task").is_dir(), reason="tells by /proc when the work has begun")
def test_an_interrupt_in_the_middle_of_parallel_work_is_quiet(tmp_path: Path) -> None:
    for number in range(120):
        (tmp_path / f"m{number}.py").write_text("import torch\n" + "x = torch.zeros(2).cuda()\n" * 2000)
    with subprocess.Popen(
        [sys.executable, "-m", "tpulint", "check", "--no-cache", "--isolated", "-j", "2", "-q"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        # a shell's background commands, and all that they start, ignore it
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.SIG_DFL),
    ) as process:
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while not children.read_text().split():
            time.sleep(0.01)
        time.sleep(0.2)
        os.killpg(process.pid, signal.SIGINT)
        assert process.stderr is not None
        assert (130, "") == (process.wait(timeout=30), process.stderr.read().strip())


LIBRARY = """\
import torch
from torch import nn


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, x):
        return self.layer(x)

    @torch.no_grad()
    def sample(self, x):
        x = x.to("jax")
        for _ in range(3):
            x = x - self(x)
        return x
"""


def test_models_of_a_library_are_evaluated_by_the_scripts_that_import_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "denoiser").mkdir()
    (folder / "denoiser" / "__init__.py").touch()
    (folder / "denoiser" / "model.py").write_text(LIBRARY)
    options = ["--isolated", "--no-cache", "--select", "TPU645", "--output-format", "concise"]
    assert 0 == run(["check", *options])
    capsys.readouterr()
    (folder / "sample.py").write_text("from denoiser.model import Denoiser\n\nprint(Denoiser())\n")
    assert 1 == run(["check", *options])
    assert capsys.readouterr().out.startswith("denoiser/model.py:17:21: TPU645")
