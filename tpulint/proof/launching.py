"""How a program is started: as `python FILE.py` does, or as `python -m` does if it has relative imports."""

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
        root: the copy.
        launcher: where a launcher is written, outside of the copy, so that its frames are not the user's.
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
    """How many packages up the relative imports of a file reach; 0 if it has none, or cannot be read."""
    try:
        tree = ast.parse(file.read_bytes())
    except (OSError, SyntaxError, ValueError):
        return 0
    return max((node.level for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)), default=0)
