"""Import of the runtime folder that earlier versions of tpulint wrote beside programs.

## What it does

The rule reports imports of the packages and modules that fixes of earlier versions of tpulint wrote beside a
program, or in its package: `torchax_training`, `torchax_events`, `torchax_pickle`, `torchax_mesh` and
`torchax_images`.

## Why it matters on TPU

These files are copies: they do not get the corrections of newer versions, and nothing checks whether they fit
the installed torch, torchax and JAX.
With another version, some of their patches were left out, without an error, and the results changed.
The package torchax-compat replaces them: `torchax_compat.enable()` applies all patches, or raises an error.

## Fix safety

The fix imports `torchax_compat` instead, and renames what the file uses of it, such as `compiled`, which is
now `compile_optimizer` or `compile_update`.
The fix is unsafe, because it works only if it is applied to all files of the program: the former files and
torchax-compat patch the same functions, and `torchax_compat.enable()` raises an error if both are imported.
TPU905 (`missing-compat-runtime`) replaces `torchax.enable_globally()` with `torchax_compat.enable()`.

There is no fix for imports of the modules within `torchax_training`, for imports with `as`, and for several
imports in one statement.

After the fix, delete the former files, and install the package with `pip install torchax-compat`, or copy it
into the project with `tpulint vendor`.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.runtime import DISTRIBUTION, FORMER, PACKAGE
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule, Severity

rule = Rule(
    "TPU906",
    "runtime folder of an earlier version of tpulint",
    module=__name__,
    fix=Applicability.UNSAFE,
    severity=Severity.COSMETIC,
)

#: What takes the place of the former modules, and of what they hold.
_MODULES = {
    FORMER: PACKAGE,
    "torchax_events": f"{PACKAGE}.cuda",
    "torchax_pickle": f"{PACKAGE}.data.cpu_pickle",
    "torchax_mesh": f"{PACKAGE}.distributed",
    "torchax_images": f"{PACKAGE}.vision",
}
_NAMES = {"recorded": "higher_order", "undivided": "single_process", "spread": "shard_batches"}
_COMPILED = "compiled"


@rule.on(ast.Import)
def imported(statement: ast.Import, ctx: Context) -> Iterator[Finding]:
    for alias in statement.names:
        if alias.name.rpartition(".")[2] in _MODULES:
            is_plain = len(statement.names) == 1 and alias.asname is None and "." not in alias.name
            fix = _as_module(statement, alias.name, ctx) if is_plain else None
            yield ctx.finding(statement, _message(alias.name.rpartition(".")[2]), fix)


@rule.on(ast.ImportFrom)
def imported_from(statement: ast.ImportFrom, ctx: Context) -> Iterator[Finding]:
    path = (statement.module or "").split(".")
    modules = [alias.name for alias in statement.names if alias.name in _MODULES]
    if modules:  # `from package import torchax_training`
        is_plain = len(statement.names) == 1 and statement.names[0].asname is None
        fix = _as_module(statement, modules[0], ctx) if is_plain else None
        yield ctx.finding(statement, _message(modules[0]), fix)
    elif not _MODULES.keys().isdisjoint(path):
        (name, *_) = (part for part in path if part in _MODULES)
        is_plain = path[-1] in _MODULES and all(alias.asname is None for alias in statement.names)
        yield ctx.finding(statement, _message(name), _as_names(statement, ctx) if is_plain else None)


def _message(name: str) -> str:
    return (
        f"`{name}` is a copy of the runtime of an earlier version of tpulint, which {DISTRIBUTION} replaces"
    )


def _as_module(statement: ast.stmt, name: str, ctx: Context) -> Fix | None:
    """The fix that imports the package, and takes from it what the file takes from the former module."""
    imports = ctx.rewrite.runtime_import()
    if imports is None:
        return None
    edits: list[Change] = [*imports, ctx.rewrite.delete(statement)]
    for node in ctx.names.loads(name):
        outer = ctx.parent(node)
        if not isinstance(outer, ast.Attribute):
            edits.append(ctx.rewrite.replace(node, _MODULES[name]))
        elif outer.attr == _COMPILED:
            edits.append(ctx.rewrite.replace(outer, f"{PACKAGE}.{_compiled(outer, ctx)}"))
        else:
            edits.append(ctx.rewrite.replace(outer, f"{_MODULES[name]}.{_NAMES.get(outer.attr, outer.attr)}"))
    return _fix(edits, ctx)


def _as_names(statement: ast.ImportFrom, ctx: Context) -> Fix:
    """The fix that imports the same names from the package, by what they are called there."""
    wanted: dict[str, None] = {}
    edits: list[Change] = []
    for alias in statement.names:
        nodes = [*ctx.names.loads(alias.name)]
        if alias.name == _COMPILED:
            renamed = [_compiled(node, ctx) for node in nodes]
        else:
            renamed = [_NAMES.get(alias.name, alias.name) for _ in nodes]
            wanted[_NAMES.get(alias.name, alias.name)] = None
        wanted.update(dict.fromkeys(renamed))
        edits += [
            ctx.rewrite.replace(node, name)
            for node, name in zip(nodes, renamed, strict=True)
            if node.id != name
        ]
    module = _MODULES[(statement.module or "").rpartition(".")[2]]
    statement_now = f"from {module} import {', '.join(sorted(wanted))}"
    return _fix([ctx.rewrite.replace(statement, statement_now), *edits], ctx)


def _compiled(node: ast.expr, ctx: Context) -> str:
    """What `compiled` is called now: it took optimizers, and decorated functions."""
    outer = ctx.parent(node)
    is_decorator = isinstance(outer, ast.FunctionDef) and node in outer.decorator_list
    return "compile_update" if is_decorator else "compile_optimizer"


def _fix(edits: list[Change], ctx: Context) -> Fix:
    title = f"replace the import with that of `{PACKAGE}`, for which `pip install {DISTRIBUTION}` is needed"
    return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE, serves_cuda=True)
