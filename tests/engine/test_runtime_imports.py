"""What fixes change for the runtime: an import and one call, and no other file."""

from __future__ import annotations

from pathlib import Path

from tpulint.engine.cache import MemoryCache
from tpulint.engine.fix import FixResult, fix_units
from tpulint.engine.run import as_units
from tpulint.settings import Settings

STEP = """\
import torch


def step(model, x):
    optimizer = torch.optim.SGD(model.to("cuda").parameters(), lr=0.1)
    optimizer.zero_grad()
    loss = model(x).sum()
    loss.backward()
    optimizer.step()
"""
MAIN = """\
import torch
from pkg.inner.step import step

if __name__ == "__main__":
    step(torch.nn.Linear(2, 2), torch.ones(2, device="cuda"))
"""
FILES = {"main.py": MAIN, "pkg/__init__.py": "", "pkg/inner/__init__.py": "", "pkg/inner/step.py": STEP}


def changed(root: Path, files: dict[str, str], *, keep_gpu: bool = False) -> dict[str, str]:
    """What fixing makes of files that lie below a folder."""
    result = fixed(root, files, keep_gpu=keep_gpu)
    return {Path(change.path).relative_to(root).as_posix(): change.after for change in result.changes}


def fixed(root: Path, files: dict[str, str], *, keep_gpu: bool = False) -> FixResult:
    """What fixing files comes to that lie below a folder."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    units = as_units({str(root / name): text.encode() for name, text in files.items()})
    settings = Settings(root=root, keep_gpu=keep_gpu)
    result = fix_units(units, settings, jobs=1, cache=MemoryCache(), unsafe=True)
    assert result.errors == []
    return result


def test_only_the_files_of_the_program_change(tmp_path: Path) -> None:
    after = changed(tmp_path, FILES)
    assert {"main.py", "pkg/inner/step.py"} == set(after)
    assert "from torchax_compat import compile_optimizer, differentiable\n" in after["pkg/inner/step.py"]


def test_program_enters_the_environment_through_the_runtime_once(tmp_path: Path) -> None:
    after = changed(tmp_path, FILES)
    assert "import torchax_compat\n" in after["main.py"]
    assert 1 == sum(text.count("torchax_compat.enable()") for text in after.values())
    assert not any("enable_globally" in text for text in after.values())


def test_findings_that_the_runtime_fixes_are_not_left(tmp_path: Path) -> None:
    counted = f"{STEP}    return torch.nn.functional.one_hot(torch.arange(5), 5)\n"
    result = fixed(tmp_path, {"pkg/__init__.py": "", "pkg/inner/step.py": counted})
    assert [] == [finding.code for finding in result.remaining]


def test_runtime_is_enabled_without_cuda_alone_where_the_gpu_is_kept(tmp_path: Path) -> None:
    after = changed(tmp_path, FILES, keep_gpu=True)
    guarded = "if not torch.cuda.is_available():\n    import torchax_compat\n\n    torchax_compat.enable()\n"
    assert guarded in after["main.py"].replace("torchax_compat\n    torchax", "torchax_compat\n\n    torchax")
    assert "\nfrom torchax_compat import compile_optimizer, differentiable\n" in after["pkg/inner/step.py"]


def test_program_that_enters_torchax_itself_gets_the_runtime(tmp_path: Path) -> None:
    end = "print(torch.ones(2, device='jax'))\n"
    entered = f"import torch\nimport torchax\n\ntorchax.enable_globally()\n{end}"
    expected = f"import torch\nimport torchax_compat\n\ntorchax_compat.enable()\n{end}"
    assert {"main.py": expected} == changed(tmp_path, {"main.py": entered})


def test_program_that_leaves_the_environment_leaves_it_through_the_runtime(tmp_path: Path) -> None:
    body = "    try:\n        print(torch.ones(2, device='jax'))\n    finally:\n"
    entered = f"import torch\nimport torchax\n\n\ndef f():\n    torchax.enable_globally()\n{body}"
    after = changed(tmp_path, {"main.py": f"{entered}        torchax.disable_globally()\n\n\nf()\n"})
    assert f"    torchax_compat.enable()\n{body}        torchax_compat.disable()\n" in after["main.py"]


def test_runtime_is_imported_above_the_condition_for_cuda_that_is_there(tmp_path: Path) -> None:
    guard = "if not torch.cuda.is_available():\n    import torchax\n\n    torchax.enable_globally()\n\n"
    program = f"import torch\n\n{guard}print(torch.ones(2, device='jax'))\n"
    after = changed(tmp_path, {"main.py": program}, keep_gpu=True)
    assert "import torch\nimport torchax_compat\n\nif not torch.cuda.is_available():\n" in after["main.py"]
    assert "    torchax_compat.enable()\n" in after["main.py"]
