"""`tpulint verify PROGRAM`: each test runs real programs, before and after `fix`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.proof.conftest import Verify
from tpulint.verify import missing_packages

pytestmark = pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed")

TRAINING = """\
import sys

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 2)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=float(sys.argv[1]))
for step in range(9):
    x = torch.randn(16, 4).to(device)
    y = torch.randint(0, 2, (16,)).to(device)
    optimizer.zero_grad()
    loss = torch.nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    print(f"{device} step {step}: {loss.item():.4f}")
"""


def test_a_program_gives_the_same_after_fix(verify: Verify, tmp_path: Path) -> None:
    program = tmp_path / "train.py"
    program.write_text(TRAINING)
    code, report, _ = verify("--steps", "2", "train.py", "0.1")
    (found,) = report["verifications"]
    assert (0, "same", "train.py 0.1", 2) == (code, found["state"], found["target"], found["steps"])
    counts = {row["what"]: (row["state"], row["count"]) for row in found["compared"]}
    # The third step begins, so that what is printed after the second is there.
    expected = {"losses": ("same", 3), "parameters": ("same", 6), "buffers": ("same", 3)}
    assert {**expected, "printed lines": ("same", 2)} == counts
    assert found["operations"] > 0
    assert TRAINING == program.read_text()
    assert [program] == list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("before", "after", "what"),
    [
        ("float(sys.argv[1])", "float(sys.argv[1]) * 1.01", "parameters"),
        ("lr=float", "momentum=0.1, lr=float", "losses"),
        ("loss.backward()", "(loss * 1.001).backward()", "losses"),
        ("step {step}", "batch {step}", "printed lines"),
    ],
)
def test_a_fix_that_changes_what_is_computed_differs(
    verify: Verify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str, after: str, what: str
) -> None:
    (tmp_path / "train.py").write_text(TRAINING)
    from tpulint.proof import project

    fix = project._fix

    def fix_wrongly(folder: Path) -> int:
        file = folder / "train.py"
        assert before in file.read_text()
        file.write_text(file.read_text().replace(before, after))
        return fix(folder)

    monkeypatch.setattr(project, "_fix", fix_wrongly)
    code, report, _ = verify("train.py", "0.1")
    (found,) = report["verifications"]
    assert (1, "differs") == (code, found["state"])
    assert what in {row["what"] for row in found["compared"] if row["state"] == "differs"}


def test_errors_of_the_original_are_shown_cut_to_the_users_frames(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import torch\n\ndef load():\n    return torch.load('weights.pt')\n\nload()\n"
    )
    code, report, _ = verify("train.py")
    (found,) = report["verifications"]
    assert (2, "not run", "the original fails on the CPU") == (code, found["state"], found["reason"])
    assert "FileNotFoundError" == found["failure"]["type"]
    frames = [(frame["path"], frame["line"], frame["code"]) for frame in found["failure"]["frames"]]
    assert [("train.py", 6, "load()"), ("train.py", 4, "return torch.load('weights.pt')")] == frames


def test_an_original_that_exits_with_an_error_is_not_run_and_its_message_is_shown(
    verify: Verify, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(
        "import argparse\n\nparser = argparse.ArgumentParser()\n"
        "parser.add_argument('--data', required=True)\nparser.parse_args()\n"
    )
    code, report, _ = verify("--tpu", "v5e", "train.py")
    (found,) = report["verifications"]
    message = "train.py: error: the following arguments are required: --data"
    assert (2, "not run", message) == (code, found["state"], found["failure"]["message"])
    assert ["parser.parse_args()"] == [frame["code"] for frame in found["failure"]["frames"]]
    assert ["not run"] == [row["state"] for row in found["compiled"]]


def test_a_program_that_does_not_end_is_not_run(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\ntime.sleep(600)\n")
    code, report, _ = verify("--timeout", "8", "train.py")
    (found,) = report["verifications"]
    assert (2, "not run", "no end within 8 s (--timeout)") == (code, found["state"], found["reason"])


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_program_and_removes_the_copies(tmp_path: Path, number: int) -> None:
    started, copies = tmp_path / "started", tmp_path / "copies"
    copies.mkdir()
    (tmp_path / "train.py").write_text(
        f"import os, time\nopen({str(started)!r}, 'a').write(f'{{os.getpid()}}\\n')\ntime.sleep(600)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-m", "tpulint", "verify", "--no-trace", "train.py"],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(copies)},
        # Jobs in the background ignore interruptions, and so do the processes that they start.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    deadline = time.monotonic() + 60
    while not (started.exists() and 2 == len(started.read_text().splitlines())):
        assert time.monotonic() < deadline
        time.sleep(0.1)
    process.send_signal(number)
    assert 130 == process.wait(30)
    assert [] == [pid for pid in started.read_text().split() if Path("/proc", pid).exists()]
    assert [] == list(copies.glob("tpulint-verify-*"))


def test_a_program_that_takes_too_much_memory_is_not_run(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import time\nbig = bytearray(3 * 2**30)\ntime.sleep(60)\n")
    code, report, _ = verify("--memory", "2G", "train.py")
    (found,) = report["verifications"]
    assert (2, "the process used more than 2.0 GiB of memory (--memory)") == (code, found["reason"])


def test_a_program_that_fix_does_not_move_is_not_run(verify: Verify, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("import torch\nprint(torch.ones(2).sum().item())\n")
    code, report, _ = verify("train.py")
    (found,) = report["verifications"]
    assert (2, "not run") == (code, found["state"])
    assert found["reason"].startswith("nothing was executed on torchax")


def test_each_run_begins_with_the_users_files(verify: Verify, tmp_path: Path) -> None:
    text = TRAINING.replace("for step", 'for name in ["seen"]:\n    open(name, "x").close()\nfor step')
    (tmp_path / "train.py").write_text(text)
    code, report, _ = verify("train.py", "0.1")
    (found,) = report["verifications"]
    assert (0, "same", "complete") == (code, found["state"], found["trace"]["state"])


def test_an_original_that_does_not_repeat_itself_is_not_compared(verify: Verify, tmp_path: Path) -> None:
    # Processes that are started one after the other get numbers that are far apart.
    scale = "(1 + os.getpid() * 919 % 1000)"
    text = TRAINING.replace("    loss.backward()", f"    loss = loss * {scale}\n    loss.backward()")
    (tmp_path / "train.py").write_text(f"import os\n{text}")
    code, report, _ = verify("train.py", "0.1")
    (found,) = report["verifications"]
    assert (2, "not run") == (code, found["state"])
    assert found["reason"].startswith("the original is not reproducible")


def test_a_program_in_16_bits_is_compared_by_what_these_resolve(verify: Verify, tmp_path: Path) -> None:
    text = TRAINING.replace(
        "    loss = torch.nn",
        '    with torch.autocast("cuda", dtype=torch.bfloat16):\n        out = model(x)\n    loss = torch.nn',
    )
    (tmp_path / "train.py").write_text(
        text.replace("cross_entropy(model(x), y)", "cross_entropy(out.float(), y)")
    )
    code, report, _ = verify("--no-trace", "train.py", "0.1")
    (found,) = report["verifications"]
    assert (0, "same") == (code, found["state"])
    assert "modules compute in 16 bits" in found["notes"][0]
    (losses,) = [row for row in found["compared"] if row["what"] == "losses"]
    assert 1e-5 < losses["difference"] < 0.01


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.py",), "there is no file `nowhere.py`"),
        (
            ("TPU301",),
            "there is no file `TPU301`; `tpulint verify-rules` executes the fixture cases of rules",
        ),
        (("model.py:Net", "--input", "randn(2,"), "`randn(2,` is not an input"),
        (("model.py:Net(",), "`Net(` is not a module"),
        (("--memory", "much", "model.py"), "`much` is not a size such as 8G or 500M"),
        (("--project", "{other}", "model.py"), "`model.py` is not in the folder of --project"),
        ((), "there is nothing to verify"),
    ],
)
def test_bad_input_gives_one_line_and_exit_2(
    verify: Verify, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    (tmp_path / "model.py").write_text("")
    (tmp_path / "other").mkdir()
    code, report, err = verify(*(one.format(other=tmp_path / "other") for one in arguments))
    assert (2, {}) == (code, report)
    assert message in err.splitlines()[-1]
