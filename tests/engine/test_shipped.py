"""Files that fixes wrote are left out of the analysis as long as they are as tpulint ships them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine import desk
from tpulint.engine.cache import MemoryCache
from tpulint.engine.fix import fix_units
from tpulint.engine.inquiry import InquiryError, inquire
from tpulint.engine.run import analyse, as_units
from tpulint.engine.shipped import is_shipped
from tpulint.model.module import Module
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


@pytest.fixture
def fixed(tmp_path: Path) -> Path:
    """A folder with a program that was fixed, and the runtime beside it."""
    (tmp_path / "train.py").write_text(STEP)
    units = as_units({str(tmp_path / "train.py"): STEP.encode()})
    result = fix_units(units, Settings(root=tmp_path), jobs=1, cache=MemoryCache(), unsafe=True)
    assert result.remaining == []
    for change in result.changes:
        change.write()
    assert (tmp_path / "torchax_training/tensors/items.py").is_file()
    return tmp_path


def summarised(folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that a check of a folder analyses."""
    seen: list[str] = []
    summarise = desk.Desk.summarise

    def noted(self: desk.Desk, unit: desk.Unit) -> desk.Summary:
        seen.append(Path(unit.path).relative_to(folder).as_posix())
        return summarise(self, unit)

    monkeypatch.setattr(desk.Desk, "summarise", noted)
    analysis = analyse(sorted(folder.rglob("*.py")), Settings(root=folder), jobs=1, cache=False)
    assert analysis.errors == []
    assert analysis.findings == []
    return seen


def test_fix_does_not_analyse_the_runtime_that_it_writes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed: list[str] = []
    parse = desk.parsed

    def noted(unit: desk.Unit) -> Module:
        parsed.append(unit.path)
        return parse(unit)

    monkeypatch.setattr(desk, "parsed", noted)
    units = as_units({str(tmp_path / "train.py"): STEP.encode()})
    result = fix_units(units, Settings(root=tmp_path), jobs=1, cache=MemoryCache(), unsafe=True)
    assert len(result.changes) > 50
    assert {str(tmp_path / "train.py")} == set(parsed)


def test_check_does_not_analyse_the_runtime_beside_a_fixed_program(
    fixed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert summarised(fixed, monkeypatch) == ["train.py"]


def test_changed_runtime_file_is_analyzed(fixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (fixed / "torchax_training/once.py").open("a") as file:
        file.write("\n# ours\n")
    assert summarised(fixed, monkeypatch) == ["torchax_training/once.py", "train.py"]


def test_line_endings_of_a_checkout_make_no_difference(fixed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = fixed / "torchax_training/once.py"
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    assert summarised(fixed, monkeypatch) == ["train.py"]


def test_same_text_elsewhere_is_the_users_own(fixed: Path) -> None:
    data = (fixed / "torchax_training/once.py").read_bytes()
    (unit,) = as_units({"/project/once.py": data}).values()
    assert not is_shipped(unit)


def test_explaining_a_line_of_the_runtime_says_that_it_is_not_analyzed(fixed: Path) -> None:
    file = fixed / "torchax_training/once.py"
    with pytest.raises(InquiryError, match="is unchanged, so it is not analyzed"):
        inquire(file, 1, sorted(fixed.rglob("*.py")), Settings(root=fixed))
