"""The commands that install what fixed programs need."""

from __future__ import annotations

from tpulint.knowledge.packages import CPU_INDEX
from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.versions import TESTED

_EXTRAS = {"tpu": "[tpu]", "gpu": "[cuda12]", "cpu": ""}


def torch_command() -> str:
    """The command that installs torch and torchvision as builds for CPUs, as JAX uses the accelerator."""
    versions = f"torch=={TESTED['torch']} torchvision=={TESTED['torchvision']}"
    return f"pip install {versions} --index-url {CPU_INDEX}"


def commands(accelerator: str, *, runtime: bool = True) -> tuple[str, ...]:
    """The commands for a host with an accelerator: `tpu`, `gpu` or `cpu`.

    `runtime` says whether they install the runtime, too.
    """
    jax = f"'jax{_EXTRAS[accelerator]}=={TESTED['jax']}'"
    return (
        torch_command(),
        f"pip install torchax=={TESTED['torchax']} {jax}{f' {DISTRIBUTION}' if runtime else ''}",
    )
