"""Programs that run in a fork of verify's server end as they would in an interpreter of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tpulint.verify import missing_packages
from tpulint.verify.script import Ended, Launch, Script
from tpulint.verify.zygote import Zygote

pytestmark = [
    pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed"),
    pytest.mark.xdist_group("server"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[Zygote]:
    zygote = Zygote({**os.environ, "JAX_PLATFORMS": "cpu", "PYTHONPATH": str(Path(__file__).parents[2])})
    yield zygote
    zygote.close()


def run(server: Zygote, folder: Path, text: str, timeout: float = 60.0, **environment: str) -> Ended:
    (folder / "program").mkdir()
    (folder / "program" / "main.py").write_text(text)
    script = Script("torchax", folder / "program", "main.py", folder / "record", ("-x", "1"), environment)
    return server.run_script(script, timeout)


@pytest.mark.parametrize(
    ("text", "status"),
    [
        ("x = 1", 0),
        ("import sys; sys.exit()", 0),
        ("import sys; sys.exit(3)", 3),
        ("import sys; sys.exit(-1)", 255),
        ("import sys; sys.exit('no data')", 1),
        ("raise KeyError('data')", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", -11),
    ],
)
def test_exit_code_is_that_of_python(server: Zygote, tmp_path: Path, text: str, status: int) -> None:
    assert run(server, tmp_path, text).status == status


def test_program_sees_its_own_folder_arguments_and_environment(server: Zygote, tmp_path: Path) -> None:
    text = (
        "import os, sys\nimport helper\n"
        "print(__name__, sys.argv, os.environ['RANK'], os.getcwd() == os.path.dirname(helper.__file__))\n"
        "print(sys.stdin.read())\n"
    )
    (tmp_path / "program").mkdir()
    (tmp_path / "program" / "helper.py").touch()
    (tmp_path / "program" / "main.py").write_text(text)
    script = Script("torchax", tmp_path / "program", "main.py", tmp_path / "record", ("-x",), {"RANK": "0"})
    ended = server.run_script(script, 60)
    assert ended.printed == "__main__ ['main.py', '-x'] 0 True\n\n", ended.errors


def test_stdout_and_stderr_are_captured_separately(server: Zygote, tmp_path: Path) -> None:
    ended = run(
        server,
        tmp_path,
        "import os, sys\nprint('out')\nprint('err', file=sys.stderr)\nos.system('echo sub')\n",
    )
    assert sorted(ended.printed.split()) == ["out", "sub"]
    assert ended.errors == "err\n"


def test_message_of_sys_exit_and_traceback_go_to_standard_error(server: Zygote, tmp_path: Path) -> None:
    assert run(server, tmp_path, "import sys; sys.exit('no data')").errors == "no data\n"


def test_threads_are_waited_for_and_exit_handlers_run(server: Zygote, tmp_path: Path) -> None:
    text = (
        "import atexit, threading, time\natexit.register(print, 'handler')\n"
        "threading.Thread(target=lambda: (time.sleep(0.2), print('thread'))).start()\nprint('main')\n"
    )
    assert run(server, tmp_path, text).printed == "main\nthread\nhandler\n"


def test_program_that_does_not_end_has_no_status(server: Zygote, tmp_path: Path) -> None:
    ended = run(server, tmp_path, "print('begun', flush=True)\nwhile True: pass\n", timeout=3.0)
    assert (ended.status, ended.printed) == (None, "begun\n")


def test_unseeded_numbers_differ_between_runs(server: Zygote, tmp_path: Path) -> None:
    text = "import random, numpy\nprint(random.random(), numpy.random.rand())\n"
    runs = []
    for name in "ab":
        (tmp_path / name).mkdir()
        runs.append(run(server, tmp_path / name, text).printed.split())
    assert runs[0][0] != runs[1][0]
    assert runs[0][1] != runs[1][1]


def test_fork_and_fresh_interpreter_give_the_same_result(server: Zygote, tmp_path: Path) -> None:
    text = """\
import torch
from torch.utils.data import DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
torch.manual_seed(0)
net = torch.nn.Linear(3, 1).to(device)
for batch in DataLoader(torch.randn(8, 3), batch_size=4, num_workers=1):
    loss = net(batch.to(device)).pow(2).mean()
    loss.backward()
    print(device, loss.item())
"""
    (tmp_path / "main.py").write_text(text)
    script = Script("reference", tmp_path, "main.py", tmp_path / "record")
    forked = server.run_script(script, 120)
    fresh = Launch({**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}, 120).reference(
        tmp_path, "main.py"
    )
    assert (forked.status, forked.printed) == (0, fresh.printed), forked.errors
    assert [loss.value for loss in forked.record.losses] == [loss.value for loss in fresh.record.losses]
    assert len(forked.record.losses) == 2
    assert [state.on_accelerator for state in forked.record.states] == [
        state.on_accelerator for state in fresh.record.states
    ]
