"""`make accelerator-benchmark`: its table, what it skips, and a whole run on the CPU."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.accelerator import measure
from benchmarks.accelerator.measure import PROGRAMS, Devices, Run

CPU = Devices("cpu", cuda=False, card="cpu", count=1)
TPU = Devices("tpu", cuda=False, card="TPU v5 lite", count=8)
NO_CUDA = Run(reason="no CUDA")


def row(*runs: Run) -> list[str]:
    """The cells of a program's row after its title and sizes, for runs in the order of the columns."""
    found = dict(zip(measure.COLUMNS, runs, strict=True))
    _, _, line = measure.table(PROGRAMS[:1], {"gpt": found}, on_cpu=False)
    return [cell.strip() for cell in line.strip("|").split("|")][2:]


def test_row_has_times_ratios_and_the_largest_difference_of_losses() -> None:
    original, compiled = Run(50.0, {9: 2.0, 19: 1.5}), Run(40.0, {9: 2.0, 19: 1.5})
    by_hand, fixed = Run(25.0, {9: 2.0, 19: 1.25}), Run(75.0, {9: 2.125, 19: 1.5})
    cells = row(original, compiled, by_hand, fixed)
    assert ["50.0", "40.0", "25.0", "75.0", "1.50", "3.00", "2.5e-01"] == cells


def test_skipped_and_failed_runs_have_no_ratios() -> None:
    cells = row(NO_CUDA, NO_CUDA, Run(25.0, {9: 2.0}), Run(reason="failed"))
    assert ["no CUDA", "no CUDA", "25.0", "failed", "–", "–", "–"] == cells


def test_sizes_of_the_environment_are_used_and_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BATCH", "3")
    monkeypatch.setenv("VOCABULARY", "99")
    sizes = measure.sizes_of(PROGRAMS[1], on_cpu=False)
    assert {**measure.PROGRAMS[1].sizes, "BATCH": "3", "VOCABULARY": "99"} == sizes
    assert sizes["BF16"] == "1"


def test_originals_are_skipped_without_cuda_and_the_rest_when_the_time_is_used_up(tmp_path: Path) -> None:
    found = measure.measure(PROGRAMS[:1], tmp_path, TPU, seconds=0, on_cpu=False)
    reasons = {column: run.reason for column, run in found["gpt"].items()}
    assert reasons == {
        "fixed": "no time left",
        "JAX by hand": "no time left",
        "CUDA": "no CUDA",
        "torch.compile": "no CUDA",
    }


def test_failed_program_is_a_cell_and_its_error_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    found = measure.run([sys.executable, "-c", "raise SystemExit('no memory')"], {}, seconds=60)
    assert Run(reason="failed") == found
    assert "no memory" in capsys.readouterr().err


def test_without_an_accelerator_one_line_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(measure, "find_devices", lambda: CPU)
    measure.main([])
    assert capsys.readouterr().out == "JAX finds no accelerator here, only the CPU: nothing was measured\n"


def test_unknown_program_is_a_usage_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        measure.main(["bert"])
    assert "the programs are gpt, gpt-bf16, resnet, unet" in capsys.readouterr().err


def test_fixed_programs_have_no_findings_and_compile_their_steps(tmp_path: Path) -> None:
    measure.fix_programs(tmp_path, any_versions=True)
    command = [sys.executable, "-m", "tpulint", "check", "--isolated", str(tmp_path)]
    subprocess.run(command, check=True)
    for path in sorted(tmp_path.glob("*.py")):
        text = path.read_text("utf-8")
        assert "torchax_compat.enable(force=True)" in text
        assert "@differentiable" in text
        assert "compile_optimizer(" in text


@pytest.mark.slow
def test_all_versions_run_on_the_cpu_with_equal_losses(tmp_path: Path) -> None:
    pytest.importorskip("optax")
    target = tmp_path / "table.md"
    measure.main(["gpt", "--on-cpu", "--markdown", str(target)])
    *_, line = target.read_text("utf-8").splitlines()
    *times, _, _, difference = [cell.strip() for cell in line.strip("|").split("|")][2:]
    assert all(float(cell) > 0 for cell in times)
    assert float(difference) <= 1e-4
