"""Process group with a backend for CUDA.

## What it does

With the targets `torch_xla` and `torchtpu`, reports `torch.distributed.init_process_group` with the backend
`"nccl"`.

## Why it matters on TPU

NCCL does not exist on a TPU host: `init_process_group("nccl")` raises `ValueError: ProcessGroupNCCL is only
supported with GPUs, no GPUs found!`, or that PyTorch does not have NCCL built in.
The backend of torch_xla is `"xla"`, and that of TorchTPU is `"tpu_dist"`.

## Fix safety

The fix is unsafe, because the program then depends on how torch_xla or TorchTPU start processes.

- With the target `torch_xla`, the backend becomes `"xla"`, and `init_method="xla://"` is added. Such a
  program is started with `torchrun`, or with `torch_xla.launch`.
- With the target `torchtpu`, the backend becomes `"tpu_dist"`.

## Without a fix

With the target `torch_xla`, there is no fix if the call also passes a rank, a number of processes, or a
store, which `xla://` does not use. Remove these arguments.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from tpulint.knowledge.targets import TORCH_XLA, TORCHTPU
from tpulint.rules_api import Applicability, Change, Context, Finding, Fix, Rule

rule = Rule(
    "XLA205",
    "process group with a backend for CUDA",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets={TORCH_XLA.name, TORCHTPU.name},
)

_NCCL = "nccl"


@rule.on(ast.Call, named={"init_process_group"})
def started(call: ast.Call, ctx: Context) -> Iterator[Finding]:
    if not ctx.program.starts_group(call) or _NCCL not in ctx.program.group_backends(call):
        return
    message = "the NCCL backend does not exist on a TPU host"
    yield ctx.finding(call, message, _fix(call, ctx))


def _fix(call: ast.Call, ctx: Context) -> Fix | None:
    target = ctx.program.target
    words = {word.arg: word.value for word in call.keywords}
    backend = call.args[0] if call.args else words.get("backend")
    if not isinstance(backend, ast.Constant) or backend.value != _NCCL:
        return None
    changes: list[Change] = [ctx.rewrite.replace(backend, ctx.rewrite.quoted(target.backend, backend))]
    if target.group_arguments:
        if len(call.args) > 1 or not words.keys() <= {"backend", "timeout"}:
            return None
        changes.append(ctx.rewrite.add_argument(call, target.group_arguments))
    imports = ctx.rewrite.imports(*filter(None, [target.backend_import]))
    if imports is None:
        return None
    title = f"replace the backend with `{target.backend}`"
    return ctx.rewrite.fix(title, *changes, *imports, applicability=Applicability.UNSAFE)
