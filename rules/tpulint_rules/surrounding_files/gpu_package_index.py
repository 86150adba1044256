"""Package index, or conda channel, with builds for CUDA.

## What it does

Reports addresses of packages that are built for CUDA or ROCm, such as
`https://download.pytorch.org/whl/cu121`, and the conda channel `nvidia`.

## Why it matters on TPU

On a TPU host, torch computes on the CPU, and torchax computes on the TPU.
From these addresses, pip installs builds for CUDA, with gigabytes of libraries that nothing uses.

## Fix safety

The fix is unsafe: a machine with a GPU that installs the same requirements gets builds without CUDA.

- The address of builds of torch for CUDA becomes `https://download.pytorch.org/whl/cpu`.
- The channel `nvidia`, and the address of former builds of jaxlib for CUDA, are removed.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpulint.knowledge.packages import CPU_INDEX, JAX_INDEX, OTHER_INDEX, TORCH_INDEX
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Finding, Rule, Severity, Span
from tpulint.rules_api.files import Address, FileContext

rule = Rule(
    "ENV102",
    "package index, or conda channel, with builds for CUDA",
    module=__name__,
    fix=Applicability.UNSAFE,
    severity=Severity.COSMETIC,
    targets=EVERY_TARGET,
)


@rule.on_part(Address)
def index(found: Address, ctx: FileContext) -> Iterator[Finding]:
    match = TORCH_INDEX.match(found.address)
    if match is not None:
        start = found.span.start + match.start(1)
        other = ctx.replace(f"use {CPU_INDEX}", Span(start, start + len(match[1])), "cpu")
        yield ctx.finding(
            found, f"this index has builds of torch for `{match[1]}`, which a TPU host does not need", other
        )
    elif found.address == "nvidia":
        fix = ctx.remove("remove the channel", found)
        yield ctx.finding(
            found, "the channel `nvidia` has libraries for NVIDIA GPUs, which nothing uses on TPU", fix
        )
    elif JAX_INDEX.match(found.address):
        fix = ctx.remove("remove the address", found)
        yield ctx.finding(
            found, "this page lists former builds of jaxlib; `jax[tpu]` is on the package index", fix
        )
    elif OTHER_INDEX.match(found.address):
        yield ctx.finding(found, "this index has packages for NVIDIA GPUs, which nothing uses on TPU")
