"""Requirement that is built for CUDA.

## What it does

Reports, in requirements files, `pyproject.toml`, `setup.cfg`, `setup.py`, conda environments, and commands of
Dockerfiles, shell scripts and notebooks that install packages:

- versions of torch with a local part for CUDA or ROCm, such as `torch==2.1.0+cu121`;
- libraries of CUDA, such as `nvidia-cublas-cu12`, `cudatoolkit` and `pytorch-cuda`;
- JAX with an extra for CUDA, such as `jax[cuda12]`;
- packages with kernels for NVIDIA GPUs, such as `flash-attn`, `cupy-cuda12x` and `onnxruntime-gpu`.

## Why it matters on TPU

- On a TPU host, torch computes on the CPU, and torchax computes on the TPU. A build of torch for CUDA
  downloads gigabytes that nothing uses, and a version with `+cu121` is not on the index of CPU builds.
- JAX without the extra `tpu` does not install libtpu, so that it does not find the TPU.
- Packages with kernels for GPUs do not install without CUDA, or fail when they are imported.

## Fix safety

The fix is unsafe: a machine with a GPU that installs the same requirements gets builds without CUDA.

- `+cu121` becomes `+cpu`.
- `jax[cuda12]` becomes `jax[tpu]`.
- Libraries of CUDA are removed.
- Packages that exist in a version for CPUs are renamed, such as `onnxruntime-gpu` to `onnxruntime`.

## Without a fix

Packages with kernels for NVIDIA GPUs stay, because the code may import them.
The message says what to use instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from tpulint.knowledge.packages import CUDA_LIBRARIES, FOR_CPUS, KERNELS, KERNELS_FOR_CUDA
from tpulint.knowledge.targets import EVERY_TARGET
from tpulint.rules_api import Applicability, Finding, Rule, Severity, Span
from tpulint.rules_api.files import FileContext, Requirement

rule = Rule(
    "ENV101",
    "requirement that is built for CUDA",
    module=__name__,
    fix=Applicability.UNSAFE,
    targets=EVERY_TARGET,
)

_LOCAL = re.compile(r"\+(?:cu\d+|rocm[\d.]+)")
_EXTRA = re.compile(r"cuda\d*(?:-[a-z]+|_[a-z0-9]+)*")


@rule.on_part(Requirement)
def local_version(found: Requirement, ctx: FileContext) -> Iterator[Finding]:
    match = _LOCAL.search(found.text)
    if match is None or found.is_conda:
        return
    start = ctx.contents.index(match[0], found.span.start)
    fix = ctx.replace("use the build for CPUs", Span(start, start + len(match[0])), "+cpu")
    yield ctx.finding(
        found,
        f"`{found.name}` is built for CUDA (`{match[0]}`); on a TPU host, torch computes on the CPU",
        fix,
        severity=Severity.COSMETIC,
    )


@rule.on_part(Requirement)
def library(found: Requirement, ctx: FileContext) -> Iterator[Finding]:
    if CUDA_LIBRARIES.fullmatch(found.name) is None or (found.name == "cuda" and not found.is_conda):
        return
    fix = ctx.remove(f"remove `{found.name}`", found)
    message = f"`{found.name}` is a library for NVIDIA GPUs, which nothing uses on TPU"
    yield ctx.finding(found, message, fix, severity=Severity.COSMETIC)


@rule.on_part(Requirement)
def jax_extra(found: Requirement, ctx: FileContext) -> Iterator[Finding]:
    extra = next((one for one in sorted(found.extras) if _EXTRA.fullmatch(one)), None)
    if found.name != "jax" or extra is None:
        return
    start = ctx.contents.index(extra, found.span.start)
    fix = ctx.replace("use the extra `tpu`", Span(start, start + len(extra)), "tpu")
    yield ctx.finding(
        found, f"`jax[{extra}]` does not install libtpu, so that JAX does not find the TPU", fix
    )


@rule.on_part(Requirement)
def package(found: Requirement, ctx: FileContext) -> Iterator[Finding]:
    if found.name in FOR_CPUS:
        other = FOR_CPUS[found.name]
        start = found.span.start + ctx.text(found.span).lower().replace("_", "-").index(found.name)
        fix = ctx.replace(f"use `{other}`", Span(start, start + len(found.name)), other)
        yield ctx.finding(found, f"`{found.name}` needs CUDA; `{other}` is for the CPU", fix)
        return
    match = KERNELS_FOR_CUDA.fullmatch(found.name)
    name = match[1] if match else found.name
    if name in KERNELS:
        yield ctx.finding(found, f"`{found.name}` needs an NVIDIA GPU; {KERNELS[name]}")
