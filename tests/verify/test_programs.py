"""Cases that are whole programs."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tpulint.fixture import cases
from tpulint.verify import Result, State, exit_status, missing_packages, verify
from tpulint.verify.claims import Word
from tpulint.verify.program import of_reference, outcome
from tpulint.verify.recipe import Recipe, read
from tpulint.verify.record import Loss, Record
from tpulint.verify.record import State as Final
from tpulint.verify.script import Ended
from tpulint.verify.values import Array, Group, Tolerance

pytestmark = [
    pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed"),
    pytest.mark.xdist_group("programs"),  # one process for what all of them ask for
]

BEFORE = """\
import time
from pathlib import Path

import torch

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.arange(6.0).to(device)
print("read", Path("data.txt").read_text())
print(f"mean {(x / 7).mean().item():.7f} of {x.numel()}")
print(f"took {time.time()} s")
"""
AFTER = BEFORE.replace(
    "import torch\n", "import torch\nimport torchax\n\ntorchax.enable_globally()\n"
).replace('torch.device("cuda" if torch.cuda.is_available() else "cpu")', 'torch.device("jax")')
RUN = 'program = True\nignore_lines = ["^took "]\nclaim = {"eager": "host"}\n'


# What torch's own autograd follows on torchax, so that no fix is needed beside the device.
TRAINING = """\
import torch
from torch import nn

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Norm(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(size))
        self.register_buffer("mean", torch.zeros(size))

    def forward(self, x):
        self.mean = 0.9 * self.mean + 0.1 * x.mean(0).detach()
        return (x - x.mean(0)) * self.scale


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = Norm(3)
        self.first = nn.Parameter(torch.randn(3, 4))
        self.second = nn.Parameter(torch.randn(4, 1))

    def forward(self, x):
        return torch.tanh(self.norm(x) @ self.first) @ self.second


torch.manual_seed(0)
net = Net().to(device)
other = Net().to(device)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
data = torch.randn(64, 3)
target = data.sum(1, keepdim=True)
for step in range(12):
    x, y = data.to(device), target.to(device)
    loss = ((net(x) - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"after {step + 1} steps: {loss.item():.4f}")
"""
TRAINED = TRAINING.replace("from torch import nn\n", "import torchax\nfrom torch import nn\n").replace(
    'device = torch.device("cuda" if torch.cuda.is_available() else "cpu")',
    'torchax.enable_globally()\ndevice = torch.device("jax")',
)
TRAINING_RUN = "program = True\nlosses = 12\n"


def write(root: Path, name: str, recipe: str, before: str, after: str) -> None:
    folder = root / "programs" / name
    folder.mkdir(parents=True)
    (folder / "data.txt").write_text("data")
    for file, text in (("before.py", before), ("after.py", after), ("run.py", recipe)):
        (folder / file).write_text(text)


def run(root: Path, after: str, recipe: str = RUN, before: str = BEFORE) -> list[Result]:
    write(root, "case", recipe, before, after)
    return list(verify(cases(root), lambda case: case.after or case.before))


def test_a_correctly_fixed_program_is_verified(tmp_path: Path) -> None:
    rows = run(tmp_path, AFTER)
    assert [(row.stage, row.side, row.state) for row in rows] == [
        ("reference", "original", State.VERIFIED),
        ("eager", "original", State.VERIFIED),
        ("eager", "fixed", State.VERIFIED),
    ], rows
    assert rows[1].happened == "host: nothing ran on torchax"
    assert exit_status(rows) == 0


@pytest.mark.parametrize(
    ("after", "happened"),
    [
        (BEFORE.replace("x / 7", "x / 7 * 1"), "host: nothing ran on torchax"),
        (AFTER.replace("x / 7", "x / 8"), "differs: line 2 is"),
        (AFTER + "raise KeyError('late')\n", "raises KeyError: 'late'"),
        (
            AFTER + "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)\n",
            "crashes: the process died of SIGSEGV",
        ),
    ],
)
def test_a_wrongly_fixed_program_fails(tmp_path: Path, after: str, happened: str) -> None:
    rows = run(tmp_path, after, 'program = True\nignore_lines = ["^took "]\n')
    assert [row.state for row in rows] == [State.VERIFIED, State.FAILED]
    assert rows[1].happened.startswith(happened)


#: What is replaced in the fixed program, and what must come of it.
TRAINING_MUTANTS = {
    "right": ("", "", "equal: 1 lines, 12 losses, 8 tensors of state, "),
    "gradient": ("@ self.first", "@ self.first.detach()", "differs: loss 2 is"),
    "statistics": ("0.1 * x", "0.0 * x", r"differs: Net\[norm.mean\]\[0\] is 0.0, not"),
    "fewer_steps": ("range(12)", "range(11)", "differs: 11 losses, not 12"),
    "print": ("after {step", "after step {step", "differs: line 1 is"),
    "on_host": ('device("jax")', 'device("cpu")', "host: nothing ran on torchax"),
    "model_on_host": (
        'device("jax")',
        'device("cpu")\ntorch.ones(1, device="jax") + 1',
        r"host: Net\[first\] is a host tensor",
    ),
}


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    root = tmp_path_factory.mktemp("training")
    for name, (good, bad, _) in TRAINING_MUTANTS.items():
        assert good in TRAINED
        after = TRAINED.replace(good, bad) if good else TRAINED
        write(root, name, TRAINING_RUN, TRAINING, after)
    by_case: dict[str, list[Result]] = {name: [] for name in TRAINING_MUTANTS}
    for result in verify(cases(root), lambda case: case.after or case.before):
        by_case[result.case].append(result)
    return by_case


@pytest.mark.xdist_group("training")
@pytest.mark.parametrize("name", TRAINING_MUTANTS)
def test_training_is_verified_only_if_right(name: str, trained: dict[str, list[Result]]) -> None:
    happened = TRAINING_MUTANTS[name][-1]
    reference, fixed = trained[name]
    assert reference.state is State.VERIFIED
    assert re.search(happened, fixed.happened), fixed
    assert fixed.state is (State.VERIFIED if happened.startswith("equal") else State.FAILED)


def group(**values: list[float]) -> Group:
    return Group(
        "mapping", tuple((name, Array("host", "float32", np.array(v))) for name, v in values.items())
    )


def trained_to(*values: float, **other: list[float]) -> Ended:
    """A program whose one module was taken from 1, 1 to the values."""
    start = group(weight=[1.0, 1.0], mean=[0.0])
    net = Final("Net", group(weight=list(values), **{"mean": [0.5]} | other), start, frozenset({"weight"}))
    losses = tuple(Loss(1 / number, float(number)) for number in range(1, 13))
    return Ended(0, "done", "", Record(1, losses=losses, states=(net,)))


ANYTHING = Tolerance(rtol=10, atol=10)


@pytest.mark.parametrize(
    ("ended", "recipe", "happened"),
    [
        (trained_to(1.1, 1.2), Recipe(), "equal: 1 lines, 12 losses, 2 tensors of state, 1 operations"),
        (trained_to(1.1, 1.0), Recipe(), r"differs: Net\[weight\]\[1\] is 1.0, not 1.2"),
        (trained_to(1.1, 1.19), Recipe(tolerance=ANYTHING), "equal"),
        # No tolerance hides what training did not reach.
        (trained_to(1.0, 1.0), Recipe(tolerance=ANYTHING), r"differs: Net\[weight\] ends 0.22 from where"),
        (trained_to(1.1, 1.2, mean=[0.0]), Recipe(tolerance=ANYTHING), r"differs: Net\[mean\] ends 0.5"),
        (trained_to(1.1, 1.2, mean=[0.0]), Recipe(undetermined={"mean": "for once"}), "equal"),
        (trained_to(1.1, 1.2, more=[0.0]), Recipe(), "differs: Net holds 3 items"),
        (
            Ended(0, "done", "", replace(trained_to(1.1, 1.2).record, states=())),
            Recipe(),
            "are none, not Net",
        ),
    ],
)
def test_trained_parameters_are_compared(ended: Ended, recipe: Recipe, happened: str) -> None:
    assert re.search(happened, str(outcome(ended, trained_to(1.1, 1.2), recipe, set())))


@pytest.mark.parametrize(
    ("record", "happened"),
    [
        (trained_to(1.1, 1.2).record, "equal"),
        (Record(), "broken: 0 calls of `backward`, but run.py says 12"),
        (Record(losses=(Loss(float("nan"), 0.0),) * 12), "broken: a loss is infinite or not a number"),
        (Record(losses=(Loss(1.0, 0.0),) * 12), "broken: it trains nothing that is on an accelerator"),
    ],
)
def test_a_reference_without_finite_losses_on_the_device_is_broken(record: Record, happened: str) -> None:
    assert str(of_reference(Ended(0, "done", "", record), Recipe(losses=12))) == happened


def test_a_recipe_needs_ten_steps_and_a_reason_for_its_tolerance() -> None:
    with pytest.raises(ValueError, match="takes 10 steps or more, not 9"):
        read({"program": True, "losses": 9})
    with pytest.raises(ValueError, match="states the reason as `rounding`"):
        read({"program": True, "tolerance": {"rtol": 1}})


def test_a_program_folder_is_run_with_arguments_and_environment(tmp_path: Path) -> None:
    folder = tmp_path / "programs" / "case"
    (folder / "before" / "models").mkdir(parents=True)
    (folder / "before" / "models" / "net.py").write_text(TRAINING.partition("torch.manual_seed")[0])
    main = """\
import os, sys
import torch
import torch.distributed as dist
from models.net import Net, device

dist.init_process_group("nccl")
print(sys.argv[1:], os.environ["LOCAL_RANK"], dist.get_world_size())
net = torch.nn.parallel.DistributedDataParallel(Net().cuda(), device_ids=[0], output_device=0)
for _ in range(10):
    net(torch.ones(2, 3).cuda()).sum().backward()
dist.destroy_process_group()
"""
    (folder / "before" / "train.py").write_text(main)
    (folder / "run.py").write_text(
        'program = True\nmodule = "train"\narguments = ["--epochs", 3]\nlosses = 10\n'
        'environment = {"RANK": 0, "LOCAL_RANK": 0, "WORLD_SIZE": 1}\n'
        'environment |= {"MASTER_ADDR": "localhost", "MASTER_PORT": 0}\n'
        'claim = {"eager": "raises RuntimeError"}\n'
    )
    rows = list(verify(cases(tmp_path), lambda case: case.before))
    assert [(row.stage, row.happened, row.state) for row in rows] == [
        ("reference", "runs", State.VERIFIED),
        ("eager", "raises RuntimeError: Distributed package doesn't have NCCL built in", State.VERIFIED),
    ]


@pytest.mark.parametrize(
    ("printed", "word"),
    [
        ("mean 1.000004 of 3\nx", Word.EQUAL),
        ("mean 1.0001 of 3\nx", Word.DIFFERS),
        ("mean 1.000001 of 4\nx", Word.DIFFERS),
        ("mean 1 of 3\nx", Word.EQUAL),
        ("mean nan of 3\nx", Word.DIFFERS),
        ("mean 1.000001 of 3\ny", Word.DIFFERS),
        ("mean 1.000001 of 3", Word.DIFFERS),
        ("took 3 s\nmean 1.000001 of 3\nx", Word.EQUAL),
        ("took 3 s", Word.NOTHING),
    ],
)
def test_printed_numbers_are_compared_as_numbers(printed: str, word: Word) -> None:
    recipe = Recipe(program=True, ignore_lines=("^took",))
    reference = Ended(0, "mean 1.000001 of 3\nx\ntook 1 s", "")
    assert outcome(Ended(0, printed, "", Record(operations=1)), reference, recipe, set()).word is word
