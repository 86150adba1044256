"""Command, or option of a batch system, that needs an NVIDIA GPU.

## What it does

Reports, in shell scripts and Dockerfiles:

- `nvidia-smi` and `nvcc`;
- `docker run --gpus`, and `--runtime=nvidia`;
- `module load cuda` and the like;
- packages of CUDA that `apt-get install` installs;
- `#SBATCH --gres=gpu:8`, and other options of batch systems that ask for GPUs.

It also reports `runtime: nvidia` and `driver: nvidia` in Compose files.

## Why it matters on TPU

A TPU host has neither these commands nor such devices, so that the command fails, and with `set -e` the
script.

## Without a fix

- `tpu-info`, from the package of the same name, prints what `nvidia-smi` prints for GPUs.
- `docker run --privileged` gives a container access to the TPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Effort, Finding, Rule, Severity
from tpulint.rules_api.files import Command, Directive, FileContext, Setting

rule = Rule(
    "ENV106",
    "command, or option of a batch system, that needs an NVIDIA GPU",
    module=__name__,
    fix=None,
    targets=EVERY_TARGET,
    effort=Effort.MINUTES,
)

_COMMANDS = {
    "nvidia-smi": "a TPU host has no `nvidia-smi`; the package `tpu-info` prints memory and use of the chips",
    "nvcc": "a TPU host has no `nvcc`, so that kernels in CUDA are not compiled",
    "nvidia-docker": "a TPU host has no `nvidia-docker`; use `docker run --privileged`",
    "nsys": "a TPU host has no `nsys`; `jax.profiler` records what a TPU does",
    "ncu": "a TPU host has no `ncu`; `jax.profiler` records what a TPU does",
}
_MODULES = re.compile(r"(?:cuda|cudnn|nccl|nvidia|nvhpc)\b.*", re.IGNORECASE)
_SYSTEM_PACKAGES = re.compile(
    r"(?:cuda(?=$|-|=)|libcudnn|libnccl|libnvinfer|nvidia|libcublas)[a-z0-9.+-]*(?:=.*)?"
)
_BATCH = re.compile(r".*(?:gres[= ]gpu|--gpus|--gpu-|ngpus|:gpus?[=:]).*|-G[ =]?\d.*")


@rule.on_part(Command)
def command(found: Command, ctx: FileContext) -> Iterator[Finding]:
    texts = [word.text or "" for word in found.words]
    if found.program in _COMMANDS:
        yield ctx.finding(found, _COMMANDS[found.program])
    elif found.program == "docker" and (found.option("--gpus") or _has_runtime(found)):
        yield ctx.finding(
            found, "`--gpus` fails on a TPU host; `--privileged` gives the container access to the TPU"
        )
    elif (
        found.program == "module"
        and texts[1:2] in (["load"], ["add"])
        and any(map(_MODULES.fullmatch, texts[2:]))
    ):
        yield ctx.finding(found, "this module is for NVIDIA GPUs, and not there on a TPU host")
    elif found.program in ("apt", "apt-get") and "install" in texts:
        for word in found.words:
            if word.text and _SYSTEM_PACKAGES.fullmatch(word.text):
                message = f"`{word.text}` is for NVIDIA GPUs, and nothing uses it on TPU"
                yield ctx.finding(word.span, message, severity=Severity.COSMETIC)


def _has_runtime(found: Command) -> bool:
    option = found.option("--runtime")
    return option is not None and option[1] == "nvidia"


@rule.on_part(Directive)
def directive(found: Directive, ctx: FileContext) -> Iterator[Finding]:
    if _BATCH.fullmatch(found.option):
        yield ctx.finding(found, "this asks the batch system for GPUs")


@rule.on_part(Setting)
def service(found: Setting, ctx: FileContext) -> Iterator[Finding]:
    if found.value == "nvidia" and found.keys[-1:] in (("runtime",), ("driver",)):
        yield ctx.finding(
            found,
            "the driver `nvidia` is not there on a TPU host; `privileged: true` gives access to the TPU",
        )
