"""Which modules only run in programs that import the runtime torchax-compat."""

from __future__ import annotations

import pytest

from tpulint.engine.run import as_units, linked
from tpulint.settings import Settings

WITH = "import torch\nimport torchax_compat\nimport {}\ntorchax_compat.enable()\ntorch.ones(2).to('jax')\n"
WITHOUT = "import torch\nimport {}\nx = torch.ones(2).cuda()\n"
ON_HOST = "import {}\nprint({})\n"


def uses_runtime(module: str, files: dict[str, str]) -> bool:
    units = as_units({f"{name}.py": text.encode() for name, text in files.items()})
    return linked(units, Settings(), jobs=1).program_uses_runtime(module)


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"train": WITH.format("layers")}, True),
        ({"train": WITH.format("model"), "model": "import layers\n"}, True),
        ({"train": WITH.format("layers"), "sample": WITH.format("layers")}, True),
        ({"train": WITH.format("layers"), "count": ON_HOST.format("layers", "layers")}, True),
        ({"train": WITH.format("layers"), "sample": WITHOUT.format("layers")}, False),
        ({"train": WITH.format("other"), "other": ""}, False),
        ({"train": WITH.format("other"), "other": "", "sample": WITHOUT.format("layers")}, False),
        ({}, False),
    ],
)
def test_all_programs_with_a_module_import_the_runtime(files: dict[str, str], expected: bool) -> None:
    assert expected == uses_runtime("layers", {"layers": "import torch\n", **files})


def test_module_that_imports_the_runtime_through_another() -> None:
    assert uses_runtime("model", {"model": "import layers\n", "layers": "import torchax_compat\n"})
