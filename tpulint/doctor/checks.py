"""The checks of an environment: conclusions from the results of the probes, each with a remedy."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tpulint.doctor.probing import ProbeResults
from tpulint.knowledge.installation import commands, torch_command
from tpulint.knowledge.jax_platform import MEMORY, VARIABLES, is_gpu
from tpulint.knowledge.outdated_api import VARIABLES as UNREAD
from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.versions import COMPARED_BY_RUNTIME, PYTHON, TESTED, conflicts, is_tested

#: The packages that every fixed program needs.
_NEEDED = ("torch", "torchax", "jax", DISTRIBUTION)
#: The relative tolerance for the loss and the gradients of the step.
#: By default, TPUs multiply float32 matrices in bfloat16, which has 8 bits of precision.
_TOLERANCE = 2**-6


class State(StrEnum):
    """The result of a check."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of an environment.

    Args:
        name: what was checked, such as `torchvision`.
        state: the result.
        message: what was found, in one line.
        remedy: what to do, in one line; "" if there is nothing to do.
    """

    name: str
    state: State
    message: str
    remedy: str = ""


def diagnose(probed: ProbeResults) -> list[Check]:
    """The checks of an environment, in the order in which they are printed."""
    return [
        _python(probed),
        *_packages(probed),
        *_conflicts(probed),
        *_shadowed(probed),
        *_torch(probed),
        *_torchvision(probed),
        _devices(probed),
        *_variables(probed.facts["variables"], has_tpu=_has_tpu(probed)),
        _runtime(probed),
        _step(probed),
    ]


def _python(probed: ProbeResults) -> Check:
    from packaging.specifiers import SpecifierSet

    version = str(probed.facts["python"])
    where = f"{version} ({probed.facts['executable']})"
    if SpecifierSet(PYTHON).contains(version, prereleases=True):
        return Check("Python", State.OK, where)
    remedy = f"create an environment with Python {PYTHON.removeprefix('>=')} or newer"
    return Check("Python", State.PROBLEM, f"{where} is too old for torchax and jax", remedy)


def _packages(probed: ProbeResults) -> Iterator[Check]:
    versions = probed.versions
    for name in (*_NEEDED, "torchvision", "libtpu"):
        version = versions.get(name)
        if version is None:
            continue
        if name in COMPARED_BY_RUNTIME and not is_tested(name, version):
            message = f"{version} was not tested, and {DISTRIBUTION} does not accept it"
            yield Check(name, State.PROBLEM, message, f"pip install {name}=={TESTED[name]}")
        elif name in TESTED and not is_tested(name, version):
            yield Check(name, State.WARNING, f"{version}; tested with {TESTED[name]}")
        else:
            yield Check(name, State.OK, version)
    missing = [name for name in _NEEDED if name not in versions]
    if missing:
        yield Check("packages", State.PROBLEM, f"not installed: {', '.join(missing)}", _installation(probed))
    elif "libtpu" not in versions and probed.facts["chips"]:
        message = "not installed, so that JAX does not find the TPU"
        yield Check("libtpu", State.PROBLEM, message, _installation(probed))


def _installation(probed: ProbeResults) -> str:
    return " && ".join(commands(probed.accelerator))


def _conflicts(probed: ProbeResults) -> Iterator[Check]:
    for one in conflicts(probed.versions):
        release = one.wanted if one.changed == "jaxlib" else f"{one.wanted}.*"
        remedy = f"pip install '{one.changed}=={release}'" if one.wanted else ""
        version = probed.versions[one.changed]
        yield Check(one.changed, State.PROBLEM, f"{version} {one.reason}", remedy)


def _shadowed(probed: ProbeResults) -> Iterator[Check]:
    """Packages that are installed twice, and files of the current folder that hide an installed package."""
    here = Path.cwd()
    for name, package in probed.facts["packages"].items():
        installed, module, origin = package["installed"], package["module"], package["origin"]
        if len({one["version"] for one in installed}) > 1:
            versions = ", ".join(f"{one['version']} in {one['folder']}" for one in installed)
            remedy = f"run `pip uninstall {name}` until it is no longer installed, and install it again"
            yield Check(name, State.WARNING, f"installed more than once: {versions}", remedy)
        if origin is None:
            message = f"installed, but `import {module}` does not find it"
            yield Check(name, State.PROBLEM, message, f"pip install --force-reinstall --no-deps {name}")
        elif here in Path(origin).parents[:2] and all(Path(one["folder"]) != here for one in installed):
            message = f"`import {module}` imports {origin}, which hides the installed package"
            yield Check(name, State.PROBLEM, message, f"rename {origin}")


def _torch(probed: ProbeResults) -> Iterator[Check]:
    result = probed.results.get("torch")
    if result is None:
        return
    if "error" in result:
        yield Check("import torch", State.PROBLEM, str(result["error"]), torch_command())
    elif result["cuda"]:
        message = (
            f"built for CUDA {result['cuda']}, which a TPU host does not use; a build for CPUs is smaller"
        )
        yield Check("import torch", State.WARNING, message, torch_command())


def _torchvision(probed: ProbeResults) -> Iterator[Check]:
    name, result = "torchvision operators", probed.results.get("torchvision")
    if result is None:
        return
    if "error" in result:
        yield Check(name, State.PROBLEM, f"they do not load: {result['error']}", torch_command())
    elif result["kept"] != [0]:
        message = f"`torchvision::nms` keeps the boxes {result['kept']}, not [0]"
        yield Check(name, State.PROBLEM, message, torch_command())
    else:
        yield Check(name, State.OK, "`torchvision::nms` runs")


def _has_tpu(probed: ProbeResults) -> bool:
    return any(one["platform"] == "tpu" for one in probed.results.get("jax", {}).get("devices", ()))


def _devices(probed: ProbeResults) -> Check:
    name, chips, result = "devices", probed.facts["chips"], probed.results.get("jax")
    if result is None:
        return Check(name, State.UNCHECKED, "jax is not installed")
    if "error" in result:
        remedy = "stop the other program that uses the TPU, if there is one" if chips else ""
        return Check(name, State.PROBLEM, str(result["error"]), remedy)
    counts: dict[str, int] = {}
    for one in result["devices"]:
        memory = f", {one['memory'] / 2**30:.1f} GiB each" if one["memory"] else ""
        kind = f"{one['platform'].upper()} ({one['kind']}{memory})" if one["platform"] != "cpu" else "CPU"
        counts[kind] = counts.get(kind, 0) + 1
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    processes = f" in {result['processes']} processes" if result["processes"] > 1 else ""
    if chips and not _has_tpu(probed):
        message = f"JAX finds {listed}{processes}, but the host has TPU chips ({', '.join(chips)})"
        return Check(name, State.PROBLEM, message, _installation(probed))
    if not _has_tpu(probed) and probed.facts["nvidia"] and result["backend"] == "cpu":
        message = f"JAX finds {listed}{processes}; it does not use the NVIDIA GPU"
        return Check(name, State.WARNING, message, f"pip install 'jax[cuda12]=={TESTED['jax']}'")
    note = "" if result["backend"] != "cpu" else "; there is no TPU or GPU, so programs run on the CPU"
    return Check(name, State.OK, f"{listed}{processes}{note}")


def _variables(variables: Mapping[str, str], *, has_tpu: bool) -> Iterator[Check]:
    """Environment variables that have an unwanted effect, or none, and a missing compilation cache."""
    for name, value in sorted(variables.items()):
        assignment = f"`{name}={value}`"
        if name in VARIABLES and is_gpu(value):
            yield Check(name, State.PROBLEM, f"{assignment} makes JAX use a GPU", f"unset {name}")
        elif name in VARIABLES and value == "cpu":
            yield Check(name, State.WARNING, f"{assignment} keeps JAX on the CPU", f"unset {name}")
        elif name in UNREAD:
            instead = f"; it reads {UNREAD[name]}" if UNREAD[name] else ""
            yield Check(name, State.WARNING, f"JAX does not read {assignment}{instead}", f"unset {name}")
        elif name in MEMORY:
            yield Check(name, State.WARNING, f"{assignment} is for the memory of GPUs", f"unset {name}")
        elif name == "XLA_FLAGS" and "--xla_gpu_" in value:
            message = f"{assignment} has flags for GPUs; XLA ends the process if it does not know a flag"
            yield Check(name, State.WARNING, message, "remove the flags that begin with --xla_gpu_")
        elif name == "CUDA_VISIBLE_DEVICES":
            yield Check(name, State.OK, f"{assignment} selects GPUs; `TPU_VISIBLE_CHIPS` selects TPU chips")
        elif name == "JAX_ENABLE_X64" and value.lower() in ("1", "true"):
            message = f"{assignment}: TPUs compute float64 in software, which is slow"
            yield Check(name, State.WARNING, message, f"unset {name}")
    if has_tpu and "JAX_COMPILATION_CACHE_DIR" not in variables:
        message = "no compilation cache: each start of a program compiles again"
        remedy = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
        yield Check("compilation cache", State.WARNING, message, remedy)


def _runtime(probed: ProbeResults) -> Check:
    name, result = "torchax environment", probed.results.get("torchax")
    if result is None:
        return Check(name, State.UNCHECKED, "packages are missing")
    if "error" in result:
        return Check(name, State.PROBLEM, str(result["error"]))
    if result["value"] != 4:
        return Check(name, State.PROBLEM, f"the sum of two twos on the device is {result['value']}")
    return Check(name, State.OK, f"{DISTRIBUTION} {result['version']} is enabled, and computes")


def _step(probed: ProbeResults) -> Check:
    name, result = "training step", probed.results.get("step")
    if result is None:
        return Check(name, State.UNCHECKED, "`--no-step` is given, or a check above did not pass")
    if "error" in result:
        return Check(name, State.PROBLEM, str(result["error"]))
    pairs = [(float(result[one]), float(result[f"expected_{one}"])) for one in ("loss", "norm")]
    (loss, expected_loss), (norm, expected_norm) = pairs
    platform = result["platform"].upper()
    device = "the CPU" if platform == "CPU" else f"{platform} ({result['device']})"
    figures = f"on {device}: loss {loss:.6f}, norm of the gradients {norm:.6f}"
    if not all(math.isclose(*pair, rel_tol=_TOLERANCE) for pair in pairs) or not result["learns"]:
        message = f"{figures}, but {expected_loss:.6f} and {expected_norm:.6f} in plain torch"
        return Check(name, State.PROBLEM, message)
    first, second = float(result["first_seconds"]), float(result["second_seconds"])
    times = f"{first:.1f} s with compilation, {second * 1000:.0f} ms without"
    return Check(name, State.OK, f"{figures}, as in plain torch; {times}")


def as_json(checks: list[Check]) -> list[dict[str, Any]]:
    """The checks as JSON values."""
    return [
        {"name": one.name, "state": one.state.value, "message": one.message, "remedy": one.remedy}
        for one in checks
    ]
