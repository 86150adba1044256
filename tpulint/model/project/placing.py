"""Where a file names a device that is not the host's, and where it enters the torchax environment."""

from __future__ import annotations

import ast
from collections.abc import Collection

from tpulint.knowledge.tracing import DEVICE_STRING, ENTERS, ENVIRONMENT_ENTRIES, UNFINISHED_DEVICE
from tpulint.knowledge.training import ACCELERATE_DEVICE
from tpulint.model.names.index import Index
from tpulint.model.names.qualified import Names
from tpulint.model.project.device_mentions import cuda_types, default_types, numbered_devices
from tpulint.model.project.takers import is_accelerator

#: Frameworks that name their devices themselves.
OTHER_FRAMEWORKS = frozenset({"flax", "jax", "keras", "mindspore", "mxnet", "paddle", "tensorflow"})

#: Packages that torch's devices are passed to.
KNOW_DEVICES = frozenset({"accelerate", "lightning", "pytorch_lightning", "torch", "transformers"})

#: Functions that export a model.
EXPORTING = frozenset(
    {
        *("coremltools.convert", "torch.export.save", "torch.jit.save", "torch.onnx.dynamo_export"),
        *("torch.onnx.export", "torch.onnx.utils.export"),
    }
)


def placing(index: Index, names: Names, imports: Collection[str]) -> set[int]:
    """The functions, and the module, that name such a device, by identity; `imports` are what it imports."""
    packages = {name.partition(".")[0] for name in imports}
    knows_device = not packages.isdisjoint(KNOW_DEVICES)
    if not knows_device and (not index.module.stars or packages & OTHER_FRAMEWORKS):
        return set()
    texts = [
        place
        for text, places in index.texts.items()
        if text == ACCELERATE_DEVICE or DEVICE_STRING.match(text) or UNFINISHED_DEVICE.match(text)
        for place in places
    ]
    apart = _without_tensors(index, names) if texts else set()
    named = [scope for node, scope in texts if id(node) not in apart]
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
    if any(True for _ in names.calls_of(EXPORTING)):
        told = []  # a tool that exports a model does so on the host
    found = (*named, *told, *called, *numbered_devices(index, names), *cuda_types(index, names), *chosen)
    return {id(scope.function or index.module) for scope in found}


def _without_tensors(index: Index, names: Names) -> set[int]:
    """Texts that name a device and put nothing on it, by identity.

    They are keys of a `map_location`, arguments of functions of other packages, settings of mixed precision,
    or names of CUDA that a device is compared with, in a file that passes no device to torch.
    """
    found: list[ast.AST] = []
    for call, _ in index.calls.get("load", ()):
        words = call.keywords if isinstance(call, ast.Call) else []
        maps = (word.value for word in words if word.arg == "map_location")
        found += [key for one in maps if isinstance(one, ast.Dict) for key in one.keys if key is not None]
    for last in ("device", "print", "autocast", "GradScaler"):
        for call, scope in index.calls.get(last, ()):
            name = names.qualified(call.func, scope) if isinstance(call, ast.Call) else None
            if isinstance(call, ast.Call) and name is not None and (last != "device" or _is_foreign(name)):
                found += [*call.args, *(word.value for word in call.keywords)]
    if not index.passing.get("device") and not index.calls.get("to"):
        found += [
            side
            for node, _ in index.nodes[ast.Compare]
            if isinstance(node, ast.Compare)
            for side in (node.left, *node.comparators)
            if not (isinstance(side, ast.Constant) and side.value == "jax")
        ]
    return set(map(id, found))


def _is_foreign(name: str) -> bool:
    return name.partition(".")[0] in OTHER_FRAMEWORKS


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
    return entries - {
        id(node.value) for node in attributes if isinstance(node, ast.Attribute) and node.attr not in ENTERS
    }


def makes_cuda_default(index: Index, names: Names) -> bool:
    """Whether a file makes a type of CUDA the default of tensors."""
    types = default_types(names, index.calls.get("set_default_tensor_type", ()))
    return any(name.startswith("torch.cuda.") for name in types)
