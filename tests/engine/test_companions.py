"""The files that a fix's code imports: where they are written, and when."""

from __future__ import annotations

from importlib import resources
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
FILES = {"train.py": STEP, "pkg/__init__.py": "", "pkg/inner/__init__.py": "", "pkg/inner/step.py": STEP}


def changed(root: Path, files: dict[str, str], *, keep_gpu: bool = False) -> dict[str, str]:
    """What fixing makes of files that lie below a folder, in the order in which it is written."""
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


def made(after: dict[str, str]) -> list[str]:
    """The folders that were made, in the order in which their last files are written."""
    return [
        name.removesuffix("/__init__.py") for name in after if name.endswith("torchax_training/__init__.py")
    ]


def test_runtime_is_written_in_the_top_package_folder_or_beside_the_script(tmp_path: Path) -> None:
    after = changed(tmp_path, FILES)
    assert made(after) == ["pkg/torchax_training", "torchax_training"]
    assert "from pkg.torchax_training import" in after["pkg/inner/step.py"]
    assert "from torchax_training import" in after["train.py"]


def test_a_runnable_module_imported_by_package_name_uses_the_package_runtime(
    tmp_path: Path,
) -> None:
    started = f'{STEP}\n\nif __name__ == "__main__":\n    step(None, None)\n'
    files = dict.fromkeys(("pkg/__init__.py", "alone/__init__.py"), "")
    files |= {"pkg/step.py": started, "tools/run.py": "from pkg.step import step\n", "alone/step.py": started}
    after = changed(tmp_path, files)
    assert "from pkg.torchax_training import" in after["pkg/step.py"]
    assert "from torchax_training import" in after["alone/step.py"]


def test_a_package_shares_the_runtime_of_the_script_beside_it(tmp_path: Path) -> None:
    after = changed(tmp_path, {**FILES, "train.py": f"from pkg.inner.step import step as inner\n{STEP}"})
    assert made(after) == ["torchax_training"]
    assert "from torchax_training import" in after["pkg/inner/step.py"]


def test_packages_imported_from_one_folder_share_a_runtime(tmp_path: Path) -> None:
    files = {
        f"lib/{name}/{file}": text for name in "ab" for file, text in (("__init__.py", ""), ("step.py", STEP))
    }
    files["tools/run.py"] = "import sys\n\nsys.path.append('lib')\nfrom a.step import step\nimport b.step\n"
    assert made(changed(tmp_path, files)) == ["lib/torchax_training"]


def test_setup_py_and_tests_do_not_share_the_runtime_of_a_package(tmp_path: Path) -> None:
    files = {"pkg/__init__.py": "", "pkg/step.py": STEP}
    files |= dict.fromkeys(("setup.py", "test_step.py"), "from pkg.step import step\n")
    assert made(changed(tmp_path, files)) == ["pkg/torchax_training"]


def test_written_runtime_has_all_files_of_the_shipped_one(tmp_path: Path) -> None:
    folder = resources.files("tpulint_rules").joinpath("companions/torchax_training")
    with resources.as_file(folder) as path:
        kept = {file.relative_to(path).as_posix(): file.read_text("utf-8") for file in path.rglob("*.py")}
    assert "tracing/calls.py" in kept
    after = changed(tmp_path, {"train.py": STEP})
    assert {name: after[f"torchax_training/{name}"] for name in kept} == kept
    assert len(after) == len(kept) + 1


def test_runtime_with_keep_gpu_differs_only_in_its_init_file(tmp_path: Path) -> None:
    plain, two_way = (
        changed(tmp_path / name, {"train.py": STEP}, keep_gpu=name == "two_way")
        for name in ("plain", "two_way")
    )
    assert list(plain) == list(two_way)
    differing = [name for name in plain if plain[name] != two_way[name]]
    assert "torchax_training/__init__.py" in differing
    assert set(differing) <= {"torchax_training/__init__.py", "train.py"}


def test_runtime_is_written_before_its_importers_and_its_init_file_last(
    tmp_path: Path,
) -> None:
    order = list(changed(tmp_path, {"train.py": STEP}))
    assert order[-2:] == ["torchax_training/__init__.py", "train.py"]


def test_an_existing_runtime_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "torchax_training").mkdir()
    (tmp_path / "torchax_training/__init__.py").write_text("# the user's own changes\n")
    assert list(changed(tmp_path, {"train.py": STEP})) == ["train.py"]


def test_findings_that_the_runtime_fixes_are_not_left(tmp_path: Path) -> None:
    counted = f"{STEP}    return torch.nn.functional.one_hot(torch.arange(5), 5)\n"
    result = fixed(tmp_path, {"pkg/__init__.py": "", "pkg/inner/step.py": counted})
    assert [] == [finding.code for finding in result.remaining]


def test_runtime_is_written_once_if_an_outlined_block_checks_for_cuda(tmp_path: Path) -> None:
    block = STEP.replace(
        "    loss = model(x).sum()\n",
        '    with torch.autocast("cuda", dtype=torch.bfloat16):\n        loss = model(x).sum()\n',
    )
    result = fixed(tmp_path, {"train.py": block}, keep_gpu=True)
    places = [change.path for change in result.changes]
    assert sorted(places) == sorted(set(places))
    entrance = next(c.after for c in result.changes if c.path.endswith("torchax_training/__init__.py"))
    assert "torch.cuda.is_available()" in entrance
