"""Where JAX runs in the workers: what is asked for if it is there, the host's CPU otherwise."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import tpulint

_JAX_NAMES = {"cpu": "cpu", "gpu": "cuda", "tpu": "tpu"}
PLATFORMS = ("auto", *_JAX_NAMES)


@dataclass(frozen=True, slots=True)
class Platform:
    """The chosen platform, the environment of the workers, and a note where a wish was not fulfilled."""

    name: str
    environment: Mapping[str, str]
    note: str = ""

    @property
    def exclusive(self) -> bool:
        """Whether only one process at a time can hold it."""
        return self.name == "tpu"


def choose(wanted: str) -> Platform:
    """The platform asked for, or the CPU with a note; `auto` takes an accelerator that is attached."""
    if wanted not in PLATFORMS:
        raise ValueError(f"platform {wanted!r} is none of {', '.join(PLATFORMS)}")
    candidates = [wanted] if wanted != "auto" else [name for name in ("tpu", "gpu") if _attached(name)]
    for name in candidates:
        if name == "cpu" or _opens(name):
            note = "" if wanted != "auto" else f"running on the attached {name.upper()}"
            return Platform(name, _environment(name), note)
    note = (
        "" if wanted == "auto" and not candidates else f"no {candidates[0].upper()} here: running on the CPU"
    )
    return Platform("cpu", _environment("cpu"), note)


def _attached(name: str) -> bool:
    if name == "tpu":
        return any(Path("/dev").glob("accel*")) and importlib.util.find_spec("libtpu") is not None
    return Path("/dev/nvidia0").exists()


def _opens(name: str) -> bool:
    code = f"import jax; assert jax.devices()[0].platform in ({_JAX_NAMES[name]!r}, {name!r})"
    try:
        run = subprocess.run(
            [sys.executable, "-P", "-c", code],
            env=_environment(name),
            capture_output=True,
            timeout=120,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return False
    return run.returncode == 0


def _environment(name: str) -> dict[str, str]:
    """What must stand before jax is imported."""
    own = str(Path(tpulint.__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, [own, os.environ.get("PYTHONPATH")])),
        # With libtpu installed, jax would else try to open a TPU on a host without one.
        "JAX_PLATFORMS": _JAX_NAMES[name] if name == "cpu" else f"{_JAX_NAMES[name]},cpu",
        # Compilers for TPU in two processes at once would else abort on libtpu's lock file.
        "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
        "TPU_MIN_LOG_LEVEL": "3",
        "TPU_STDERR_LOG_LEVEL": "3",
        "TF_CPP_MIN_LOG_LEVEL": "3",
    }
    if name != "tpu":
        # Without a TPU, libtpu would else ask the cloud's metadata server, which is not there either.
        environment["TPU_SKIP_MDS_QUERY"] = "1"
    if name != "cpu":
        # The reference is computed in full precision, so this is too.
        environment["JAX_DEFAULT_MATMUL_PRECISION"] = "highest"
    return environment
