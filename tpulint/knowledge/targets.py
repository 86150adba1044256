"""The libraries through which fixed programs use a TPU, as data.

Measured with torchax 0.0.14.dev20261026 on torch 2.13.0, with torch_xla 2.9.0 on torch 2.9.0 on the CPU, and
with torch-tpu 0.2.0 on torch 2.13.0, which was imported on a host without a TPU.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from tpulint.knowledge.runtime import PACKAGE as RUNTIME
from tpulint.knowledge.waiting import WAIT_FOR_ALL

_PACKAGE = re.compile(r"(?<![\w.])(jax|torch|torchax|torch_xla)(?=\.)")
_DEVICE = re.compile(r"""(["'`])jax\1""")


@dataclass(frozen=True, slots=True)
class Target:
    """A library that lets PyTorch use a TPU.

    Expressions are Python code; `{}` stands for an argument. An expression is empty where there is none.

    Args:
        name: the name in settings and options.
        title: what messages call the library.
        device: the device type, as in `tensor.to(...)` and `torch.autocast(...)`.
        available: whether there is a TPU.
        synchronize: waits for the device.
        seed: seeds the device, besides `torch.manual_seed`.
        backend: the backend of process groups whose tensors are on the device.
        group_arguments: what else `init_process_group` needs with this backend.
        launch: the function that starts another one in a process for each device.
        save: the function that saves tensors of the device as tensors of the host.
        save_import: the import of this function.
        loads: whether `torch.load` can load tensors onto the device.
        device_import: the import without which the device does not exist.
        backend_import: the import without which the backend does not exist.
        packages: packages that fixed programs may import, besides PyTorch.
    """

    name: str
    title: str
    device: str
    available: str
    synchronize: str
    seed: str
    backend: str
    group_arguments: str = ""
    launch: str = ""
    save: str = ""
    save_import: str = ""
    loads: bool = False
    device_import: str = ""
    backend_import: str = ""
    packages: frozenset[str] = field(default_factory=frozenset)

    def spelled(self, text: str) -> str:
        """Code or a message about the torchax device, about the device of this target."""
        text = text.replace("torchax device", f"{self.title} device") if self is not TORCHAX else text
        return _DEVICE.sub(rf"\1{self.device}\1", text)

    def needed_for(self, code: str) -> tuple[str, ...]:
        """The import statements that an expression of this target needs."""
        return tuple(f"import {name}" for name in sorted(set(_PACKAGE.findall(code))))

    def imports(self, statement: str) -> bool:
        """Whether fixed programs may import what an import statement imports."""
        package = statement.split()[1].partition(".")[0]
        return package not in _OF_TARGETS or package in self.packages


TORCHAX = Target(
    name="torchax",
    title="torchax",
    device="jax",
    available="torch.accelerator.is_available()",
    synchronize=WAIT_FOR_ALL,
    seed="torchax.default_env().manual_seed({})",
    backend="",
    packages=frozenset({"torchax", "jax", RUNTIME}),
)

TORCH_XLA = Target(
    name="torch_xla",
    title="`torch_xla`",
    device="xla",  # tpulint: ignore[XLA101]
    available='torch_xla.runtime.device_type() == "TPU"',
    synchronize="torch_xla.sync(wait=True)",
    seed="torch_xla.manual_seed({})",
    backend="xla",
    group_arguments='init_method="xla://"',
    launch="torch_xla.launch",
    save="xm.save",
    save_import="import torch_xla.core.xla_model as xm",
    device_import="import torch_xla",
    backend_import="import torch_xla.distributed.xla_backend",
    packages=frozenset({"torch_xla"}),
)

TORCHTPU = Target(
    name="torchtpu",
    title="TorchTPU",
    device="tpu",
    available="torch.accelerator.is_available()",
    synchronize="torch.accelerator.synchronize()",
    seed="",
    backend="tpu_dist",
    loads=True,
    packages=frozenset({"torch_tpu"}),
)

TARGETS = {one.name: one for one in (TORCHAX, TORCH_XLA, TORCHTPU)}
"""The targets by name, the default first."""

EVERY_TARGET = frozenset(TARGETS)

_OF_TARGETS = frozenset[str]().union(*(one.packages for one in TARGETS.values()))
