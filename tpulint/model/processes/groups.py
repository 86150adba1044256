"""The process groups that a file starts."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from tpulint.knowledge.distributed import ADDRESSING, MESHES, ON_HOST, SAMPLERS, SHARDING, SPLITTING, START
from tpulint.knowledge.runtime import ONE_RANK_PER_DEVICE, is_runtime_function
from tpulint.knowledge.torch_xla import LAUNCH, PACKAGE, PLACING, TORCHAX_DEVICE, short_name
from tpulint.knowledge.training import TRAINING_ARGUMENTS
from tpulint.model.names.scopes import Scope
from tpulint.model.processes.settings import settings
from tpulint.model.project.project_file import ProjectFile
from tpulint.model.project.takers import is_accelerator
from tpulint.model.syntax.imports import first_import
from tpulint.model.syntax.parsed_file import ParsedFile

_STARTS = (START, START.replace(".init", ".distributed_c10d.init"))


def is_start(module: ParsedFile, call: ast.Call, scope: Scope) -> bool:
    """Whether the call starts a process group."""
    return module.names.qualified(call.func, scope) in _STARTS


def backend(call: ast.Call) -> ast.expr | None:
    """The backend that a call passes, if it passes one."""
    words = (word.value for word in call.keywords if word.arg == "backend")
    return call.args[0] if call.args else next(words, None)


def backends(module: ProjectFile, call: ast.Call, scope: Scope) -> frozenset[str | None]:
    """The backends that the process group may have on a TPU host; None for one that is not known."""
    asked = backend(call)
    return settings(module, asked, scope) if asked is not None else frozenset({None})


def serves_host(module: ProjectFile, call: ast.Call, scope: Scope) -> bool:
    """Whether the process group has a CPU backend (`gloo` or `mpi`) on a TPU host."""
    found = backends(module, call, scope)
    return bool(found) and found <= ON_HOST


def groups(module: ProjectFile) -> tuple[bool, ...]:
    """The process groups that a file starts: whether each serves the host.

    The processes that torch_xla launches form a group, too, and so do those of a device mesh for GPUs.
    """
    started = (
        serves_host(module, call, scope)
        for call, scope in module.index.calls.get("init_process_group", ())
        if isinstance(call, ast.Call) and is_start(module, call, scope)
    )
    launched = (False for name in _called(module, LAUNCH) if short_name(name) in LAUNCH)
    meshes = (False for name in _called(module, MESHES) if name in MESHES and shards_parameters(module))
    return (*started, *launched, *meshes)


def runs_on_torch_xla(module: ParsedFile) -> bool:
    """Whether a file depends on torch_xla: it imports it in any case, or asks it for a device.

    One that puts something on the device of torchax asked torch_xla before it was fixed.
    """
    if first_import(module, PACKAGE) is not None:
        return True
    return any(short_name(name) in PLACING for name in _called(module, PLACING)) or _uses_torchax(module)


def _uses_torchax(module: ParsedFile) -> bool:
    calls = (call for name in ("to", "device") for call, _ in module.index.calls.get(name, ()))
    return any(
        isinstance(call, ast.Call)
        and any(isinstance(one, ast.Constant) and one.value == TORCHAX_DEVICE for one in call.args[:1])
        for call in calls
    )


def divides_samples(module: ParsedFile) -> bool:
    """Whether a file has samplers that give each process its share."""
    return any(name in SAMPLERS for name in _called(module, SAMPLERS))


def shards_parameters(module: ParsedFile) -> bool:
    """Whether a file shards the parameters of a model over the processes."""
    return any(name in SHARDING for name in _called(module, SHARDING))


def launches_by_library(module: ParsedFile) -> bool:
    """Whether a library gives each process its share of the samples, when a launcher starts several.

    Accelerate does so in `prepare()`, and `Trainer` of transformers in any case.
    """
    creates = any(
        isinstance(call, ast.Call) and is_accelerator(call, module.names.qualified(call.func, scope))
        for call, scope in module.index.calls.get("Accelerator", ())
    )
    if creates and "prepare" in module.index.calls:
        return True
    if any(name in TRAINING_ARGUMENTS for name in _called(module, TRAINING_ARGUMENTS)):
        return True
    return any(
        isinstance(node, ast.Name | ast.Attribute)
        and module.names.qualified(node, scope) in TRAINING_ARGUMENTS
        for call, scope in module.index.calls.get("HfArgumentParser", ())
        for node in ast.walk(call)
    )


def addresses_processes(module: ParsedFile) -> bool:
    """Whether a file communicates between some of the processes."""
    return any(name in ADDRESSING for name in _called(module, ADDRESSING))


def splits_batches(module: ParsedFile) -> bool:
    """Whether a file wraps a module so that each batch is split over the devices of one process."""
    return any(name in SPLITTING for name in _called(module, SPLITTING))


def ranks_devices(module: ParsedFile) -> bool:
    """Whether a file makes each device a rank, with the runtime torchax-compat."""
    return any(
        is_runtime_function(name, ONE_RANK_PER_DEVICE) for name in _called(module, {ONE_RANK_PER_DEVICE})
    )


def _called(module: ParsedFile, names: Collection[str]) -> Iterator[str | None]:
    """The qualified names of calls whose last part is that of one of some names."""
    for last in {name.rpartition(".")[2] for name in names}:
        for call, scope in module.index.calls.get(last, ()):
            if isinstance(call, ast.Call):
                yield module.names.qualified(call.func, scope)
