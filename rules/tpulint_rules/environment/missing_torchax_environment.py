"""Program that never enters the torchax environment.

## What it does

Flags the entry point (`if __name__ == "__main__":`) of a program that puts tensors on a device, itself or
in a module of the project that it imports, where no module of the program calls
`torchax.enable_globally()` or enters `torchax.default_env()`.

## Why it matters on TPU

Without the environment, `.to("jax")` raises `RuntimeError: PyTorch is not linked with support for jax
devices`, and tensors made inside an environment raise `torchax Tensors can only do math within the torchax
environment` outside of it.

## Fix safety

Unsafe: `import torchax` and `torchax.enable_globally()` are put behind the imports.
They must come after `import torchvision`, whose import fails inside the environment.
Importing torchax changes some of torch at once: `torch.compile`, `DataParallel` and
`DataLoader(pin_memory=True)` stop working.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.finding import Applicability, Finding, Fix
from tpulint.model.imports import end_of_imports
from tpulint.rule import Context, Rule

rule = Rule(
    "TPU001", "program that never enters the torchax environment", module=__name__, fix=Applicability.UNSAFE
)


@rule.on(ast.Module)
def program(tree: ast.Module, ctx: Context) -> Iterator[Finding]:
    entry = next((node for node in tree.body if _is_entry(node)), None)
    if not isinstance(entry, ast.If):
        return
    modules = list(ctx.module.project.program(ctx.module.name))
    if not any(facts.places for facts in modules) or any(facts.enters for facts in modules):
        return
    message = 'the program never enters the torchax environment, without which `.to("jax")` raises'
    yield ctx.finding(entry.test, message, _enable(ctx))


def _is_entry(node: ast.stmt) -> bool:
    match node:
        case ast.If(
            test=ast.Compare(left=ast.Name(id="__name__"), comparators=[ast.Constant(value="__main__")])
        ):
            return True
        case _:
            return False


def _enable(ctx: Context) -> Fix | None:
    imports = ctx.imports("import torchax")
    if imports is None:
        return None
    newline = ctx.module.source.newline
    call = ctx.insert(end_of_imports(ctx.module), f"{newline}torchax.enable_globally(){newline}")
    together = [edit for edit in imports if edit.span == call.span]
    for edit in together:
        call = ctx.insert(call.span.start, edit.content + call.content)
    apart = [edit for edit in imports if edit not in together]
    title = "enter it with `torchax.enable_globally()`"
    return ctx.fix(title, *apart, call, applicability=Applicability.UNSAFE)
