"""Writes `tpulint/knowledge/torchtpu_api.py` from an installed torch-tpu.

It needs no TPU: torch-tpu notes at each function of `torch.tpu` who it is for.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

TARGET = Path(__file__).parents[1] / "knowledge" / "torchtpu_api.py"

_PROBE = """
import importlib, importlib.metadata, inspect, json, sys, torch
from torch_tpu._internal import public_api
from torch_tpu._internal.utils.annotations import TT_API_PREFER, TT_API_STAGE

def read(target):  # without calling what starts the TPU
    module, _, path = target.partition(":")
    try:
        value = importlib.import_module(module)
        for name in path.split("."):
            value = inspect.getattr_static(value, name)
    except (AttributeError, ImportError):
        return None
    return getattr(value, "__func__", value)

found = []
for module, spec in public_api._PUBLIC_MODULES.items():
    for name, target in spec.exports.items():
        value = read(target) if isinstance(target, str) else None
        words = [getattr(value, key, None) for key in (TT_API_STAGE, TT_API_PREFER)]
        found.append([f"{module}.{name}", *words])
versions = [importlib.metadata.version(name) for name in ("torch_tpu", "torch")]
json.dump({"versions": versions, "found": found}, sys.stdout)
"""

_HEADER = '''"""The functions of `torch.tpu`, and what to call for internal ones; generated, do not edit.

Source: torch-tpu {version} on torch {torch}, on a host without a TPU, read by
`python -m tpulint.dev torchtpu-table`.
"""

TORCH_TPU_VERSION = "{version}"

'''


def write(interpreter: str) -> int:
    """Write the table from what an interpreter has installed; the number of functions in it."""
    environment = {name: text for name, text in os.environ.items() if not name.startswith("PYTHON")}
    ended = subprocess.run(
        [interpreter, "-W", "ignore", "-c", _PROBE],
        capture_output=True,
        text=True,
        check=True,
        env=environment,
        timeout=300,
    )
    told = json.loads(ended.stdout.splitlines()[-1])
    TARGET.write_text(_table(told["versions"], told["found"]), encoding="utf-8")
    return len(told["found"])


def _table(versions: list[str], found: list[tuple[str, str | None, str | None]]) -> str:
    version, torch = versions
    lines = [_HEADER.format(version=version, torch=torch.partition("+")[0])]
    lines += [
        "#: Functions that raise unless PyTorch calls them, and what programs call instead.\n",
        "INTERNAL = {\n",
    ]
    internal = [(name, prefer) for name, stage, prefer in sorted(found) if stage == "Internal" and prefer]
    lines += [f'    "{name}": "{prefer}",\n' for name, prefer in internal]
    lines += ["}\n\n", "#: All names that `torch.tpu` offers.\n", "NAMES = frozenset(\n    {\n"]
    lines += [f'        "{name}",\n' for name, _, _ in sorted(found)]
    return "".join([*lines, "    }\n)\n"])
