"""How the work is divided does not show in the result."""

from __future__ import annotations

from pathlib import Path

import pytest

from tpulint.engine.run import analyse
from tpulint.engine.select import select
from tpulint.settings import Settings

ROOT = Path(__file__).parents[2]
SETTINGS = Settings(root=ROOT)
#: Real code in many files that import each other, and programs with findings of every rule.
FILES = select([ROOT / "tpulint", ROOT / "rules", ROOT / "fixtures"], SETTINGS).files


@pytest.mark.parametrize("jobs", [2, 3])
def test_any_number_of_processes_finds_the_same(jobs: int) -> None:
    alone = analyse(FILES, SETTINGS, jobs=1, cache=False)
    assert len(alone.findings) > 100
    assert alone == analyse(FILES, SETTINGS, jobs=jobs, cache=False)
    assert alone == analyse(FILES[::-1], SETTINGS, jobs=jobs, cache=False)
