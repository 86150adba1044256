"""Applies the declared patches, all or none, and restores what they replaced."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

from .declarations import OPERATORS, PATCHES, SETUPS, Operator, Patch

Undo = Callable[[], None]
#: How parameters are written, by their kind; all others by their name.
_FORMS: dict[Any, str] = {
    inspect.Parameter.VAR_POSITIONAL: "*{}",
    inspect.Parameter.KEYWORD_ONLY: "{}=",
    inspect.Parameter.VAR_KEYWORD: "**{}",
}

_MISSING = object()
#: Packages whose modules keep the functions that they imported by name.
_KEPT = ("torch", "torchax", "jax", "jaxlib", "numpy")
_OWN = __package__.rpartition(".")[0]


def owner_of(target: str) -> tuple[Any, str]:
    """The object that has the attribute of a target, and the attribute's name.

    Raises:
        AttributeError, ImportError: this version does not have the target's module or class.
    """
    module, _, path = target.partition(":")
    owner: Any = importlib.import_module(module)
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def signature_of(owner: Any, name: str) -> str:
    """The class that defines an attribute, and its parameters: `torch.nn.modules.module.Module(self, fn)`.

    Without the class if the owner is none, and without parameters if the attribute is not a function, or a
    builtin function without a signature.
    The code of a function has the signature of the function.
    """
    classes = owner.__mro__ if isinstance(owner, type) else ()
    defining = [f"{one.__module__}.{one.__qualname__}" for one in classes if name in vars(one)]
    value = owner if name == "__code__" else getattr(owner, name)
    return f"{''.join(defining[:1])}({_parameters(value)})"


def _parameters(value: Any) -> str:
    """The parameters of a callable, as in `self, *args, key=`; "" if it has no signature."""
    try:
        found = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return ""
    return ", ".join(_FORMS.get(one.kind, "{}").format(one.name) for one in found)


def moved(signatures: dict[str, list[str]]) -> list[str]:
    """The targets that do not exist here, or whose signature is none of those on record, with what differs.

    Args:
        signatures: the signatures that each target has in the versions that were tested.
    """
    found = ((patch, _difference(patch, signatures.get(patch.target))) for patch in PATCHES.values())
    return [f"`{patch.target}` {difference}" for patch, difference in found if difference]


def _difference(patch: Patch, known: list[str] | None) -> str:
    try:
        owner, name = owner_of(patch.target)
    except (AttributeError, ImportError):
        return "does not exist"
    if patch.is_new:
        return "exists already" if hasattr(owner, name) else ""
    if not hasattr(owner, name):
        return "does not exist"
    if known is None or signature_of(owner, name) in known:
        return ""
    return f"has the signature {signature_of(owner, name)}, not {' or '.join(known)}"


def apply_all() -> list[Undo]:
    """Apply all declared patches; if one fails, none stays.

    Returns:
        Functions that restore what was there, to be called in reverse.

    Raises:
        Exception: whatever a patch raised; those before it are taken back.
    """
    undone: list[Undo] = []
    try:
        undone.extend(setting.run() for setting in SETUPS.values())
        replaced = {}
        for patch in PATCHES.values():
            owner, name = owner_of(patch.target)
            if isinstance(owner, ModuleType) and not patch.is_new:
                before = getattr(owner, name)
                replaced[id(before)] = before, patch.value
            undone.append(_set(owner, name, patch.value))
        undone.extend(register(one) for one in OPERATORS.values())
        undone.extend(_set(owner, name, value) for owner, name, value in _imported_by_name(replaced))
    except BaseException:
        restore(undone)
        raise
    return undone


def replace(replacements: list[tuple[Any, str, Any]]) -> list[Undo]:
    """Replace attributes that are not declared as patches, since it takes long to import what has them.

    Args:
        replacements: the object that has the attribute, the name of the attribute, and its new value.

    Returns:
        Functions that restore what was there, to be called in reverse.
    """
    undone: list[Undo] = []
    replaced = {}
    for owner, name, value in replacements:
        if isinstance(owner, ModuleType):
            before = getattr(owner, name)
            replaced[id(before)] = before, value
        undone.append(_set(owner, name, value))
    undone.extend(_set(owner, name, value) for owner, name, value in _imported_by_name(replaced))
    return undone


def restore(undone: list[Undo]) -> None:
    """Take back what `apply_all` changed.

    Raises:
        Exception: the first that a function raised, once all were called.
    """
    errors: list[Exception] = []
    while undone:
        try:
            undone.pop()()
        except Exception as error:  # the others restore what they can
            errors.append(error)
    if errors:
        raise errors[0]


def is_entered() -> bool:
    """Whether this thread is in the torchax environment; its attribute `enabled` is not reliable."""
    from torchax.tensor import XLAFunctionMode

    from ..adapters.torch_internals import function_modes

    return any(isinstance(mode, XLAFunctionMode) for mode in function_modes())


def _set(owner: Any, name: str, value: Any) -> Undo:
    before = vars(owner).get(name, _MISSING) if hasattr(owner, "__dict__") else _MISSING
    if before is _MISSING and name.startswith("__") and not isinstance(owner, type | ModuleType):
        before = getattr(owner, name, _MISSING)  # `__code__` and `__defaults__` of functions
    setattr(owner, name, value)

    def undo() -> None:
        if before is _MISSING:
            delattr(owner, name)
        else:
            setattr(owner, name, before)

    return undo


def _imported_by_name(replaced: dict[int, tuple[Any, Any]]) -> Iterator[tuple[ModuleType, str, Any]]:
    """The names by which modules of the program imported functions that are replaced."""
    for name, module in list(sys.modules.items()):
        is_own = name == _OWN or name.startswith(f"{_OWN}.")
        if is_own or name.partition(".")[0] in _KEPT or not isinstance(module, ModuleType):
            continue
        for attribute, value in list(vars(module).items()):
            if id(value) in replaced and callable(value):
                yield module, attribute, replaced[id(value)][1]


def register(one: Operator) -> Undo:
    """Register an implementation of an operator with torchax.

    Returns:
        A function that restores what was registered before.
    """
    import torchax
    from torchax.ops import jaten, jtorch, ops_registry  # noqa: F401 # the first two register torchax's own

    from ..adapters.torch_internals import OpOverload, OpOverloadPacket

    is_aten = isinstance(one.operation, OpOverload | OpOverloadPacket)
    registries: list[dict[Any, Any]] = [
        ops_registry.all_aten_ops if is_aten else ops_registry.all_torch_functions,
        torchax.default_env()._ops,
    ]
    made = ops_registry.Operator(one.operation, one.function, **_OPTIONS | one.options)
    before = [registry.get(one.operation, _MISSING) for registry in registries]
    for registry in registries:
        registry[one.operation] = made

    def undo() -> None:
        for registry, known in zip(registries, before, strict=True):
            if known is _MISSING:
                del registry[one.operation]
            else:
                registry[one.operation] = known

    return undo


_OPTIONS = {"is_jax_function": True, "is_user_defined": False, "needs_env": False, "is_view_op": False}
