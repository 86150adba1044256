"""The environments of fixture cases that do not run beside torch and torchax, as data.

`run.py` of such a case names its environment: `environment = "tensorflow"`.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tpulint.digest import digest
from tpulint.evidence.lock import versions

FOLDER = "environments"
"""The folder of the pins, and of what cases put in place of hardware, below the fixtures."""


@dataclass(frozen=True, slots=True)
class Environment:
    """An environment, whose packages are pinned in `fixtures/environments/NAME.txt`.

    `make verify-NAME` creates it as `.venv-NAME`, and executes its cases.
    An environment with `packages` is the one that tpulint itself runs in; outcomes depend on these packages.
    """

    name: str
    title: str
    variables: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of its processes."""
    packages: tuple[str, ...] = ()

    @property
    def command(self) -> str:
        """The command that executes its cases."""
        return f"make verify-{self.name}"

    def interpreter(self, root: Path) -> Path:
        """The interpreter in a checkout."""
        return Path(sys.executable) if self.packages else root / f".venv-{self.name}" / "bin" / "python"

    def record(self, fixtures: Path) -> Path:
        """The file with the recorded outcomes."""
        return fixtures / f"evidence-{self.name}.json"

    def pins(self, fixtures: Path) -> str:
        """What outcomes depend on: the pinned packages, or the versions that are installed here."""
        if self.packages:
            return ", ".join(f"{name} {versions()[name]}" for name in ("python", *self.packages))
        return (fixtures / FOLDER / f"{self.name}.txt").read_text("utf-8")

    def seal(self, fixtures: Path) -> str:
        """A digest of the pins and variables, and of what stands in for hardware."""
        standins = [path.read_bytes() for path in sorted((fixtures / FOLDER).glob("*.py"))]
        return digest(
            self.pins(fixtures), *(part for pair in self.variables.items() for part in pair), *standins
        )


_JAX = ("jax", "jaxlib", "numpy")

ENVIRONMENTS = {
    one.name: one
    for one in (
        Environment("jax", "JAX without torchax", packages=_JAX),
        Environment("torchax", "PyTorch and torchax", packages=("torch", "torchax", *_JAX)),
        Environment("torch-xla", "torch_xla on the CPU", {"PJRT_DEVICE": "CPU", "CPU_NUM_DEVICES": "1"}),
        Environment("torchtpu", "TorchTPU without a TPU", {"TPU_SKIP_MDS_QUERY": "1"}),
        Environment("tensorflow", "TensorFlow on the CPU", {"TF_CPP_MIN_LOG_LEVEL": "2"}),
        Environment("frameworks", "Training frameworks with torchax", {"JAX_PLATFORMS": "cpu"}),
    )
}
"""The environments by the name that run.py gives."""
