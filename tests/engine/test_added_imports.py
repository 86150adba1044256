"""Where fixes put the imports that they need."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tpulint.engine.cache import MemoryCache
from tpulint.engine.fix import fix_units
from tpulint.engine.run import as_units
from tpulint.settings import Settings


@pytest.mark.parametrize(
    "line",
    [
        "import torch; torch.manual_seed(0)",
        "import torch; torch.cuda.manual_seed(0)",
        "import os, torch; torch.cuda.synchronize()",
        'import torch; x = torch.zeros(2, device="cuda")',
        "import os; import torch; torch.manual_seed(0)",
    ],
)
def test_imports_stand_before_code_on_the_line_of_an_import(tmp_path: Path, line: str) -> None:
    text = f'{line}\ny = torch.ones(2, device="cuda")\nprint(y)\n'
    units = as_units({str(tmp_path / "app.py"): text.encode()})
    result = fix_units(units, Settings(root=tmp_path), jobs=1, cache=MemoryCache(), unsafe=True)
    fixed = next(change.after for change in result.changes if change.path.endswith("app.py"))
    bound: set[str] = set()
    for statement in ast.parse(fixed).body:
        if isinstance(statement, ast.Import):
            bound |= {alias.name for alias in statement.names}
        used = {node.id for node in ast.walk(statement) if isinstance(node, ast.Name)}
        assert used & {"torch", "torchax", "jax", "torchax_compat"} <= bound
