"""`tpulint verify-rules --locked` as a command; where the tool itself changes, in a copy of it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tpulint.verify import missing_packages

pytestmark = [
    pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed"),
    pytest.mark.slow,
    pytest.mark.xdist_group("locked"),
]

RUN = (
    'claim = {"eager": "raises AssertionError: CUDA"}\nimport torch\ndef inputs(): return (torch.ones(3),)\n'
)
PLAIN = "import torch\n\n\ndef f(x):\n    return x.cuda() * 2\n"
#: Its fix imports the runtime.
TRAINED = """\
import torch
from torch import nn


def f(x):
    model = nn.Linear(3, 1).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with torch.no_grad():
        model.weight.fill_(0.5), model.bias.zero_()
    loss = model(x.cuda()).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.detach()
"""
CASES = {"rule/first": PLAIN, "rule/second": PLAIN, "rule/third": PLAIN, "rule/trained": TRAINED}


#: The folders of a checkout that Python imports from.
_SOURCES = ("", "rules", "runtime/src")


@dataclass
class Checkout:
    """A folder with a few cases, and the tool that they are executed with."""

    root: Path
    tool: Path = Path(__file__).parents[2]
    executed: set[str] = field(default_factory=set)
    said: str = ""

    @property
    def lock(self) -> Path:
        return self.root / "fixtures" / "evidence.lock"

    def verify(self, *options: str) -> int:
        """Run `tpulint verify-rules`; what was executed and what was said is kept."""
        process = self.start(*options)
        output, self.said = process.communicate(timeout=600)
        assert output, self.said
        rows = json.loads(output)
        self.executed = {f"{row['rule']}/{row['case']}" for row in rows if row["stage"] != "lock"}
        return process.returncode

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Start `tpulint verify-rules` in a process group of its own."""
        return subprocess.Popen(
            [sys.executable, "-m", "tpulint", "verify-rules", "--output-format", "json", *options],
            cwd=self.root,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(str(self.tool / name) for name in _SOURCES)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
            # A shell starts what it runs in the background with interrupts ignored, and so would this be.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def copy_tool(self) -> None:
        """Execute with a copy of the tool from now on, which may be changed."""
        ignored = shutil.ignore_patterns("__pycache__")
        for name in ("tpulint", "rules", "runtime/src"):
            shutil.copytree(self.tool / name, self.root / name, ignore=ignored)
        self.tool = self.root

    def edit_lock(self, edits: Iterable[tuple[str, str, str]]) -> None:
        """Replace text in the lines of some cases; a line that becomes empty is removed."""
        lines = self.lock.read_text().splitlines()
        for case, old, new in edits:
            (at,) = [row for row, line in enumerate(lines) if line.startswith(f"{case} ")]
            assert old in lines[at]
            lines[at] = lines[at].replace(old, new)
        self.lock.write_text("\n".join(filter(None, lines)) + "\n")

    def line(self, case: str) -> str:
        (found,) = [line for line in self.lock.read_text().splitlines() if line.startswith(f"{case} ")]
        return found


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    """Cases that were all executed, with a lock of that."""
    root = tmp_path_factory.mktemp("checkout")
    for name, text in CASES.items():
        folder = root / "fixtures" / name
        folder.mkdir(parents=True)
        (folder / "before.py").write_text(text)
        (folder / "run.py").write_text(RUN)
    made = Checkout(root)
    assert made.verify("--update-lock") == 0, made.said
    assert made.executed == set(CASES)
    return made


@pytest.fixture
def checkout(locked: Checkout, tmp_path: Path) -> Checkout:
    """The same, to be changed."""
    shutil.copytree(locked.root, tmp_path / "checkout")
    return Checkout(tmp_path / "checkout")


def test_removed_line_stale_digest_and_changed_outcome_are_executed_and_fail(checkout: Checkout) -> None:
    digest = checkout.line("rule/second").split()[1]
    checkout.edit_lock(
        [
            ("rule/first", checkout.line("rule/first"), ""),
            ("rule/second", digest, "0" * len(digest)),
            ("rule/third", "fixed/eager=equal", "fixed/eager=differs"),
        ]
    )
    assert checkout.verify("--locked") == 1
    assert {"rule/first", "rule/second", "rule/third"} <= checkout.executed
    assert "is out of date: rule/first (not in the lock), rule/second (changed" in checkout.said
    assert "rule/third (changed" in checkout.said


def test_changed_runtime_file_executes_the_cases_that_import_it_and_renews_their_lines(
    checkout: Checkout,
) -> None:
    checkout.copy_tool()
    before = checkout.lock.read_text().splitlines()
    file = checkout.root / "runtime/src/torchax_compat/version.py"
    file.write_text(f"{file.read_text()}\n# changed\n")
    assert checkout.verify("--locked", "--update-lock") == 0
    assert "rule/trained" in checkout.executed
    assert len(checkout.executed) <= 2  # with the sample
    assert checkout.said == "note: wrote fixtures/evidence.lock: 1 changed\n"
    changed = set(checkout.lock.read_text().splitlines()) - set(before)
    assert [line.split()[0] for line in changed] == ["rule/trained"]
    # A second run finds nothing to do but the sample.
    assert checkout.verify("--locked") == 0
    assert (len(checkout.executed), checkout.said) == (1, "")


def test_interrupted_run_ends_quietly_and_keeps_the_lock(checkout: Checkout) -> None:
    before = checkout.lock.read_text()
    waiting = "import time\ndef inputs():\n    time.sleep(60)\n    return (torch.ones(3),)\n"
    (checkout.root / "fixtures/rule/first/run.py").write_text(f"{RUN}{waiting}")
    process = checkout.start("--locked", "--update-lock")
    time.sleep(10)
    os.killpg(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert (130, "") == (process.returncode, errors.strip())
    assert before == checkout.lock.read_text()


def test_changed_verifier_executes_all_cases(checkout: Checkout) -> None:
    checkout.copy_tool()
    file = checkout.root / "tpulint/verify/values.py"
    file.write_text(f"{file.read_text()}\n# changed\n")
    assert checkout.verify("--locked") == 1
    assert checkout.executed == set(CASES)


def test_changed_rule_executes_the_cases_whose_fix_it_changes(checkout: Checkout) -> None:
    checkout.copy_tool()
    file = checkout.root / "rules/tpulint_rules/placement/cuda_method.py"
    assert '"jax"' in file.read_text()
    file.write_text(file.read_text().replace('"jax"', '"jax:0"'))
    checkout.verify("--locked")
    assert {"rule/first", "rule/second", "rule/third"} <= checkout.executed
