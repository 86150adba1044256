"""No modules of tpulint import each other in a circle, for annotations or inside functions either."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def modules(folder: Path) -> dict[str, str]:
    """The texts of all modules of a package, by their names."""
    found = {}
    for path in sorted(folder.rglob("*.py")):
        name = ".".join(path.relative_to(folder.parent).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path.read_text(encoding="utf-8")
    return found


def circle(texts: Mapping[str, str]) -> list[str]:
    """Modules that import each other in a circle; none if there is no circle."""
    graph: dict[str, set[str]] = {}
    for name, text in texts.items():
        imported = graph[name] = set()
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None and not node.level:
                inner = {f"{node.module}.{alias.name}" for alias in node.names}
                imported |= {one if one in texts else node.module for one in inner}
        imported &= texts.keys()
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other_in_a_circle() -> None:
    assert [] == circle(modules(ROOT / "tpulint"))


def test_all_imports_are_absolute() -> None:
    relative = [
        name
        for name, text in modules(ROOT / "tpulint").items()
        if any(isinstance(node, ast.ImportFrom) and node.level for node in ast.walk(ast.parse(text)))
    ]
    assert [] == relative


@pytest.mark.parametrize(
    "text",
    [
        "from a import b",
        "import a.b",
        "from a.b import thing",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from a.b import thing",
        "def f():\n    from a.b import thing",
    ],
)
def test_a_circle_is_found_however_it_is_imported(text: str) -> None:
    assert {"a.b", "a.c"} == set(circle({"a": "", "a.b": "from a.c import f", "a.c": text}))
