"""The codemods of the rules, run by LibCST's own tool."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import libcst as cst
import pytest
from libcst.codemod import CodemodContext
from tpulint_rules import codemods as built_in

from tpulint.codemod import codemods
from tpulint.finding import Applicability
from tpulint.fixture import cases
from tpulint.registry import rules

FIXTURES = Path(__file__).parents[2] / "fixtures"
MODEL = """\
def scale(x):
    return x / x.abs().max().item()
"""
TRAIN = """\
import jax
import torchax

from model import scale

torchax.enable_globally()
step = torchax.interop.jax_jit(scale)
"""
NET = """\
def move(net, batch):
    return net.cuda(), batch.cuda()
"""


def libcst_tool(folder: Path, *arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "libcst.tool", *arguments],
        cwd=folder,
        input=stdin,
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )


def codemod(folder: Path, name: str, *options: str) -> str:
    """Run a codemod over a folder; what the tool prints."""
    command = ("codemod", "-x", "--no-format", f"tpulint_rules.codemods.{name}", ".", *options)
    done = libcst_tool(folder, *command)
    assert 0 == done.returncode, done.stderr
    assert "Failed to codemod 0 files" in done.stderr
    return done.stderr


def written(folder: Path, files: Mapping[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def texts(folder: Path) -> dict[str, str]:
    return {path.relative_to(folder).as_posix(): path.read_text() for path in sorted(folder.rglob("*.py"))}


def test_there_is_a_codemod_for_each_rule_with_fixes_of_python_and_one_for_all() -> None:
    fixable = [r for r in rules() if r.handlers and r.fixable in (Applicability.SAFE, Applicability.UNSAFE)]
    names = {rule.name.replace("-", "") for rule in fixable if rule.module.startswith("tpulint_rules.")}
    assert {*names, "migrate"} == {name.lower() for name in dir(built_in)}
    assert {"CudaMethod", "IntegerBeyond32Bits", "Migrate"} <= set(dir(built_in))
    with pytest.raises(AttributeError, match="has no attribute 'CudaMethods'"):
        _ = built_in.CudaMethods


def test_importing_the_codemods_imports_no_libcst() -> None:
    code = "import sys, tpulint.registry as r; r.rules(); print('libcst' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "False\n" == done.stdout


def test_codemod_fixes_what_its_rule_finds_and_nothing_else(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef move(net):\n    torch.cuda.synchronize()\n    return net.cuda()  # moved\n"
    written(tmp_path, {"net.py": text})
    codemod(tmp_path, "CudaMethod")
    assert {"net.py": text.replace("net.cuda()", 'net.to("jax")')} == texts(tmp_path)


def test_codemod_knows_the_other_files(tmp_path: Path) -> None:
    written(tmp_path / "alone", {"model.py": MODEL})
    codemod(tmp_path / "alone", "ItemInTracedCode")
    assert {"model.py": MODEL} == texts(tmp_path / "alone")
    written(tmp_path / "project", {"model.py": MODEL, "train.py": TRAIN})
    codemod(tmp_path / "project", "ItemInTracedCode")
    assert {"model.py": MODEL.replace("item()", "detach()"), "train.py": TRAIN} == texts(tmp_path / "project")


def test_safe_restricts_a_codemod_to_safe_fixes(tmp_path: Path) -> None:
    written(tmp_path, {"net.py": NET})
    codemod(tmp_path, "CudaMethod", "--safe")
    assert {"net.py": NET} == texts(tmp_path)  # no program enters the environment, so the fix is unsafe
    codemod(tmp_path, "CudaMethod")
    assert {"net.py": NET.replace("cuda()", 'to("jax")')} == texts(tmp_path)


def test_codemod_of_an_optional_rule_needs_no_settings(tmp_path: Path) -> None:
    text = "import torch\n\n\ndef rank(a):\n    return torch.matrix_rank(a)\n"
    written(tmp_path, {"net.py": text})
    codemod(tmp_path, "Migrate")
    assert {"net.py": text} == texts(tmp_path)
    codemod(tmp_path, "RemovedTorchFunction")
    assert {"net.py": text.replace("torch.matrix", "torch.linalg.matrix")} == texts(tmp_path)


def test_second_run_changes_nothing(tmp_path: Path) -> None:
    written(tmp_path, {"net.py": NET, "model.py": MODEL, "train.py": TRAIN})
    codemod(tmp_path, "Migrate")
    once = texts(tmp_path)
    codemod(tmp_path, "Migrate")
    assert once == texts(tmp_path)


def test_migrate_gives_what_fix_gives(tmp_path: Path) -> None:
    chosen = [
        one for one in cases(FIXTURES) if one.name == "example" and one.has_code and not one.settings.keep_gpu
    ][::4]
    assert 10 < len(chosen)
    for case in chosen:
        written(tmp_path / "codemod", {f"{case.rule}/{name}": text for name, text in case.before.items()})
    shutil.copytree(tmp_path / "codemod", tmp_path / "fix")
    before = texts(tmp_path / "fix")
    codemod(tmp_path / "codemod", "Migrate", "-j", "2")
    fix = [sys.executable, "-m", "tpulint", "fix", "--no-cache", "--unsafe-fixes", "-q", "."]
    subprocess.run(fix, cwd=tmp_path / "fix", capture_output=True, check=False, timeout=300)
    assert before != texts(tmp_path / "fix")
    assert texts(tmp_path / "fix") == texts(tmp_path / "codemod")


def test_standard_input_is_fixed_by_itself(tmp_path: Path) -> None:
    done = libcst_tool(
        tmp_path, "codemod", "-x", "--no-format", "tpulint_rules.codemods.CudaMethod", "-", stdin=NET
    )
    assert f"{NET}\n".replace("cuda()", 'to("jax")') == done.stdout


def test_tree_of_another_codemod_is_fixed_as_it_is() -> None:
    command = codemods("tpulint_rules.codemods")["CudaMethod"]
    tree = cst.parse_module(NET.replace("net.", "net.half()."))
    fixed = command(CodemodContext()).transform_module(tree)
    assert NET.replace("net.", "net.half().").replace("cuda()", 'to("jax")') == fixed.code


def test_file_that_cannot_be_analyzed_gives_a_warning(tmp_path: Path) -> None:
    written(tmp_path, {"net.py": f"def f(a, a):\n    pass\n\n\n{NET}"})
    assert "WARNING: cannot be fixed, since it does not compile" in codemod(tmp_path, "CudaMethod")


def test_tool_lists_the_codemods_of_a_configured_module(tmp_path: Path) -> None:
    (tmp_path / ".libcst.codemod.yaml").write_text('modules: ["tpulint_rules"]\n')
    listed = libcst_tool(tmp_path, "list").stdout.splitlines()
    assert len(dir(built_in)) == len(listed)
    assert "codemods.CudaMethod - Fix TPU101 (cuda-method): `.cuda()` call on a tensor or module." in listed
    written(tmp_path, {"net.py": NET})
    done = libcst_tool(tmp_path, "codemod", "--no-format", "codemods.CudaMethod", "net.py")
    assert 0 == done.returncode, done.stderr
    assert {"net.py": NET.replace("cuda()", 'to("jax")')} == texts(tmp_path)
