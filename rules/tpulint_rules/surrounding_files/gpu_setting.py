"""Setting that names a CUDA device.

## What it does

Reports values of YAML and TOML files that are the name of a CUDA device or of a backend for GPUs: `cuda`,
`cuda:0` and `nccl`, and `gpu` as the value of `accelerator`, `jax_platform` and `jax_platforms`.

## Why it matters on TPU

The program reads the value and passes it on, to `torch.device`, to `init_process_group`, or to JAX, which
raise errors on a TPU host.

## Without a fix

What the value has to be depends on the code that reads it.
`tpulint fix` rewrites code that reads a device from a configuration, so that `cuda` means the TPU; see
[TPU107](device-from-config.md).
Elsewhere, write `jax` for a device of torchax, `gloo` for a backend, and `tpu` for Lightning and JAX.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpulint.rules_api import Effort, Finding, Rule
from tpulint.rules_api.files import FileContext, Setting

rule = Rule(
    "ENV107",
    "setting that names a CUDA device",
    module=__name__,
    fix=None,
    effort=Effort.MINUTES,
)

_DEVICE = re.compile(r"cuda(?::\d+)?")
_PLATFORM_KEYS = frozenset({"accelerator", "jax_platform", "jax_platforms", "jax_platform_name"})


@rule.on_part(Setting)
def setting(found: Setting, ctx: FileContext) -> Iterator[Finding]:
    key = found.keys[-1] if found.keys else ""
    if _DEVICE.fullmatch(found.value):
        yield ctx.finding(
            found, f"`{found.value}` is not there on a TPU host; a device of torchax is called `jax`"
        )
    elif found.value == "nccl":
        yield ctx.finding(found, "the backend `nccl` is for NVIDIA GPUs; `gloo` works on every host")
    elif found.value == "gpu" and key in _PLATFORM_KEYS:
        yield ctx.finding(found, f"`{key}` names a GPU; on a TPU host, it is `tpu`")
