"""Programs of Accelerate and of transformers: several processes with gloo, and as many virtual devices.

They need the environment of `make verify-frameworks`, and are skipped without it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CASES = ROOT / "fixtures" / "device_chosen_by_library"
PYTHON = ROOT / ".venv-frameworks" / "bin" / "python"
#: By case: what makes the original compute on the host.
NAMES = {
    "accelerate_launch": ("Accelerator(", "Accelerator(cpu=True, "),
    "transformers_trainer": ("output_dir=", "use_cpu=True, output_dir="),
}


def _printed(command: list[str], folder: Path, **variables: str) -> list[str]:
    plain = {"JAX_PLATFORMS": "cpu", "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "runtime" / "src")}
    done = subprocess.run(
        [str(PYTHON), "-W", "ignore", *command],
        cwd=folder,
        env={**os.environ, **plain, **variables},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.mark.skipif(not PYTHON.exists(), reason="`make verify-frameworks` creates the environment")
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("name", NAMES)
def test_fixed_program_on_devices_prints_what_rank_0_of_processes_prints(
    name: str, count: int, tmp_path: Path
) -> None:
    original = tmp_path / "original.py"
    original.write_text((CASES / name / "before.py").read_text().replace(*NAMES[name]))
    launch = ["-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={count}"]
    options = ["--local-ranks-filter=0"]
    expected = _printed([*launch, *options, str(original)], tmp_path)
    flags = f"--xla_force_host_platform_device_count={count}"
    actual = _printed([str(CASES / name / "after.py")], tmp_path, XLA_FLAGS=flags)
    assert [line for line in expected if "Gloo" not in line] == actual
    assert len(actual) >= 10
