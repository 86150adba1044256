"""docs/runtime.md: the files that fixes write beside a program, each by the first line of its docstring."""

from __future__ import annotations

import ast
from itertools import groupby
from pathlib import Path, PurePosixPath

COMPANIONS, PAGE = Path("rules", "tpulint_rules", "companions"), Path("docs", "runtime.md")

_HEAD = """\
<!-- Written by `python -m tpulint.dev render-docs` from the docstrings of the files. -->

# The runtime

Some fixed programs need code that torchax does not have, such as gradients for `loss.backward()`, operators,
and a data loader that works with JAX.
`tpulint fix` writes this code into packages beside the fixed program, and adds the imports of these packages
to the program.
Most programs need only the package `torchax_training`.
The other pages call `torchax_training` *the runtime*.

- The packages that `fix` writes import only torch, torchax, JAX and NumPy.
  Your program does not need tpulint.
- The packages are part of your repository.
  Commit the packages, and change them if you need to.
  As long as a package is unchanged, `tpulint check` reports nothing in its files.
- `tpulint fix` does not update a package that it has written before.
  To get the version of a newer tpulint, delete the folder of the package.
  Then copy the folder with the same name from `tpulint_rules/companions/` of the installed tpulint.
- In a program that was fixed with `--keep-gpu`, `torchax_training` does nothing if CUDA is available.
  Functions and optimizers then stay unchanged, and torchax is not imported.

`import torchax_training` replaces functions of torch and torchax in the whole process, so that torchax
tensors behave as in PyTorch.
The tables below say which file replaces which functions.

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
