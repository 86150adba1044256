"""Fixes that were broken on purpose, and false claims: verify must tell them from the right ones."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from tpulint.fixture import cases
from tpulint.verify import (
    Options,
    Result,
    State,
    case_state,
    case_states,
    exit_status,
    missing_packages,
    verify,
)
from tpulint.verify.claims import Claim, Outcome, Word

pytestmark = [
    pytest.mark.skipif(bool(missing_packages()), reason="tpulint[verify] is not installed"),
    pytest.mark.slow,
    pytest.mark.xdist_group("mutations"),  # one process for what all of them ask for
]

DOUBLE = "return x.cuda() * 2"
RAISES_EAGER = 'claim = {"eager": "raises AssertionError: CUDA"}\n'
RAISES = 'traced = True\nclaim = {"eager": "raises AssertionError", "jit": "raises AssertionError"}\n'
EQUAL = 'traced = True\nclaim = {"eager": "equal", "jit": "equal"}\n'
ON_HOST = 'inputs_on_host = True\nclaim = {"eager": "host"}\n'
INPUTS = "import torch\ndef inputs():\n    return (torch.randn(3, 4),)\n"
CUDA = RAISES_EAGER + INPUTS
SQUARE = "import torch\ndef inputs():\n    return (torch.diag(torch.tensor([1.0, 2.0, 3.0])),)\n"


@dataclass(frozen=True)
class Mutant:
    """A case: the body of `f(x)` before and after, run.py, and where it must fail with which words.

    `fails` None says that all of it must be verified.
    """

    before: str
    after: str | None
    run: str
    fails: tuple[str, str, str] | None


def fixed(happened: str) -> tuple[str, str, str]:
    return ("eager", "fixed", happened)


def original(happened: str) -> tuple[str, str, str]:
    return ("eager", "original", happened)


MUTANTS = {
    # What is right is verified.
    "right": Mutant(DOUBLE, 'return x.to("jax") * 2', RAISES + INPUTS, None),
    "right_and_unchanged": Mutant("return x * 2", None, EQUAL + INPUTS, None),
    "right_on_host_data": Mutant(
        'return x.to("cuda" if torch.cuda.is_available() else "cpu") * 2',
        'return x.to("jax") * 2',
        ON_HOST + INPUTS,
        None,
    ),
    "right_with_64_bit": Mutant(
        DOUBLE, "return x * 2", RAISES_EAGER + "import torch\ndef inputs(): return (torch.arange(5),)\n", None
    ),
    "right_with_a_module": Mutant(
        "return MODEL(x.cuda())",
        "return MODEL(x)",
        RAISES
        + "import torch\ndef inputs(): return torch.nn.Linear(4, 2), torch.randn(3, 4)\n"
        + "def call(module, model, x):\n    module.MODEL = model\n    return module.f(x)\n",
        None,
    ),
    "right_number_as_tensor": Mutant(
        "return x.sum().item()",
        "return x.sum()",
        'traced = True\nclaim = {"eager": "equal", "jit": "raises ConcretizationTypeError"}\n'
        'tolerance = {"atol": 1e-4}\n' + INPUTS,
        None,
    ),
    "right_with_round_trip": Mutant(
        DOUBLE, 'return (x.cpu() * 2).to("jax")', CUDA + 'round_trip = "by design"\n', None
    ),
    "right_crash": Mutant(
        "return _crash() if 'torchax' in sys.modules else x",
        "return x + 0",
        'claim = {"eager": "crashes"}\n' + INPUTS,
        None,
    ),
    "right_moves_of_data_born_on_the_host": Mutant(
        "return torch.stack([row.cuda() for row in x * 2])",
        'return torch.stack([row.to("jax") for row in x * 2])',
        "inputs_on_host = True\n" + CUDA,
        None,
    ),
    "right_with_a_round_trip_of_the_users_own": Mutant(
        "return torch.sigmoid((x.cpu() * 2).cuda())",
        'return torch.sigmoid((x.cpu() * 2).to("jax"))',
        CUDA,
        None,
    ),
    # What is wrong is not.
    "wrong_value": Mutant(DOUBLE, "return x * 3", CUDA, fixed(r"is .*, not ")),
    "wrong_dtype": Mutant(DOUBLE, "return (x * 2).half()", CUDA, fixed("dtype float16, not float32")),
    "wrong_shape": Mutant(DOUBLE, "return (x * 2)[None]", CUDA, fixed(r"shape \(1, 3, 4\)")),
    "wrong_container": Mutant(DOUBLE, "return [x * 2]", CUDA, fixed("sequence")),
    "still_on_host": Mutant(DOUBLE, "return x.cpu() * 2", CUDA, fixed("host tensor")),
    "round_trip": Mutant(DOUBLE, 'return (x.cpu() * 2).to("jax")', CUDA, fixed("computed on the host")),
    "round_trip_through_numpy": Mutant(
        DOUBLE,
        'return torch.from_numpy(x.numpy() * 2).to("jax")',
        CUDA,
        fixed("computed on the host"),
    ),
    "round_trip_through_lists": Mutant(
        DOUBLE,
        'return torch.tensor([[2 * v for v in row] for row in x.tolist()], device="jax")',
        CUDA,
        fixed("computed on the host"),
    ),
    "round_trip_through_a_scalar": Mutant(
        "return x.cuda() * x.mean()",
        "return x * torch.tensor(x.mean().item())",
        CUDA + 'tolerance = {"atol": 1e-4}\n',
        fixed("computed on the host"),
    ),
    "computed_before_the_move": Mutant(
        'return x.to("cuda" if torch.cuda.is_available() else "cpu") * 2',
        'return (x * 2).to("jax")',
        ON_HOST + INPUTS,
        fixed("computed on the host"),
    ),
    "still_raising": Mutant(DOUBLE, "return x.cuda() * 2.0", CUDA, fixed("raises AssertionError")),
    "runs_nothing": Mutant("return x.cuda()", "return x", CUDA, fixed("nothing ran on torchax")),
    "returns_none": Mutant(DOUBLE, "x * 2", CUDA, fixed("None, not a tensor")),
    "nothing_to_compare": Mutant("x.cuda()", "x * 2", CUDA, ("reference", "original", "nothing")),
    "frozen_by_the_trace": Mutant(
        "return x.cuda() * STEP[0]",
        "return x * STEP[0]",
        RAISES + INPUTS + "def call(module, x):\n    module.STEP[0] += 1\n    return module.f(x)\n",
        ("jit", "fixed", "second call"),
    ),
    "not_traceable": Mutant(
        "return x.cuda() * x.max().item()",
        "return x * x.max().item()",
        RAISES + INPUTS,
        ("jit", "fixed", "raises ConcretizationTypeError"),
    ),
    "not_for_tpu": Mutant(
        "return torch.linalg.eigvals(x.cuda()).abs().sum()",
        "return torch.linalg.eigvals(x).abs().sum()",
        RAISES + SQUARE,
        ("tpu v5e:2x2", "fixed", "raises "),
    ),
    "breaks_on_import": Mutant(
        DOUBLE, "return x * 2\nraise KeyError('gone')", CUDA, fixed("raises KeyError")
    ),
    "does_not_parse": Mutant(DOUBLE, "return (", CUDA, fixed("raises SyntaxError")),
    "segmentation_fault": Mutant(DOUBLE, "return _crash()", CUDA, fixed("SIGSEGV")),
    "quits_in_silence": Mutant(DOUBLE, "os._exit(0)", CUDA, fixed("ended by itself with status 0")),
    "exits": Mutant(DOUBLE, "sys.exit(0)", CUDA, fixed("raises SystemExit")),
    "prints_without_end": Mutant(
        DOUBLE,
        "while True:\n        print('x' * 2**24)",
        CUDA,
        fixed("raises OSError"),
    ),
    # False claims about the original.
    "claims_raises_but_works": Mutant("return x * 2", None, CUDA, original("equal")),
    "claims_another_exception": Mutant(
        DOUBLE, "return x * 2", 'claim = {"eager": "raises ValueError"}\n' + INPUTS, original("Assertion")
    ),
    "claims_another_message": Mutant(
        DOUBLE,
        "return x * 2",
        'claim = {"eager": "raises AssertionError: no driver"}\n' + INPUTS,
        original("Assertion"),
    ),
    "claims_differs_but_equal": Mutant(
        "return x * 2", None, 'claim = {"eager": "differs"}\n' + INPUTS, original("equal")
    ),
    "claims_equal_but_on_host": Mutant(
        "return x.cpu() * 2", None, 'claim = {"eager": "equal"}\n' + INPUTS, original("host")
    ),
    "claims_nothing_of_jit": Mutant(
        "return x * 2",
        None,
        'traced = True\nclaim = {"eager": "equal"}\n' + INPUTS,
        ("jit", "original", "equal"),
    ),
    "claims_an_unknown_word": Mutant(
        "return x * 2",
        None,
        'claim = {"eager": "breaks"}\n' + INPUTS,
        ("run.py", "original", "none of: equal"),
    ),
    "recipe_raises": Mutant("return x * 2", None, "1 / 0\n", ("run.py", "original", "ZeroDivisionError")),
    "inputs_raise": Mutant(
        "return x * 2",
        None,
        EQUAL + "def inputs(): return 1 / 0\n",
        ("reference", "original", "ZeroDivisionError"),
    ),
    "reference_raises": Mutant(
        "return x @ x", None, EQUAL + INPUTS, ("reference", "original", "RuntimeError")
    ),
}

HEAD = """\
import os, signal, sys
import torch

STEP = [0]


def _crash():
    os.kill(os.getpid(), signal.SIGSEGV)


def f(x):
    """


def write(folder: Path, mutant: Mutant) -> None:
    folder.mkdir(parents=True)
    (folder / "before.py").write_text(HEAD + mutant.before + "\n")
    if mutant.after is not None:
        (folder / "after.py").write_text(HEAD + mutant.after + "\n")
    (folder / "run.py").write_text(mutant.run)


def run(root: Path, **options: object) -> list[Result]:
    chosen = Options(tpus=("v5e:2x2",), **options)  # type: ignore[arg-type]
    return list(verify(cases(root), lambda case: case.after or case.before, chosen))


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    """All mutants in one run, since one server does for all."""
    root = tmp_path_factory.mktemp("fixtures")
    for name, mutant in MUTANTS.items():
        write(root / "mutants" / name, mutant)
    by_case: dict[str, list[Result]] = {name: [] for name in MUTANTS}
    for result in run(root):
        by_case[result.case].append(result)
    return by_case


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.fails is None])
def test_correct_fixes_are_verified(name: str, results: dict[str, list[Result]]) -> None:
    assert [row for row in results[name] if row.state is not State.VERIFIED] == []
    assert case_state(results[name]) is State.VERIFIED


@pytest.mark.parametrize("name", [name for name, mutant in MUTANTS.items() if mutant.fails is not None])
def test_wrong_fixes_fail_at_the_expected_stage(name: str, results: dict[str, list[Result]]) -> None:
    fails = MUTANTS[name].fails
    assert fails is not None
    stage, side, happened = fails
    failed = [row for row in results[name] if row.state is State.FAILED]
    assert [(row.stage, row.side) for row in failed][:1] == [(stage, side)], results[name]
    assert re.search(happened, failed[0].happened), failed[0]
    assert case_state(results[name]) is State.FAILED
    assert exit_status(results[name]) == 1


def test_narrowing_to_32_bits_is_a_note(results: dict[str, list[Result]]) -> None:
    (row,) = [row for row in results["right_with_64_bit"] if row.side == "fixed"]
    assert row.notes == ("int64 became int32 (torchax's default)",)


def test_a_traced_fix_is_compiled_for_tpu(results: dict[str, list[Result]]) -> None:
    stages = [(row.stage, row.side) for row in results["right"]]
    assert ("tpu v5e:2x2", "fixed") in stages
    assert "TPU v5" in next(row.happened for row in results["right"] if row.stage.startswith("tpu"))


def test_a_hang_is_a_failed_row(tmp_path: Path) -> None:
    write(tmp_path / "mutants" / "hangs", Mutant(DOUBLE, "while True: pass", CUDA, None))
    rows = run(tmp_path, timeout=10.0)
    (failed,) = [row for row in rows if row.state is State.FAILED]
    assert (failed.stage, failed.side) == ("eager", "fixed")
    assert failed.happened == "hangs: no end within 10 s"


def test_a_fix_that_raises_is_a_failed_row(tmp_path: Path) -> None:
    write(tmp_path / "mutants" / "case", MUTANTS["right"])

    def fix(_: object) -> dict[str, str]:
        raise LookupError("no such rule")

    (row,) = verify(cases(tmp_path), fix)
    assert (row.state, row.happened) == (State.FAILED, "raises LookupError: no such rule")


def test_cases_that_are_not_executed_are_not_verified(tmp_path: Path) -> None:
    write(tmp_path / "rule" / "stated", Mutant("return x", None, 'not_executed = "needs two GPUs"\n', None))
    write(tmp_path / "rule" / "without", MUTANTS["right"])
    (tmp_path / "rule" / "without" / "run.py").unlink()
    rows = run(tmp_path)
    assert [(row.case, row.state, row.happened) for row in rows] == [
        ("stated", State.NOT_RUN, "needs two GPUs"),
        ("without", State.NOT_RUN, "no run.py"),
    ]
    assert exit_status(rows) == 2
    assert exit_status([]) == 2


def torchvision_loads() -> bool:
    code = "import torchvision.io.image as image; assert image._has_image_ops()"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, check=False).returncode == 0


def test_a_case_run_with_the_torchvision_stand_in_is_not_verified(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if importlib.util.find_spec("torchvision") is None or torchvision_loads():
        pytest.skip("torchvision is not installed, or its own operators load")
    monkeypatch.setenv("TPULINT_TORCHVISION_DECODERS", "stand-in")
    before = "from torchvision.io import read_file\n    return read_file('data.bin').sum() + x"
    after = "import numpy as np\n    return torch.from_numpy(np.fromfile('data.bin', np.uint8)).sum() + x"
    recipe = (
        'claim = {"eager": "crashes"}\nimport os, torch\nfrom pathlib import Path\n'
        "def inputs(): return (torch.zeros(2),)\n"
        "def call(module, x):\n    os.chdir(Path(module.__file__).parent)\n    return module.f(x)\n"
    )
    for name, fix in (("fixed", after), ("left", before + " * 1"), ("unfixed", None)):
        write(tmp_path / "rule" / name, Mutant(before, fix, recipe, None))
        (tmp_path / "rule" / name / "data.bin").write_bytes(b"data")
    rows = run(tmp_path)
    found = [(row.case, row.stage, row.side, row.state) for row in rows if row.stage != "reference"]
    assert found == [
        ("fixed", "eager", "original", State.NOT_RUN),
        ("fixed", "eager", "fixed", State.VERIFIED),
        ("left", "eager", "original", State.NOT_RUN),
        ("left", "eager", "fixed", State.FAILED),
        ("unfixed", "eager", "original", State.NOT_RUN),
    ], rows
    assert list(case_states(rows).values()) == [State.VERIFIED, State.FAILED, State.NOT_RUN]


def test_outcomes_show_only_the_first_line_of_an_error_message() -> None:
    raised = Outcome(Word.RAISES, "first\n\nsecond", "ValueError")
    assert str(raised) == "raises ValueError: first"
    assert Claim(Word.RAISES, "ValueError", "second").holds(raised)
