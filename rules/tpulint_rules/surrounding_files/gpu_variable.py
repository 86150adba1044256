"""Environment variable that only programs on GPUs read.

## What it does

Reports such variables in shell scripts, Dockerfiles, `.env` files, and below `env` and `environment` in YAML
files: `CUDA_VISIBLE_DEVICES`, `NCCL_DEBUG`, `PYTORCH_CUDA_ALLOC_CONF`, `XLA_PYTHON_CLIENT_PREALLOCATE`, and
others.
It also reports variables that name a GPU as the platform of JAX, such as `JAX_PLATFORMS=cuda`.

## Why it matters on TPU

- A variable that only programs on GPUs read has no effect on TPU. `CUDA_VISIBLE_DEVICES=0` does not restrict
  the program to one chip.
- With `JAX_PLATFORMS=cuda`, JAX raises `RuntimeError` on a TPU host.
- `JAX_PLATFORM` and `JAX_USE_GPU` have no effect at all: JAX reads `JAX_PLATFORMS`.

## Fix safety

The fix is unsafe: on a machine with a GPU, the program may use other devices.
It removes the variable where it stands alone, and in front of a command, unless the file uses its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpulint.knowledge.jax_platform import MEMORY, is_gpu
from tpulint.knowledge.jax_platform import VARIABLES as PLATFORM_VARIABLES
from tpulint.knowledge.packages import VARIABLES
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Finding, Rule, Severity
from tpulint.rules_api.files import FileContext, Variable

rule = Rule(
    "ENV104",
    "environment variable that only programs on GPUs read",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
    severity=Severity.COSMETIC,
)

#: Names that JAX does not read.
_UNKNOWN_TO_JAX = frozenset({"JAX_PLATFORM", "JAX_USE_GPU"})


def _is_used(found: Variable, ctx: FileContext) -> bool:
    """Whether the value of the variable is used elsewhere in the file."""
    text, span = ctx.contents, found.span
    use = re.compile(rf"\$(?:{found.name}\b|\{{{found.name}\b)")
    return any(not span.start <= match.start() < span.end for match in use.finditer(text))


@rule.on_part(Variable)
def variable(found: Variable, ctx: FileContext) -> Iterator[Finding]:
    fix = None if _is_used(found, ctx) else ctx.remove(f"remove `{found.name}`", found)
    if found.name in PLATFORM_VARIABLES and is_gpu(found.value):
        message = f"with `{found.name}={found.value}`, JAX does not use the TPU"
    elif found.name in _UNKNOWN_TO_JAX:
        message = f"`{found.name}` has no effect: JAX reads `JAX_PLATFORMS`, and uses the TPU by default"
    elif found.name in MEMORY:
        message = f"`{found.name}` has no effect on TPU: only the GPU client of JAX reads it"
    elif found.name == "XLA_FLAGS" and "--xla_gpu_" in found.value:
        message, fix = "the flags `--xla_gpu_...` have no effect on TPU", None
    else:
        advice = next((advice for pattern, advice in VARIABLES if pattern.fullmatch(found.name)), None)
        if advice is None:
            return
        message = f"`{found.name}` has no effect on TPU" + (f"; {advice}" if advice else "")
    yield ctx.finding(found, message, fix)
