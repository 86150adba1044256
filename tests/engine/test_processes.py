"""How the work is divided does not show in the result."""

from __future__ import annotations

from pathlib import Path

from tpulint.engine.run import analyse
from tpulint.engine.select import select
from tpulint.settings import Settings

ROOT = Path(__file__).parents[2]
SETTINGS = Settings(root=ROOT)
#: Real code in many files that import each other, and examples with findings of every rule.
EXAMPLES = sorted((ROOT / "fixtures").glob("*/example"))
FILES = select([ROOT / "tpulint", ROOT / "rules", ROOT / "fixtures" / "programs", *EXAMPLES], SETTINGS).files


def test_findings_depend_neither_on_the_number_of_processes_nor_on_the_order_of_files() -> None:
    alone = analyse(FILES, SETTINGS, jobs=1, cache=False)
    assert len(alone.findings) > 100
    assert alone == analyse(FILES, SETTINGS, jobs=2, cache=False)
    assert alone == analyse(FILES[::-1], SETTINGS, jobs=3, cache=False)
