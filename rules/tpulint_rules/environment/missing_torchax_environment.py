"""Program that puts tensors on a device but never enters the torchax environment.

## What it does

Reports a program that puts tensors on a CUDA or torchax device but never enters the torchax environment.
A program enters the environment with `torchax_compat.enable()`, `torchax.enable_globally()` or
`with torchax.default_env():`.

- The code that puts tensors on a CUDA or torchax device may be in the file of the program, or in a project
  module that this file imports.
- A command-line option `--device` without `choices` counts as code that puts tensors on a CUDA or torchax
  device, because the user may pass any device name. An exception is a program that exports a model, for
  example with `torch.onnx.export`.
- The file `hubconf.py` is no program: other programs load it with `torch.hub.load`.

tpulint reports the program at its entry point.
The entry point of a program is one of these:

- The condition of `if __name__ == "__main__":`.
  In a module that other modules import, this condition is an entry point only if the code in its block puts
  tensors or modules on a device, directly or through a function of the project.
- If a file has no `if __name__ == "__main__":`, and no other module imports the file, the entry point is the
  first of the following that the file contains:
  - the first top-level statement that puts a tensor or module on a device, directly, through a function that
    it calls, or through a function that it passes to other code, as in `Thread(target=work)`;
  - the first call of a function that is selected at run time, as in `COMMANDS[name]()` or
    `hydra.utils.get_method(path)()`;
  - the first other mention of a function that puts a tensor or module on a device, as in
    `for step in (load, train):`, or a decorator that may register it, as in `@app.command()`;
  - the call that parses the command line, in a function that then puts a tensor or module on a device.
    For example, a program that is started through the `entry_points` of its package has such a function.
  - the first import of a project file that puts a tensor or module on a device at import time.

## Why it matters on TPU

Code that uses torchax tensors outside of the torchax environment raises:

- `.to("jax")` raises `RuntimeError: PyTorch is not linked with support for jax devices`.
- If a torchax tensor was created inside the environment, an operation on this tensor outside of the
  environment raises `torchax Tensors can only do math within the torchax environment`.

## Fix safety

The fix is unsafe, because it affects the whole program: JAX then computes all operations on tensors of the
device `"jax"`, and the runtime torchax-compat changes parts of torch and torchax, so that they behave as on a
GPU.
The fix adds the lines `import torchax_compat` and `torchax_compat.enable()`:

- In a script, the two lines follow the imports, before the first statement that puts a tensor or module on a
  device.
- In a module that other modules import, the fix adds `torchax_compat.enable()` to the `if __name__ ==
  "__main__":` block.
- If a project file puts tensors on a device at import time, `import torchax_compat` and
  `torchax_compat.enable()` come before the import of that file.
- The fix always adds `torchax_compat.enable()` after `import torchvision`, because the import of
  torchvision fails inside the torchax environment.
- If the program starts a process group and uses a `DistributedSampler`, shards parameters over processes, or
  lets Accelerate or `Trainer` of transformers start processes, the fix also adds
  `torchax_compat.distributed.one_rank_per_device()`. The program then runs as one process on all devices of
  the host, with the results of one process per device; see [distributed programs](../distributed.md).
- If the program uses `DataParallel`, the fix also adds `torchax_compat.distributed.shard_batches()`, as for
  the setting `"mesh"` below. Each batch is then split over all devices, as `DataParallel` splits it.
- With `--keep-gpu`, the fixed program enters the torchax environment only where CUDA is not available.

The fixed program needs no call of `os._exit` at its end: it exits normally.

The tpulint setting `environment` makes the fix add more lines.
The setting is a list that may contain these values:

- With `"compilation-cache"`, the fixed program keeps compiled programs between runs, in the folder
  `~/.cache/jax`.
  To use another folder, set the environment variable `JAX_COMPILATION_CACHE_DIR` instead of
  `"compilation-cache"`.
- With `"mesh"`, the fixed program distributes its tensors over all devices, by
  `torchax_compat.distributed.shard_batches()`.
  Each device holds a full copy of the parameters and buffers of a module.
  All other tensors, such as batches, are split along their first dimension, and each device holds one part.
  In a test, a model with batch normalization was trained on four CPU devices, after the fix of TPU611
  (`backward-on-torchax`).
  The losses on four CPU devices and the losses on one device agreed in their first six digits.
- With `"quiet"`, the fixed program hides two harmless warnings.
  Without `"quiet"`, Python shows each of the two warnings once.
  The first warning, `The given NumPy array is not writable`, appears when a tensor is copied to the host.
  The second warning is `Explicitly requested dtype int64 ... will be truncated to dtype int32`.

With the setting `sharding`, the fix adds `torchax_compat.distributed.shard_by_name(...)`, which shards the
parameters of modules over devices by their names; see [distributed
programs](../distributed.md#sharding-rules-by-name).
"""

from __future__ import annotations

import ast
import os
from collections.abc import Iterator, Mapping, Sequence

from tpulint.knowledge.runtime import ENABLE, ONE_RANK_PER_DEVICE, PACKAGE
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Import, Rule, Scope, ScopeKind
from tpulint.rules_api.syntax import is_main

rule = Rule(
    "TPU001",
    "program that uses a device but never enters the torchax environment",
    module=__name__,
    fix=Applicability.UNSAFE,
)


_LINES = {
    "compilation-cache": (
        'jax.config.update("jax_compilation_cache_dir", os.path.expanduser("~/.cache/jax"))',
    ),
    "quiet": (
        'warnings.filterwarnings("ignore", message="The given NumPy array is not writable")',
        'warnings.filterwarnings("ignore", message="Explicitly requested dtype int64")',
    ),
}
_NEEDED = {"compilation-cache": ("import os", "import jax"), "quiet": ("import warnings",)}
#: The file through which other programs load the models of a repository, with `torch.hub.load`.
_HUB = "hubconf.py"
_BY_NAME = f"{PACKAGE}.distributed.shard_by_name"
_SHARDED = f"{PACKAGE}.distributed.shard_batches()"


@rule.on(ast.Module)
def program(tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    if os.path.basename(ctx.source.path) == _HUB:
        return
    entry = _entry(tree, ctx)
    if entry is None:
        return
    if not ctx.program.places_anything or ctx.program.is_entered:
        return
    block = next((node for node in tree.body if isinstance(node, ast.If) and node.test is entry), None)
    message = (
        'the program never enters the torchax environment, so moving tensors to `"jax"` (the TPU) raises'
    )
    yield ctx.finding(entry, message, _enable(block if ctx.program.is_imported else None, ctx))


def _entry(tree: ast.Module, ctx: Context) -> ast.expr | ast.stmt | None:
    """The location where the program starts; None if this file starts none."""
    for node in tree.body:
        if isinstance(node, ast.If) and is_main(node.test):
            return node.test if not ctx.program.is_imported or _places(node.body, ctx) else None
    if ctx.program.has_importers:
        return None
    return _first_move(ctx) or _parsed(ctx) or _first_moving_import(ctx)


def _first_move(ctx: Context) -> ast.expr | None:
    """The first top-level call of a script that puts something on a device, or its f-string; else None.

    It may also pass a function that does so to other code, which may call it.
    """
    if ctx.program.is_imported:
        return None
    calls = [call for call, scope in ctx.names.all_calls() if _is_at_top(scope)]
    moves: list[ast.expr] = [call for call in calls if ctx.devices.moves(call)]
    passed = list(ctx.devices.passed_moves())
    moves += [node for node in passed if _is_argument(node, ctx)]
    kept = ctx.program.keeps_cuda  # code for CUDA alone is then not reported
    first = min(
        moves, key=lambda move: (kept and ctx.devices.only_with_cuda(move), *_place(move)), default=None
    )
    if first is None:
        first = min(ctx.devices.starts_unknown(calls), key=_place, default=None)
    if first is None:
        first = min(passed, key=_place, default=None)
    around = ctx.ancestors(first) if first is not None else ()
    return next((one for one in reversed([*around]) if isinstance(one, ast.JoinedStr)), first)


def _is_argument(node: ast.expr, ctx: Context) -> bool:
    """Whether the expression is called, or passed to a call."""
    around = ctx.parent(node)
    return isinstance(node, ast.Call) or isinstance(around, ast.Call | ast.keyword)


def _place(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _is_at_top(scope: Scope) -> bool:
    """Whether the code runs with the file (at its top level, in class bodies, or in comprehensions there)."""
    at: Scope | None = scope
    while at is not None and at.kind in (ScopeKind.COMPREHENSION, ScopeKind.CLASS):
        at = at.parent
    return at is not None and at.kind is ScopeKind.MODULE


def _parsed(ctx: Context) -> ast.Call | None:
    """The call that parses the command line, in a function that nobody calls and that is a whole program."""
    for call, at in ctx.calls("parse_args"):
        function = at.scope.function
        if call.args or function is None:
            continue
        if any(isinstance(other.func, ast.Name) for other, _ in ctx.calls(function.name)):
            continue
        if ctx.devices.moves_in(function):
            return call
    return None


def _places(block: list[ast.stmt], ctx: Context) -> bool:
    """Whether names in the block put something on a device, apart from a module's own checks."""
    for node in (node for statement in block for node in ast.walk(statement)):
        if isinstance(node, ast.Constant) and str(node.value).startswith(("cuda", "jax")):
            return True
        if isinstance(node, ast.Call) and ctx.devices.moves(node):
            return True
        name = ctx.names.qualified(node) if isinstance(node, ast.Name | ast.Attribute) else None
        if name is not None and ctx.devices.moves_by_name(name):
            return True
    return False


def _enable(block: ast.If | None, ctx: Context) -> Fix | None:
    """The fix that enters the torchax environment after the imports, or in a block."""
    title = f'add `{ENABLE}()`, which makes the device `"jax"` available'
    if ctx.program.keeps_cuda:
        edits = _where_no_cuda(ctx)
        if edits is None:
            return None
        return ctx.rewrite.fix(title, *edits, applicability=Applicability.UNSAFE)
    early = None if block is not None else _first_moving_import(ctx)
    needed = (f"import {PACKAGE}", *_needed(ctx), *(() if early is None else _imported_ahead(early, ctx)))
    imports = ctx.rewrite.imports(*needed)
    if imports is None:
        return None
    lines = [*_asked_for(ctx, _LINES), f"{ENABLE}()", *_sharding(ctx)]
    if block is not None:
        first = block.body[0]
        call = ctx.rewrite.insert_before(first, ctx.rewrite.lines(first, *lines))
        return ctx.rewrite.fix(title, *imports, call, applicability=Applicability.UNSAFE)
    move = early or _first_move(ctx)
    if early is not None:
        imports = tuple(Import(one.statement, ahead_of=ctx.tree.body.index(early)) for one in imports)
    code = ctx.source.newline.join(lines)
    call = ctx.rewrite.insert_below_imports(code, move)
    return ctx.rewrite.fix(title, *imports, call, applicability=Applicability.UNSAFE)


def _first_moving_import(ctx: Context) -> ast.Import | ast.ImportFrom | None:
    """The first import of the file that puts tensors on a device, in a file of the project; else None."""
    for node in ctx.tree.body:
        if isinstance(node, ast.Import | ast.ImportFrom) and ctx.devices.moves_by_import(node):
            return node
    return None


def _imported_ahead(early: ast.Import | ast.ImportFrom, ctx: Context) -> tuple[str, ...]:
    """The import of torchvision, if the program would import it inside the environment."""
    first = ctx.names.first_import("torchvision")
    if first is not None and first.lineno < early.lineno:
        return ()
    return ("import torchvision",) if ctx.program.imports_package("torchvision") else ()


def _where_no_cuda(ctx: Context) -> tuple[Change, ...] | None:
    imports = ctx.rewrite.imports("import torch")
    if imports is None:
        return None
    if imports:
        return imports  # it is asked for CUDA, with the next round
    needed = [] if ctx.names.is_bound(PACKAGE) else [f"import {PACKAGE}"]
    lines = [*needed, *_needed(ctx), *_asked_for(ctx, _LINES)]
    lines += [f"{ENABLE}()", *_sharding(ctx)]
    return (ctx.rewrite.only_without_cuda(Import(ctx.source.newline.join(lines))),)


def _asked_for(ctx: Context, lines: Mapping[str, tuple[str, ...]]) -> list[str]:
    """The lines that the project settings ask for besides."""
    return [line for one in ctx.program.environment for line in lines.get(one, ())]


def _sharding(ctx: Context) -> list[str]:
    lines = []
    if ctx.program.has_rank_per_device:
        lines = [f"{ONE_RANK_PER_DEVICE}()"]
    elif "mesh" in ctx.program.environment or ctx.program.splits_batches:
        lines = [_SHARDED]
    rules, devices = ctx.program.sharding
    if rules:
        lines += [
            f"{_BY_NAME}(",
            "    {",
            *(f"        {_quoted(pattern)}: {_tuple(given)}," for pattern, given in rules),
            "    },",
            *([f"    devices={devices},"] if devices else []),
            ")",
        ]
    return lines


def _tuple(dimensions: Sequence[str]) -> str:
    texts = [f'"{one}"' if one else "None" for one in dimensions]
    return f"({', '.join(texts)}{',' if len(texts) == 1 else ''})"


def _quoted(pattern: str) -> str:
    """A regular expression as a raw string, if it can be one."""
    is_raw = '"' not in pattern and not pattern.endswith("\\")
    return f'r"{pattern}"' if is_raw else repr(pattern)


def _needed(ctx: Context) -> list[str]:
    """The imports that these lines need."""
    return _asked_for(ctx, _NEEDED)
