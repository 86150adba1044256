"""A file whose analysis takes too long is cut off, and says so; the other files are analyzed."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from tpulint.engine.budget import OverBudget, budget
from tpulint.engine.cache import MemoryCache
from tpulint.engine.run import analyse_units, as_units
from tpulint.finding import Finding
from tpulint.settings import Settings

SHORT = "import torch\n\nx = torch.zeros(2).cuda()\n"
LONG = "import torch\n\n\ndef f(x):\n" + "    x = torch.relu(x[x > 0]).cuda() + x.sum().item()\n" * 500
UNITS = as_units({"/project/short.py": SHORT.encode(), "/project/long.py": LONG.encode()})


def _found(seconds: float, jobs: int = 1, cache: MemoryCache | None = None) -> list[Finding]:
    settings = Settings(root=Path("/project"), time_limit=seconds)
    analysis = analyse_units(UNITS, settings, jobs=jobs, cache=cache)
    assert not analysis.errors
    return analysis.findings


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_file_over_the_limit_is_reported_and_the_others_are_analyzed(jobs: int) -> None:
    found = _found(0.02, jobs)
    (cut_off,) = (one for one in found if one.code == "TPU002")
    assert ("/project/long.py", 1) == (cut_off.path, cut_off.location.row)
    assert "0.02 s" in cut_off.message
    assert ["TPU001", "TPU101"] == [one.code for one in found if one.path == "/project/short.py" and one.fix]
    assert [None] == list({one.fix for one in found if one.path == "/project/long.py"})


def test_findings_that_are_cut_off_are_not_cached() -> None:
    cache = MemoryCache()
    assert "TPU002" in {one.code for one in _found(0.02, cache=cache)}
    assert "TPU002" not in {one.code for one in _found(0, cache=cache)}


def test_no_limit_interrupts_nothing() -> None:
    with budget(0):
        sum(range(10_000))


def test_the_limit_does_not_count_once_the_code_has_ended() -> None:
    with budget(0.02):
        pass
    for _ in range(50):
        sum(range(10_000))


def test_code_over_the_limit_is_interrupted_where_it_catches_exceptions() -> None:
    def endless() -> None:
        while True:
            with contextlib.suppress(Exception):
                sum(range(10_000))

    with pytest.raises(OverBudget), budget(0.01):
        endless()
