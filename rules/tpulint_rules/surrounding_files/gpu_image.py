"""Container image with CUDA.

## What it does

Reports images with CUDA or ROCm in `FROM` of Dockerfiles and in `image:` of Compose files and manifests, such
as `nvidia/cuda:12.1.0-base` and `pytorch/pytorch:2.4.0-cuda12.1-cudnn9-runtime`.

## Why it matters on TPU

Such an image has several gigabytes of libraries that nothing uses on TPU, and often a build of torch for
CUDA.

## Without a fix

Which image fits depends on what else the container needs.
An image with Python is enough for torchax, such as `python:3.12`: `pip install jax[tpu]` installs libtpu.
A container on a TPU host needs access to the TPU: start it with `docker run --privileged`.
"""

from __future__ import annotations

from collections.abc import Iterator

from tpulint.knowledge.packages import IMAGES
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Effort, Finding, Rule, Severity
from tpulint.rules_api.files import FileContext, Image

rule = Rule(
    "ENV103",
    "container image with CUDA",
    module=__name__,
    fix=None,
    targets=EVERY_TARGET,
    severity=Severity.COSMETIC,
    effort=Effort.MINUTES,
)


@rule.on_part(Image)
def image(found: Image, ctx: FileContext) -> Iterator[Finding]:
    if IMAGES.fullmatch(found.name):
        yield ctx.finding(
            found,
            "this image has libraries for GPUs, which nothing uses on TPU; `python:3.12` is enough",
        )
