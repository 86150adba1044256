"""Where a file names a device that is not the host's, and where it enters the torchax environment."""

from __future__ import annotations

import ast
from collections.abc import Collection

from tpulint.knowledge.tracing import DEVICE_STRING, ENVIRONMENT_ENTRIES, UNFINISHED_DEVICE
from tpulint.knowledge.training import ACCELERATE_DEVICE
from tpulint.model.devices.literals import cuda_types, default_types, numbered_devices
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.project.takers import is_accelerator


def placing(index: Index, names: Names, imports: Collection[str]) -> set[int]:
    """The functions, and the module, that name such a device, by identity; `imports` are what it imports."""
    packages = {name.partition(".")[0] for name in imports}
    if not index.module.stars and packages.isdisjoint({"torch", "accelerate"}):
        return set()
    named = [
        scope
        for text, places in index.texts.items()
        if text == ACCELERATE_DEVICE or DEVICE_STRING.match(text) or UNFINISHED_DEVICE.match(text)
        for _, scope in places
    ]
    called = [scope for name in ("cuda", "current_accelerator") for _, scope in index.calls.get(name, ())]
    # `if x.is_cuda: mask = mask.cuda()` follows what is on a device already
    following = {id(scope.function) for _, scope in index.taken.get("is_cuda", ())}
    called = [scope for scope in called if scope.function is None or id(scope.function) not in following]
    chosen = [
        scope
        for call, scope in index.calls.get("Accelerator", ())
        if isinstance(call, ast.Call) and is_accelerator(call, names.qualified(call.func, scope))
    ]
    told = [scope for call, scope in index.calls.get("add_argument", ()) if _is_told(call)]
    found = (*named, *told, *called, *numbered_devices(index, names), *cuda_types(index, names), *chosen)
    return {id(scope.function or index.module) for scope in found}


def _is_told(call: ast.AST) -> bool:
    """Whether a call adds the option `--device`, which may name any, and is the host's by default."""
    match call:
        case ast.Call(args=[ast.Constant(value="--device"), *_], keywords=keywords):
            return not {word.arg for word in keywords} & {"action", "choices", "nargs"}
    return False


def entering(index: Index, names: Names) -> set[int]:
    """The calls that enter the environment, by identity."""
    entries = {id(call) for call, _ in names.calls_of(ENVIRONMENT_ENTRIES)}
    if not entries:
        return entries
    # `torchax.default_env().prng_key` asks the environment, and does not enter it.
    attributes = (node for places in index.taken.values() for node, _ in places)
    return entries - {id(node.value) for node in attributes if isinstance(node, ast.Attribute)}


def makes_cuda_default(index: Index, names: Names) -> bool:
    """Whether a file makes a type of CUDA the default of tensors."""
    types = default_types(names, index.calls.get("set_default_tensor_type", ()))
    return any(name.startswith("torch.cuda.") for name in types)
