from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("packaging")]

CUDA = "import torch\n\nx = torch.zeros(2).cuda()\n"
PreCommit = Callable[..., subprocess.CompletedProcess[str]]


def git(folder: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "init.defaultBranch=main")
    outcome = subprocess.run(
        ["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True
    )
    return outcome.stdout.strip()


@pytest.fixture(scope="module")
def pre_commit(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> PreCommit:
    """Runs hooks by name on the files of a scratch repository whose hooks come from these sources."""
    home = tmp_path_factory.mktemp("home")
    git(sources, "init", "--quiet")
    git(sources, "add", "--all", "--force", ".")
    git(sources, "commit", "--quiet", "--message", "sources")
    revision = git(sources, "rev-parse", "HEAD")

    def run(folder: Path, hook: str) -> subprocess.CompletedProcess[str]:
        (folder / ".pre-commit-config.yaml").write_text(
            f"repos:\n- repo: {sources.as_uri()}\n  rev: {revision}\n  hooks:\n  - id: {hook}\n"
        )
        if not (folder / ".git").exists():
            git(folder, "init", "--quiet")
        git(folder, "add", "--all")
        # Only what the hooks' own environment holds may count.
        clean = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "GIT_"))}
        return subprocess.run(
            [sys.executable, "-m", "pre_commit", "run", "--all-files", "--color", "never"],
            cwd=folder,
            env={**clean, "PRE_COMMIT_HOME": str(home)},
            capture_output=True,
            text=True,
            check=False,
            timeout=300,
        )

    return run


def test_the_check_hook_fails_on_findings_and_passes_without(pre_commit: PreCommit, tmp_path: Path) -> None:
    (tmp_path / "notes.md").write_text("no Python here\n")
    outcome = pre_commit(tmp_path, "tpulint")
    assert (0, True) == (outcome.returncode, "Skipped" in outcome.stdout), outcome.stdout + outcome.stderr
    (tmp_path / "model.py").write_text(CUDA)
    outcome = pre_commit(tmp_path, "tpulint")
    assert 1 == outcome.returncode
    assert "model.py:3:5: TPU101 cuda-method" in outcome.stdout
    (tmp_path / "pyproject.toml").write_text('[tool.tpulint]\nextend-exclude = ["model.py"]\n')
    outcome = pre_commit(tmp_path, "tpulint")
    assert (0, True) == (outcome.returncode, "Passed" in outcome.stdout), outcome.stdout + outcome.stderr


def test_the_fix_hook_rewrites_and_then_passes(pre_commit: PreCommit, tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.tpulint]\nselect = ["TPU101"]\n')
    entered = f"import torchax\n\ntorchax.enable_globally()\n{CUDA}"
    (tmp_path / "model.py").write_text(entered)
    outcome = pre_commit(tmp_path, "tpulint-fix")
    assert 1 == outcome.returncode
    assert "files were modified by this hook" in outcome.stdout
    assert entered.replace(".cuda()", '.to("jax")') == (tmp_path / "model.py").read_text()
    outcome = pre_commit(tmp_path, "tpulint-fix")
    assert (0, True) == (outcome.returncode, "Passed" in outcome.stdout), outcome.stdout + outcome.stderr
