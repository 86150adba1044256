"""The files that a fix's code imports: where they are written, and when."""

from __future__ import annotations

from pathlib import Path

from tpulint.engine.cache import MemoryCache
from tpulint.engine.fix import fix_units
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
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    units = as_units({str(root / name): text.encode() for name, text in files.items()})
    settings = Settings(root=root, keep_gpu=keep_gpu)
    result = fix_units(units, settings, jobs=1, cache=MemoryCache(), unsafe=True)
    assert result.errors == []
    return {Path(change.path).relative_to(root).as_posix(): change.after for change in result.changes}


def test_a_package_has_one_in_its_topmost_folder_and_a_script_one_beside_it(tmp_path: Path) -> None:
    after = changed(tmp_path, FILES)
    companions = [name for name in after if name not in FILES]
    assert companions == [
        "pkg/torchax_dispatch.py",
        "pkg/torchax_functions.py",
        "pkg/torchax_attributes.py",
        "pkg/torchax_derivatives.py",
        "pkg/torchax_items.py",
        "pkg/torchax_varying.py",
        "pkg/torchax_tracing.py",
        "pkg/torchax_calls.py",
        "pkg/torchax_training.py",
        "torchax_dispatch.py",
        "torchax_functions.py",
        "torchax_attributes.py",
        "torchax_derivatives.py",
        "torchax_items.py",
        "torchax_varying.py",
        "torchax_tracing.py",
        "torchax_calls.py",
        "torchax_training.py",
    ]
    assert "from pkg.torchax_training import" in after["pkg/inner/step.py"]
    assert "from torchax_training import" in after["train.py"]


def test_those_that_keep_cuda_lie_in_the_same_place(tmp_path: Path) -> None:
    after = changed(
        tmp_path, {name: text for name, text in FILES.items() if name != "train.py"}, keep_gpu=True
    )
    assert [name for name in after if name not in FILES] == [
        "pkg/torchax_dispatch.py",
        "pkg/torchax_functions.py",
        "pkg/torchax_attributes.py",
        "pkg/torchax_derivatives.py",
        "pkg/torchax_items.py",
        "pkg/torchax_varying.py",
        "pkg/torchax_tracing.py",
        "pkg/torchax_calls.py",
        "pkg/torchax_training_by_jax.py",
        "pkg/torchax_training.py",
    ]


def test_they_are_written_before_what_imports_them(tmp_path: Path) -> None:
    order = list(changed(tmp_path, {"train.py": STEP}))
    assert order.index("torchax_training.py") < order.index("train.py")


def test_what_is_there_already_stays(tmp_path: Path) -> None:
    (tmp_path / "torchax_training.py").write_text("# the user's own changes\n")
    assert list(changed(tmp_path, {"train.py": STEP})) == [
        "torchax_dispatch.py",
        "torchax_functions.py",
        "torchax_attributes.py",
        "torchax_derivatives.py",
        "torchax_items.py",
        "torchax_varying.py",
        "torchax_tracing.py",
        "torchax_calls.py",
        "train.py",
    ]
