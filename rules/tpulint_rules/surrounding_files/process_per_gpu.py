"""Command that starts one process for each GPU.

## What it does

Reports `torchrun`, `torch.distributed.launch`, `accelerate launch`, `deepspeed` and `horovodrun` in shell
scripts and Dockerfiles if they start, or may start, several processes on a host.

## Why it matters on TPU

With the runtime torchax-compat, one process uses all chips of a host, as many ranks as there are chips.
A second process on the same host does not get the TPU: the runtime raises `RuntimeError`.

## Fix safety

The fix is unsafe, because on a machine with GPUs the command then starts one process.
It sets `--nproc_per_node` to 1.

## Without a fix

Start the program with `python`, or with `torchrun --nproc_per_node=1` on each of several hosts.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpulint.rules_api import Applicability, Finding, Rule
from tpulint.rules_api.files import Command, FileContext

rule = Rule(
    "ENV105", "command that starts one process for each GPU", module=__name__, fix=Applicability.UNSAFE
)

_PER_NODE = ("--nproc_per_node", "--nproc-per-node")
_LAUNCHERS = {"deepspeed": "deepspeed", "horovodrun": "horovodrun"}


@rule.on_part(Command)
def launcher(found: Command, ctx: FileContext) -> Iterator[Finding]:
    texts = [word.text for word in found.words]
    if found.program == "torchrun" or "torch.distributed.run" in texts or "torch.distributed.launch" in texts:
        option = found.option(*_PER_NODE)
        if option is None or option[1] == "1":
            return
        _, value, span = option
        fix = ctx.replace("set the number of processes to 1", span, "1") if value else None
        yield ctx.finding(
            found, "this starts several processes on a host; on TPU, one process uses all chips", fix
        )
        return
    if found.program == "accelerate" and "launch" in texts[1:2]:
        count = found.option("--num_processes", "--num-processes")
        if count is not None and count[1] != "1":
            yield ctx.finding(
                found, "this starts several processes on a host; on TPU, one process uses all chips"
            )
        return
    if found.program in _LAUNCHERS:
        yield ctx.finding(
            found,
            f"`{found.program}` starts one process for each GPU; on TPU, start the program with `python`",
        )
