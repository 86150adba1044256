"""Times that need more than 32 bits (TPU622): a fixture case would give another result in each run."""

from __future__ import annotations

import pytest

from tpulint.engine.run import analyse_units, as_units
from tpulint.settings import Settings


def found(line: str) -> list[str]:
    text = f"import time\nimport torch\n\nnow = time.time_ns()\n{line}\n"
    settings = Settings(select=("TPU622",))
    return [
        one.code for one in analyse_units(as_units({"stamps.py": text.encode()}), settings, jobs=1).findings
    ]


@pytest.mark.parametrize(
    "line",
    [
        'torch.tensor(now).to("cuda")',
        "torch.tensor(now).cuda()",
        'torch.tensor(time.time_ns()).to("cuda")',
        'torch.tensor([int(time.time() * 1000)], device="cuda")',
        'started = round(1e6 * time.time())\nprint(torch.tensor(started).to("cuda"))',
    ],
)
def test_times_on_the_device_are_reported(line: str) -> None:
    assert found(line) == ["TPU622"]


@pytest.mark.parametrize(
    "line",
    [
        "torch.tensor(now)",
        'torch.tensor(now).to("cpu")',
        'torch.tensor(now).to("cuda", torch.float32)',
        "torch.tensor(now, dtype=torch.float32).cuda()",
        'torch.tensor(int(time.time()), device="cuda")',
        'torch.tensor(time.time() * 1000, device="cuda")',
        'torch.tensor(int(time.time() * rate), device="cuda")',
    ],
)
def test_other_times_are_not_reported(line: str) -> None:
    assert found(line) == []
