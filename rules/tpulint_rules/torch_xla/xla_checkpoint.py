"""File that torch_xla saves or loads.

## What it does

Reports `xm.save`, and `save` and `load` of `torch_xla.utils.serialization`.

## Why it matters on TPU

Without torch_xla, these functions do not exist.
`xm.save` copies tensors to the host before it saves them.
torchax tensors need this as well: `torch.save` of a torchax tensor raises.

## Fix safety

The fix is unsafe, because it is a part of the change from torch_xla to torchax.

- `xm.save(state, path)` becomes `torch.save` of `state` with all of its tensors copied to the host, as
  `xm.save` copies them. The file is the same, and files that `xm.save` wrote can be loaded.
- `save` of `torch_xla.utils.serialization` writes a file for each tensor. The fix writes a single file
  instead, with `torch.save`, and `torch.load` cannot load the old files: convert them with torch_xla, with
  `torch.save(xser.load( old), new)`.
- Arguments that say which process saves are removed.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.torch_xla import short_name
from tpulint.rules_api import Applicability, Context, Finding, Fix, Rule

rule = Rule("XLA108", "file that `torch_xla` saves or loads", module=__name__, fix=Applicability.UNSAFE)

_PARAMETERS = {
    "xm.save": ("data", "file_or_path", "master_only", "global_master"),
    "xser.save": ("data", "path", "master_only", "global_master"),
    "xser.load": ("path",),
}


@rule.on(ast.Call, named={"save", "load"})
def saved(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    name = short_name(ctx.names.qualified(call.func))
    if name not in _PARAMETERS or not ctx.program.runs_on_torch_xla:
        return
    if name == "xser.load":
        message = f"`{name}` reads files of `torch_xla`, which PyTorch cannot read"
    else:
        message = f"`{name}` saves tensors of `torch_xla`; save a copy on the host with `torch.save` instead"
    yield ctx.finding(call, message, _fix(call, name, ctx))


def _fix(call: ast.Call, name: str, ctx: Context) -> Fix | None:
    given = dict(zip(_PARAMETERS[name], call.args, strict=False))
    given |= {word.arg: word.value for word in call.keywords if word.arg is not None}
    path = given.get("file_or_path", given.get("path"))
    if path is None or any(isinstance(one, ast.Starred) for one in call.args):
        return None
    if name == "xser.load":
        imports = ctx.rewrite.imports("import torch")
        new = f"torch.load({ctx.text(path)})"
    elif "data" in given:
        imports = ctx.rewrite.imports("import torch", "from torch.utils._pytree import tree_map_only")
        data = f"tree_map_only(torch.Tensor, torch.Tensor.cpu, {ctx.text(given['data'])})"
        new = f"torch.save({data}, {ctx.text(path)})"
    else:
        return None
    if imports is None:
        return None
    title = f"replace `{name}` with `torch.{name.rpartition('.')[2]}`"
    edit = ctx.rewrite.replace(call, new)
    return ctx.rewrite.fix(title, edit, *imports, applicability=Applicability.UNSAFE)
