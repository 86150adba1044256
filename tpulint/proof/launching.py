"""Starts programs like `python FILE.py`, or like `python -m` if they have relative imports."""

from __future__ import annotations

import ast
from pathlib import Path

_LAUNCHER = """\
import runpy
import sys

sys.path[0] = {top!r}
runpy.run_module({name!r}, run_name="__main__", alter_sys=True)
"""


def script(file: Path, root: Path, launcher: Path) -> Path:
    """The script to run for a program: the file itself, or a launcher that runs it as a module.

    Args:
        file: the program, in a copy of the project.
        root: the folder of the copy.
        launcher: the file for a launcher: outside of the copy, so that its frames are not reported.
    """
    levels = _levels(file)
    if not levels:
        return file
    top = file.parents[levels] if levels < len(file.parents) else root
    while (top / "__init__.py").exists():
        top = top.parent
    if not top.is_relative_to(root):
        return file
    name = ".".join(file.relative_to(top).with_suffix("").parts)
    launcher.write_text(_LAUNCHER.format(top=str(top), name=name), encoding="utf-8")
    return launcher


def _levels(file: Path) -> int:
    """The highest level of the relative imports of a file; 0 if it has none, or cannot be read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 0
    return max((node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)), default=0)
