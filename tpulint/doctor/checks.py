"""What the answers of an environment mean, and what to do about them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from tpulint.doctor.examination import Examination
from tpulint.knowledge.installation import commands, torch_command
from tpulint.knowledge.jax_platform import MEMORY, VARIABLES, is_gpu
from tpulint.knowledge.outdated_api import VARIABLES as UNREAD
from tpulint.knowledge.runtime import DISTRIBUTION
from tpulint.knowledge.versions import COMPARED_BY_RUNTIME, PYTHON, TESTED, conflicts, is_tested

#: What a fixed program needs; torchvision and libtpu only some of them.
_NEEDED = ("torch", "torchax", "jax", DISTRIBUTION)
#: How far the loss and the gradients of the step may be from those of plain torch, relatively: TPUs multiply
#: float32 matrices in bfloat16 by default, whose numbers have 8 bits.
_TOLERANCE = 2**-6


class State(StrEnum):
    """How a check ended."""

    OK = "ok"
    WARNING = "warning"
    PROBLEM = "problem"
    UNCHECKED = "not checked"


@dataclass(frozen=True, slots=True)
class Check:
    """One check of an environment.

    Args:
        name: what was checked, such as `torchvision`.
        state: how it ended.
        message: what was found, in one line.
        remedy: what to do, in one line; "" if nothing is to be done.
    """

    name: str
    state: State
    message: str
    remedy: str = ""


def diagnose(found: Examination) -> list[Check]:
    """The checks of an environment, in the order in which to read them."""
    return [
        _python(found),
        *_packages(found),
        *_conflicts(found),
        *_shadowed(found),
        *_torch(found),
        *_torchvision(found),
        _devices(found),
        *_variables(found.facts["variables"], has_tpu=_has_tpu(found)),
        _runtime(found),
        _step(found),
    ]


def _python(found: Examination) -> Check:
    from packaging.specifiers import SpecifierSet

    version = str(found.facts["python"])
    where = f"{version} ({found.facts['executable']})"
    if SpecifierSet(PYTHON).contains(version, prereleases=True):
        return Check("Python", State.OK, where)
    remedy = f"create an environment with Python {PYTHON.removeprefix('>=')} or newer"
    return Check("Python", State.PROBLEM, f"{where} is too old for torchax and jax", remedy)


def _packages(found: Examination) -> Iterator[Check]:
    versions = found.versions
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
        yield Check("packages", State.PROBLEM, f"not installed: {', '.join(missing)}", _installation(found))
    elif "libtpu" not in versions and found.facts["chips"]:
        message = "not installed, so that JAX does not find the TPU"
        yield Check("libtpu", State.PROBLEM, message, _installation(found))


def _installation(found: Examination) -> str:
    return " && ".join(commands(found.accelerator))


def _conflicts(found: Examination) -> Iterator[Check]:
    for one in conflicts(found.versions):
        release = one.wanted if one.changed == "jaxlib" else f"{one.wanted}.*"
        remedy = f"pip install '{one.changed}=={release}'" if one.wanted else ""
        version = found.versions[one.changed]
        yield Check(one.changed, State.PROBLEM, f"{version} {one.reason}", remedy)


def _shadowed(found: Examination) -> Iterator[Check]:
    """Packages that are installed twice, and modules that lie in front of the installed ones."""
    here = Path.cwd()
    for name, package in found.facts["packages"].items():
        installed, module, origin = package["installed"], package["module"], package["origin"]
        if len({one["version"] for one in installed}) > 1:
            versions = ", ".join(f"{one['version']} in {one['folder']}" for one in installed)
            remedy = f"pip uninstall {name}, until it is gone, and install it again"
            yield Check(name, State.WARNING, f"installed more than once: {versions}", remedy)
        if origin is None:
            message = f"installed, but `import {module}` does not find it"
            yield Check(name, State.PROBLEM, message, f"pip install --force-reinstall --no-deps {name}")
        elif here in Path(origin).parents[:2] and all(Path(one["folder"]) != here for one in installed):
            message = f"`import {module}` imports {origin}, which hides the installed package"
            yield Check(name, State.PROBLEM, message, f"rename {origin}")


def _torch(found: Examination) -> Iterator[Check]:
    answer = found.answers.get("torch")
    if answer is None:
        return
    if "error" in answer:
        yield Check("import torch", State.PROBLEM, str(answer["error"]), torch_command())
    elif answer["cuda"]:
        message = (
            f"built for CUDA {answer['cuda']}, which a TPU host does not use; a build for CPUs is smaller"
        )
        yield Check("import torch", State.WARNING, message, torch_command())


def _torchvision(found: Examination) -> Iterator[Check]:
    name, answer = "torchvision operators", found.answers.get("torchvision")
    if answer is None:
        return
    if "error" in answer:
        yield Check(name, State.PROBLEM, f"they do not load: {answer['error']}", torch_command())
    elif answer["kept"] != [0]:
        message = f"`torchvision::nms` keeps the boxes {answer['kept']}, and not [0]"
        yield Check(name, State.PROBLEM, message, torch_command())
    else:
        yield Check(name, State.OK, "`torchvision::nms` runs")


def _has_tpu(found: Examination) -> bool:
    return any(one["platform"] == "tpu" for one in found.answers.get("jax", {}).get("devices", ()))


def _devices(found: Examination) -> Check:
    name, chips, answer = "devices", found.facts["chips"], found.answers.get("jax")
    if answer is None:
        return Check(name, State.UNCHECKED, "jax is not installed")
    if "error" in answer:
        remedy = "stop the other program that uses the TPU, if there is one" if chips else ""
        return Check(name, State.PROBLEM, str(answer["error"]), remedy)
    counts: dict[str, int] = {}
    for one in answer["devices"]:
        memory = f", {one['memory'] / 2**30:.1f} GiB each" if one["memory"] else ""
        kind = f"{one['platform'].upper()} ({one['kind']}{memory})" if one["platform"] != "cpu" else "CPU"
        counts[kind] = counts.get(kind, 0) + 1
    listed = ", ".join(f"{number} {kind}" for kind, number in counts.items())
    processes = f" in {answer['processes']} processes" if answer["processes"] > 1 else ""
    if chips and not _has_tpu(found):
        message = f"JAX finds {listed}{processes}, but the host has TPU chips ({', '.join(chips)})"
        return Check(name, State.PROBLEM, message, _installation(found))
    if not _has_tpu(found) and found.facts["nvidia"] and answer["backend"] == "cpu":
        message = f"JAX finds {listed}{processes}; it does not use the NVIDIA GPU"
        return Check(name, State.WARNING, message, f"pip install 'jax[cuda12]=={TESTED['jax']}'")
    note = "" if answer["backend"] != "cpu" else "; there is no TPU or GPU, so programs run on the CPU"
    return Check(name, State.OK, f"{listed}{processes}{note}")


def _variables(variables: Mapping[str, str], *, has_tpu: bool) -> Iterator[Check]:
    """The environment variables of the guides for JAX that are set, as far as there is something to say."""
    for name, value in sorted(variables.items()):
        written = f"`{name}={value}`"
        if name in VARIABLES and is_gpu(value):
            yield Check(name, State.PROBLEM, f"{written} makes JAX use a GPU", f"unset {name}")
        elif name in VARIABLES and value == "cpu":
            yield Check(name, State.WARNING, f"{written} keeps JAX on the CPU", f"unset {name}")
        elif name in UNREAD:
            instead = f"; it reads {UNREAD[name]}" if UNREAD[name] else ""
            yield Check(name, State.WARNING, f"JAX does not read {written}{instead}", f"unset {name}")
        elif name in MEMORY:
            yield Check(name, State.WARNING, f"{written} is for the memory of GPUs", f"unset {name}")
        elif name == "XLA_FLAGS" and "--xla_gpu_" in value:
            message = f"{written} has flags for GPUs; XLA ends the process if it does not know one"
            yield Check(name, State.WARNING, message, "remove the flags that begin with --xla_gpu_")
        elif name == "CUDA_VISIBLE_DEVICES":
            yield Check(name, State.OK, f"{written} selects GPUs; TPU_VISIBLE_CHIPS selects chips of a TPU")
        elif name == "JAX_ENABLE_X64" and value.lower() in ("1", "true"):
            message = f"{written}: TPUs compute float64 in software, which is slow"
            yield Check(name, State.WARNING, message, f"unset {name}")
    if has_tpu and "JAX_COMPILATION_CACHE_DIR" not in variables:
        message = "no compilation cache: each start of a program compiles again"
        remedy = "export JAX_COMPILATION_CACHE_DIR=~/.cache/jax"
        yield Check("compilation cache", State.WARNING, message, remedy)


def _runtime(found: Examination) -> Check:
    name, answer = "torchax environment", found.answers.get("torchax")
    if answer is None:
        return Check(name, State.UNCHECKED, "packages are missing")
    if "error" in answer:
        return Check(name, State.PROBLEM, str(answer["error"]))
    if answer["value"] != 4:
        return Check(name, State.PROBLEM, f"the sum of two twos on the device is {answer['value']}")
    return Check(name, State.OK, f"{DISTRIBUTION} {answer['version']} is enabled, and computes")


def _step(found: Examination) -> Check:
    name, answer = "training step", found.answers.get("step")
    if answer is None:
        return Check(name, State.UNCHECKED, "what it needs does not work, or it was left out")
    if "error" in answer:
        return Check(name, State.PROBLEM, str(answer["error"]))
    pairs = [(float(answer[one]), float(answer[f"expected_{one}"])) for one in ("loss", "norm")]
    (loss, expected_loss), (norm, expected_norm) = pairs
    platform = answer["platform"].upper()
    device = "the CPU" if platform == "CPU" else f"{platform} ({answer['device']})"
    figures = f"on {device}: loss {loss:.6f}, norm of the gradients {norm:.6f}"
    if not all(math.isclose(*pair, rel_tol=_TOLERANCE) for pair in pairs) or not answer["learns"]:
        message = f"{figures}, but {expected_loss:.6f} and {expected_norm:.6f} in plain torch"
        return Check(name, State.PROBLEM, message)
    first, second = float(answer["first_seconds"]), float(answer["second_seconds"])
    times = f"{first:.1f} s with compilation, {second * 1000:.0f} ms without"
    return Check(name, State.OK, f"{figures}, as in plain torch; {times}")


def as_json(checks: list[Check]) -> list[dict[str, Any]]:
    """The checks in plain values."""
    return [
        {"name": one.name, "state": one.state.value, "message": one.message, "remedy": one.remedy}
        for one in checks
    ]
