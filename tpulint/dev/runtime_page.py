"""docs/runtime.md: the modules of the runtime torchax-compat, each by the first line of its docstring."""

from __future__ import annotations

import ast
from pathlib import Path

SOURCE, PAGE = Path("runtime", "src", "torchax_compat"), Path("docs", "runtime.md")

_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from the docstrings of the modules. -->

# The runtime torchax-compat

Programs that `tpulint fix` has changed depend on the Python package `torchax-compat`.
It enters the torchax environment, and makes torchax behave as PyTorch does on a GPU: gradients for
`loss.backward()`, operators that torchax lacks, views that share memory, random numbers, and data loading.

```python
import torchax_compat

torchax_compat.enable()
```

- Install it with `pip install torchax-compat`, or copy it into your project with `tpulint vendor`.
- The runtime imports only torch, torchax, JAX and NumPy.
  Your program does not need tpulint.
- `enable()` applies all patches or none.
  It raises `UnsupportedVersion` if the installed torch, torchax or JAX was not tested, or lacks what a patch
  replaces.
  `disable()` restores everything, and `status()` lists the patches with their reasons.
- In a program that was fixed with `--keep-gpu`, `enable()` is called only where CUDA is not available.
  Elsewhere, decorators such as `differentiable` call the functions unchanged, and torchax is not imported.

Terms in the tables:

- A *decorated function* is a function that is decorated with `@differentiable`.
  JAX compiles a decorated function and computes its gradients.
- A *traced function* is a function that JAX traces: the Python code of the function runs once, with
  placeholders instead of arrays, while JAX compiles the function.
- A function runs *call by call* if JAX cannot compile the function as a whole.
  At each call of such a function, Python runs the statements of the function, and JAX separately compiles
  each module and each function that the statements call.
"""


def render(root: Path) -> str:
    """The page of a checkout.

    Raises:
        SyntaxError: a file is not one of Python.
    """
    top = root / SOURCE
    parts = [_HEAD, f"## Functions\n\n{_docstring(top / '__init__.py')}\n"]
    for folder in sorted(path for path in top.iterdir() if (path / "__init__.py").is_file()):
        parts.append(f"## {folder.name}\n\n{_first(_docstring(folder / '__init__.py'))}.\n")
        names = sorted(path for path in folder.glob("*.py") if path.name != "__init__.py")
        rows = [f"| `{path.stem}` | {_first(_docstring(path))} |\n" for path in names]
        parts.append(f"| module | contents |\n| --- | --- |\n{''.join(rows)}")
    return "\n".join(parts)


def _docstring(path: Path) -> str:
    return ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""


def _first(docstring: str) -> str:
    """Its first paragraph on one line."""
    return " ".join(docstring.partition("\n\n")[0].split()).rstrip(".")
