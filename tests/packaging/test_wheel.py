from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.dev.test_readme import MNIST, block, side
from tpulint import __version__
from tpulint.registry import rules

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]


def test_the_wheel_holds_the_two_packages_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    expected = {
        path.relative_to(root).as_posix()
        for root, package in [(ROOT, "tpulint"), (ROOT / "rules", "tpulint_rules")]
        for path in (root / package).rglob("*")
        if path.suffix in (".py", ".j2") or path.name == "py.typed"
    }
    info = f"tpulint-{__version__}.dist-info"
    assert expected == {name for name in names if not name.startswith(f"{info}/")}
    assert {"tpulint/py.typed", "tpulint_rules/py.typed"} <= names


def test_an_installed_linter_finds_its_rules_and_needs_no_torch(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", str(environment)], check=True)
    python, command = environment / "bin" / "python", environment / "bin" / "tpulint"
    pip = [str(python), "-m", "pip", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "install", str(wheel)], check=True)
    (tmp_path / "model.py").write_text("import torch\n\nx = torch.zeros(2).cuda()\n")

    def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if not key.startswith("PYTHON")}
        return subprocess.run(
            arguments, cwd=tmp_path, env=clean, capture_output=True, text=True, check=False, timeout=120
        )

    assert 1 == run(python, "-c", "import torch").returncode
    listed = json.loads(run(command, "rules", "--output-format", "json").stdout)
    own = [rule.code for rule in rules() if rule.module.startswith("tpulint_rules.")]
    assert own == [row["code"] for row in listed]
    checked = run(command, "check", "--output-format", "json", "model.py")
    assert (1, "") == (checked.returncode, checked.stderr)
    assert "TPU101" in [finding["code"] for finding in json.loads(checked.stdout)]
    fixed = run(command, "fix", "--unsafe-fixes", "--diff", "--quiet", "model.py")
    assert (1, "") == (fixed.returncode, fixed.stderr)
    assert '+x = torch.zeros(2).to("jax")' in fixed.stdout


def test_wheel_of_the_runtime_holds_the_package_with_its_tables(runtime_wheel: Path) -> None:
    with zipfile.ZipFile(runtime_wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
    source = ROOT / "runtime" / "src"
    files = (path for path in source.rglob("*") if path.suffix in (".py", ".json") or path.name == "py.typed")
    assert {path.relative_to(source).as_posix() for path in files} == names


def test_example_of_the_readme_runs_with_both_wheels(
    wheel: Path, runtime_wheel: Path, tmp_path: Path
) -> None:
    pytest.importorskip("torchax")
    packages, project = tmp_path / "packages", tmp_path / "project"
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    target = ["--no-deps", "--target", str(packages)]
    subprocess.run([*pip, "install", *target, str(wheel), str(runtime_wheel)], check=True)
    project.mkdir()
    (project / "mnist.py").write_text(MNIST)
    (project / "train.py").write_text(side(block("diff"), "+") + "print(loss.item())\n")
    (project / "requirements.txt").write_text("torch\n")

    def run(*arguments: str) -> str:
        ended = subprocess.run(
            [sys.executable, *arguments],
            cwd=project,
            env={**os.environ, "PYTHONPATH": str(packages), "JAX_PLATFORMS": "cpu"},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
        return ended.stdout

    run("-m", "tpulint", "fix", "--unsafe-fixes", ".")
    assert (project / "requirements.txt").read_text() == "torch\ntorchax-compat>=0.1\n"
    assert str(packages) in run("-c", "import torchax_compat; print(torchax_compat.__file__)")
    assert 0 < float(run("train.py")) < 10
