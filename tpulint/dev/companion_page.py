"""docs/runtime.md: the files that fixes write beside a program, each by the first line of its docstring."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path, PurePosixPath

COMPANIONS, PAGE = Path("rules", "tpulint_rules", "companions"), Path("docs", "runtime.md")

_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from the docstrings of the files. -->

# The runtime

Some fixes need code that torchax does not have: gradients for `loss.backward()`, operators, data loaders.
`tpulint fix` writes this code beside the fixed program, as the packages below, and the program imports it.
Most programs need only `torchax_training`.

- The packages import torch, torchax and JAX, and nothing else. Your program does not need tpulint.
- They are part of your repository: commit them, and change them if you need to.
  `tpulint check` reports nothing in them as long as they are unchanged.
- A package is not updated once it is written. To get the one of a newer tpulint, delete the folder and copy
  it from `tpulint_rules/companions/` of the installed package.
- With `--keep-gpu`, `torchax_training` does nothing if CUDA is available: functions and optimizers stay as
  they are, and torchax is not imported.

Importing `torchax_training` changes functions of torch and torchax for the whole process, so that they behave
as in PyTorch. The tables say which file changes what.
"""


def render(root: Path) -> str:
    """The page of a checkout.

    Raises:
        SyntaxError: a file is not one of Python.
    """
    tops = sorted(path for path in (root / COMPANIONS).iterdir() if path.name[0] not in "._")
    parts = [_HEAD]
    for top in tops:
        if top.suffix == ".py":
            parts.append(f"## {top.stem}\n\n{_docstring(top)}\n")
        elif (top / "__init__.py").is_file():
            parts.append(_folder(top))
    return "\n".join(parts)


def _folder(top: Path) -> str:
    files = sorted((path.relative_to(top) for path in top.rglob("*.py")), key=lambda path: path.parts[:-1])
    parts = [f"## {top.name}\n\n{_docstring(top / '__init__.py')}\n"]
    for parent, group in groupby(files, key=lambda path: path.parent):
        rows = [(path.name, _first(_docstring(top / path))) for path in sorted(group)]
        named = [f"| `{name}` | {words} |\n" for name, words in rows if name != "__init__.py"]
        if parent.parts:
            about = _first(_docstring(top / parent / "__init__.py"))
            parts.append(f"### {PurePosixPath(parent)}\n\n{about}\n")
        if named:
            parts.append(f"| file | contents |\n| --- | --- |\n{''.join(named)}")
    return "\n".join(parts)


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _first(docstring: str) -> str:
    """Its first paragraph on one line."""
    return " ".join(docstring.partition("\n\n")[0].split()).rstrip(".")
