"""What names refer to, where LibCST's word (test_names_oracle.py) is not enough."""

from __future__ import annotations

import ast

import pytest

from tpulint.engine.run import as_units
from tpulint.model.module import Module
from tpulint.model.tracing.reach import link
from tpulint.source import Source


def qualified(text: str) -> str | None:
    """The qualified name of what the last call in a text calls."""
    (unit,) = as_units({"main.py": text.encode()}).values()
    module = Module(Source.decode(unit.path, unit.data), unit.module_path)
    calls = [(node, scope) for node, scope in module.index.nodes[ast.Call] if isinstance(node, ast.Call)]
    node, scope = max(calls, key=lambda place: (place[0].lineno, place[0].col_offset))
    return module.names.qualified(node.func, scope)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("import torch\ncuda = torch.cuda\ncuda.synchronize()", "torch.cuda.synchronize"),
        ("import re\nre.compile('')\ndel re", "re.compile"),
        ("import re\ndef f():\n    re.compile('')\n    del re", None),
        ("try:\n    import xm\nexcept ImportError:\n    xm = None\nxm.mark()", "xm.mark"),
        ("try:\n    import xm\nexcept ImportError:\n    xm = 0\nxm.mark()", None),
    ],
)
def test_names_resolve_to_qualified_names(text: str, expected: str | None) -> None:
    assert expected == qualified(text)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    global f\n    from torch import cuda as f\ndef use():\n    f()", "torch.cuda"),
        ("    global f\n    def f(): pass\ndef use():\n    f()", "main.f"),
        ("    global f\n    f = x\nx = 3\ndef use():\n    f()", None),
        ("    f = print\n    def inner():\n        nonlocal f\n        f()", "builtins.print"),
        ("    input = print\n    def inner():\n        nonlocal input\n        input()", "builtins.print"),
        ("    f = print\n    def inner():\n        nonlocal f\n        f = len\n    f()", None),
    ],
)
def test_global_and_nonlocal_names_are_resolved(body: str, expected: str | None) -> None:
    assert expected == qualified(f"def outer(x):\n{body}\n")


def test_names_from_star_imports_of_the_project_are_resolved() -> None:
    files = {"utils.py": b"import torch\n", "main.py": b"from utils import *\ntorch.zeros(3)\n"}
    units = as_units(files)
    modules = {path: Module(Source.decode(path, unit.data), unit.module_path) for path, unit in units.items()}
    project = link([module.facts() for module in modules.values()])
    main = modules["main.py"]
    main.enter(project)
    node, scope = main.index.calls["zeros"][0]
    assert isinstance(node, ast.Call)
    assert "torch.zeros" == main.names.qualified(node.func, scope)
