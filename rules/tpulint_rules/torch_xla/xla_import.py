"""Import of torch_xla.

## What it does

Reports imports of torch_xla, and of modules in it.
It also reports `importlib.util.find_spec("torch_xla")`, and an import in a `try` statement, as in

```python
try:
    import torch_xla.core.xla_model as xm
    HAS_XLA = True
except ImportError:
    HAS_XLA = False
```

A file that imports torch_xla only in this way is reported only if it also asks torch_xla for a device.

## Why it matters on TPU

torch_xla 2.9.0 is its last release, and needs PyTorch 2.9.
Next to PyTorch 2.13, the import raises `ImportError`, because of symbols that PyTorch no longer has; without
torch_xla, it raises `ModuleNotFoundError`.
If the program catches the error, it continues without the TPU: it runs on the CPU.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.

- Once the other rules `XLA` have replaced all uses of an import, the fix removes it.
- In a `try` statement that does more than import torch_xla, the fix imports torchax instead, so that a flag
  such as `HAS_XLA` is true where torchax is installed.
- `find_spec("torch_xla")` becomes `find_spec("torchax")`.

## Without a fix

The import has no fix while the file uses what it imports.
Apply the fixes of the other rules first. The messages of XLA115 (`unsupported-xla-function`) say what
remains.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import PACKAGE
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule
from tpulint.rules_api.syntax import imports_package

rule = Rule("XLA114", "import of `torch_xla`", module=__name__, fix=Applicability.UNSAFE)

_MESSAGE = f"`{PACKAGE}` is a different TPU backend, whose tensors torchax cannot use"


def _of_package(node: ast.Import | ast.ImportFrom) -> bool:
    return imports_package(node, PACKAGE)


@rule.on(ast.Import, where=_of_package)
def imported(node: ast.Import, ctx: Context) -> Iterator[Finding]:
    yield from _imported(node, ctx)


@rule.on(ast.ImportFrom, where=_of_package)
def imported_from(node: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    yield from _imported(node, ctx)


def _imported(node: ast.Import | ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    if ctx.program.runs_on_torch_xla:
        yield ctx.finding(node, _MESSAGE, _fix(node, ctx))


def _fix(node: ast.Import | ast.ImportFrom, ctx: Context) -> Fix | None:
    outer = ctx.parent(node)
    block = outer.body if isinstance(outer, ast.Try) and node in outer.body else [node]
    imports = [one for one in block if isinstance(one, ast.Import | ast.ImportFrom) and _of_package(one)]
    if any(_is_used(one, ctx) for one in imports):
        return None
    if isinstance(outer, ast.Try) and node is imports[0]:
        edit, title = ctx.rewrite.replace(node, "import torchax"), "import torchax instead"
    else:
        edit, title = ctx.rewrite.delete(node), f"remove the import of `{PACKAGE}`"
    return ctx.rewrite.fix(title, edit, applicability=Applicability.UNSAFE)


def _is_used(node: ast.Import | ast.ImportFrom, ctx: Context) -> bool:
    """Whether the file uses what an import binds, or may do so."""
    if isinstance(node, ast.Import) and any(one.name.partition(".")[0] != PACKAGE for one in node.names):
        return True
    bound = [alias.asname or alias.name.partition(".")[0] for alias in node.names]
    return "*" in bound or any(True for name in bound for _ in ctx.names.loads(name))


@rule.on(ast.Constant, named={PACKAGE})
def looked_for(literal: ast.Constant, ctx: Context) -> Iterator[Finding]:
    call = ctx.parent(literal)
    if not isinstance(call, ast.Call) or ctx.names.qualified(call.func) != "importlib.util.find_spec":
        return
    if not ctx.program.runs_on_torch_xla:
        return
    edit = ctx.rewrite.replace(literal, ctx.rewrite.quoted("torchax", literal))
    fix = ctx.rewrite.fix("replace `torch_xla` with `torchax`", edit, applicability=Applicability.UNSAFE)
    yield ctx.finding(literal, "this check looks for `torch_xla`, and so finds no TPU for torchax", fix)
