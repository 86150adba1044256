"""Records the failures of a trace with the user's lines, and continues with placeholders.

This module patches the functions of JAX and torchax that read the values of tracers, and the functions of
torchax for operators that it does not implement and for host tensors.
"""

from __future__ import annotations

import ast
import functools
import linecache
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

from tpulint.proof.workers.failures import is_below

HAZARDS = ("branch", "item", "host copy", "mask", "size", "host tensor", "operator", "leak", "error")
"""The types of failures under trace: a branch on a value, a scalar read, a copy to the host, indexing with a
boolean mask, a size that depends on values, a host tensor in traced code, an operator that torchax does not
implement, a tracer that leaks from the trace, and any other exception."""

ORIGIN = "_tpulint_origin"
"""The attribute of a host tensor with the file and line that created it."""
_MOST_REPETITIONS = 8
"""How often a branch goes the same way before it goes the other way, so that loops end."""


@dataclass(frozen=True, slots=True)
class Hazard:
    """A line of the user's code that fails under trace."""

    hazard: str
    path: str
    line: int
    message: str
    source: str
    origin: tuple[str, int] | None = None
    """The file and line that created the host tensor."""


class Hazards:
    """The failures of one trace, in their order.

    Args:
        root: the folder of the user's code.
        branch: whether branches on traced values are taken.
    """

    def __init__(self, root: str, *, branch: bool) -> None:
        self._root, self._branch = root, branch
        self._found: dict[tuple[str, int, str], Hazard] = {}
        self._visits: Counter[tuple[str, int, int]] = Counter()
        self._assigned: dict[tuple[int, str], tuple[Any, Hazard]] = {}

    @property
    def found(self) -> list[Hazard]:
        """All recorded failures."""
        return list(self._found.values())

    def record(self, hazard: str, message: str, origin: tuple[str, int] | None = None) -> FrameType | None:
        """Record a failure at the innermost line of the user's code, and return its frame."""
        frame = user_frame(self._root)
        if frame is not None:
            found = self._at(hazard, message, frame.f_code.co_filename, frame.f_lineno)
            self._add(replace(found, origin=origin))
        return frame

    def record_error(self, error: BaseException, frames: list[dict[str, Any]]) -> None:
        """Record an exception for which there is no placeholder."""
        if frames:
            last = frames[-1]
            message = f"{type(error).__name__}: {(str(error).splitlines() or [''])[0]}"[:300]
            self._add(Hazard("error", last["path"], last["line"], message, last["code"]))

    def _add(self, hazard: Hazard) -> None:
        self._found.setdefault((hazard.path, hazard.line, hazard.hazard), hazard)

    def _at(self, hazard: str, message: str, file: str, line: int) -> Hazard:
        source = linecache.getline(file, line).strip()
        return Hazard(hazard, str(Path(file).relative_to(self._root)), line, message[:300], source)

    def branch_taken(self, message: str) -> bool:
        """Record a branch on a traced value, and choose its condition: assertions and guards do not raise."""
        frame = self.record("branch", message)
        if frame is None:
            return self._branch
        location = (frame.f_code.co_filename, frame.f_lineno, frame.f_lasti)
        self._visits[location] += 1
        match _statement(*location[:2]):
            case ast.Assert():
                return True
            case ast.If(body=[ast.Raise(), *_]):
                return False
            case ast.While():
                return self._visits[location] % 2 == 1
        return self._branch if self._visits[location] <= _MOST_REPETITIONS else not self._branch

    def record_assignment(self, owner: Any, name: str) -> None:
        """Remember an assignment of a traced value to an attribute."""
        frame = user_frame(self._root)
        if frame is not None:
            message = f"`self.{name}` holds a traced value after the trace"
            hazard = self._at("leak", message, frame.f_code.co_filename, frame.f_lineno)
            self._assigned[id(owner), name] = owner, hazard

    def record_leaks(self) -> None:
        """Record the assignments whose traced values are still in the attributes after the trace."""
        for (_, name), (owner, hazard) in self._assigned.items():
            if is_traced(getattr(owner, name, None)):
                self._add(hazard)


def origin_of(tensor: Any) -> tuple[str, int] | None:
    """The file and line that created a host tensor, if they are known."""
    origin: tuple[str, int] | None = vars(tensor).get(ORIGIN)
    return origin


def user_frame(root: str) -> FrameType | None:
    """The innermost frame in a file of a folder."""
    frame: FrameType | None = sys._getframe(1)  # noqa: SLF001
    while frame is not None and not is_below(frame.f_code.co_filename, root):
        frame = frame.f_back
    return frame


@functools.lru_cache(maxsize=64)
def _tree(file: str) -> ast.AST | None:
    try:
        return ast.parse("".join(linecache.getlines(file)))
    except SyntaxError:
        return None


@functools.lru_cache(maxsize=1024)
def _statement(file: str, line: int) -> ast.stmt | None:
    """The innermost statement that includes a line."""
    tree = _tree(file)
    found: ast.stmt | None = None
    for node in ast.walk(tree) if tree else ():
        if isinstance(node, ast.stmt) and node.lineno <= line <= (node.end_lineno or node.lineno):
            found = node if found is None or node.lineno >= found.lineno else found
    return found


def is_traced(value: Any) -> bool:
    """Whether a value is a tensor of torchax that JAX traces."""
    import jax

    return isinstance(getattr(value, "__dict__", {}).get("_elem"), jax.core.Tracer)


class _Patches:
    """Replaced attributes, which `restore` puts back."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        if name in vars(owner):
            self._undo.append(functools.partial(setattr, owner, name, vars(owner)[name]))
        else:
            self._undo.append(functools.partial(delattr, owner, name))
        setattr(owner, name, value)

    def restore(self) -> None:
        for undo in reversed(self._undo):
            undo()


@contextmanager
def recording(hazards: Hazards) -> Iterator[None]:
    """Record the failures of traces in the context; see also `scalars_replaced`."""
    patches = _Patches()
    try:
        _patch_reads_of_values(patches, hazards)
        _patch_masks(patches, hazards)
        _patch_host_copies(patches, hazards)
        _patch_host_tensors(patches, hazards)
        _patch_operators(patches, hazards)
        _patch_assignments(patches, hazards)
        yield
    finally:
        patches.restore()


def _ones(aval: Any) -> Any:
    """A placeholder for a traced array."""
    import jax
    import numpy as np

    is_key = jax.dtypes.issubdtype(aval.dtype, jax.dtypes.extended)
    return np.ones(aval.shape, np.dtype("uint32" if is_key else aval.dtype))


def _patch_reads_of_values(patches: _Patches, hazards: Hazards) -> None:
    """Patch `bool`, `int` and `float` of tracers, and functions that need a concrete value."""
    from jax._src import core

    tracer = core.Tracer

    def put(name: str, placeholder: Any) -> None:
        original = getattr(tracer, name)

        @functools.wraps(original)
        def read(self: Any, *args: Any, **kwargs: Any) -> Any:
            if core.is_concrete(self):
                return original(self, *args, **kwargs)
            message = f"{name.strip('_')}() of a traced {self.aval.str_short()}"
            if name == "__bool__":
                return hazards.branch_taken(message)
            hazards.record("item", message)
            return placeholder

        patches.put(tracer, name, read)

    for name, placeholder in (
        ("__bool__", None), ("__int__", 1), ("__float__", 1.0), ("__complex__", 1j), ("__index__", 1),
    ):  # fmt: skip
        put(name, placeholder)

    def array(self: Any, *_: Any, **__: Any) -> Any:
        hazards.record("host copy", f"NumPy array of a traced {self.aval.str_short()}")
        return _ones(self.aval)

    patches.put(tracer, "__array__", array)
    concrete_or_error = core.concrete_or_error

    def concrete(force: Any, value: Any, context: str = "") -> Any:
        if not isinstance(value, tracer) or value.to_concrete_value() is not None:
            return concrete_or_error(force, value, context)
        what = "item" if _is_scalar_read() else "size"
        message = f"needs the value of a traced {value.aval.str_short()}"
        placeholder = _ones(value.aval)
        if placeholder.dtype == bool and placeholder.ndim == 0:
            placeholder = _full(placeholder, hazards.branch_taken(message))
        else:
            hazards.record(what, message)
        return placeholder if force is None else force(placeholder)

    patches.put(core, "concrete_or_error", concrete)


def _full(array: Any, value: bool) -> Any:
    import numpy as np

    return np.full(array.shape, value)


def _is_scalar_read() -> bool:
    """Whether torch is converting a tensor to a Python number."""
    frame: FrameType | None = sys._getframe(2)  # noqa: SLF001
    for _ in range(12):
        if frame is None:
            return False
        if "local_scalar" in frame.f_code.co_name or frame.f_code.co_name in ("item", "tolist"):
            return True
        frame = frame.f_back
    return False


def scalars_replaced(hazards: Hazards) -> Any:
    """A mode that replaces traced scalars by 1 for functions that read them in C++, such as `arange`."""
    import torch
    from torch.overrides import TorchFunctionMode
    from torch.utils import _pytree as pytree

    class Placeholders(TorchFunctionMode):  # type: ignore[misc]
        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            try:
                return func(*args, **(kwargs or {}))
            except RuntimeError as error:
                if "cannot be called on meta tensors" not in str(error):
                    raise
            name = getattr(func, "__name__", "a function")
            hazards.record("size", f"`{name}` needs the value of a traced scalar")
            args, kwargs = pytree.tree_map_only(torch.Tensor, number, (args, kwargs or {}))
            return func(*args, **kwargs)

    def number(value: Any) -> Any:
        return 1 if is_traced(value) and value.numel() == 1 else value

    return Placeholders()


def _patch_masks(patches: _Patches, hazards: Hazards) -> None:
    """Patch indexing with a boolean mask, to select all elements."""
    import dataclasses

    import numpy as np
    from jax._src import core
    from jax._src.numpy import indexing

    expand = indexing.NDIndexer.expand_bool_indices

    def is_mask(index: Any) -> bool:
        return index.typ == indexing.IndexType.BOOLEAN and not core.is_concrete(index.index)

    def expanded(self: Any) -> Any:
        if any(map(is_mask, self.indices)):
            hazards.record("mask", "the number of elements that a traced mask selects is not known")
            indices = [
                i._replace(index=np.ones(core.typeof(i.index).shape, bool)) if is_mask(i) else i
                for i in self.indices
            ]
            self = dataclasses.replace(self, indices=indices)
        return expand(self)

    patches.put(indexing.NDIndexer, "expand_bool_indices", expanded)


def _patch_host_copies(patches: _Patches, hazards: Hazards) -> None:
    """Patch `.cpu()`, `.numpy()`, `.tolist()` and formatting of traced tensors."""
    import numpy as np
    import torch
    from torchax import tensor

    copy = tensor.Environment._to_copy  # noqa: SLF001

    def to_copy(self: Any, value: Any, dtype: Any, device: Any) -> Any:
        name = device.type if isinstance(device, torch.device) else device
        if is_traced(value) and isinstance(name, str) and name.partition(":")[0] == "cpu":
            hazards.record("host copy", "a traced tensor cannot be moved to the host")
            device = None
        return copy(self, value, dtype, device)

    def as_numpy(self: Any, *_: Any, **__: Any) -> Any:
        hazards.record("host copy", "NumPy array of a traced tensor")
        return np.asarray(_ones(self._elem.aval))

    def tolist(self: Any) -> Any:
        hazards.record("host copy", "list of the values of a traced tensor")
        return _ones(self._elem.aval).tolist()

    def formatted(_: Any, spec: str) -> str:
        hazards.record("item", "text of a traced tensor")
        return format(1.0, spec) if spec else "1"

    patches.put(tensor.Environment, "_to_copy", to_copy)
    for name, function in (("numpy", as_numpy), ("tolist", tolist), ("__format__", formatted)):
        original = getattr(tensor.Tensor, name)
        patches.put(tensor.Tensor, name, _if_traced(function, original))


def _if_traced(function: Callable[..., Any], original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def chosen(self: Any, *args: Any, **kwargs: Any) -> Any:
        return (function if is_traced(self) else original)(self, *args, **kwargs)

    return chosen


def _patch_host_tensors(patches: _Patches, hazards: Hazards) -> None:
    """Patch operations of traced tensors with host tensors of more than one element."""
    import torch
    import torchax
    from torch.utils import _pytree as pytree
    from torchax import tensor
    from torchax.view import View

    convert = tensor.Environment.t2j_iso

    def converted(self: Any, values: Any) -> Any:
        def moved(value: Any) -> Any:
            if isinstance(value, (tensor.Tensor, View)) or value.numel() == 1:
                return value
            shape = "x".join(map(str, value.shape))
            message = f"a host tensor ({shape}) in an operation with traced tensors"
            hazards.record("host tensor", message, origin_of(value))
            return tensor.Tensor(self.t2j_copy(value), self)

        return convert(self, pytree.tree_map_only(torch.Tensor, moved, values))

    patches.put(tensor.Environment, "t2j_iso", converted)

    # Within operations, torchax assumes that all tensors are its own.
    def array_of_view(view: Any) -> Any:
        hazards.record("error", "torchax does not accept a view here")
        return view.jax()

    def array_of_host_tensor(value: Any) -> Any:
        hazards.record("host tensor", "a host tensor in an operation with traced tensors", origin_of(value))
        return torchax.default_env().t2j_copy(value)

    patches.put(View, "_elem", _Fallback(array_of_view))
    patches.put(torch.Tensor, "_elem", _Fallback(array_of_host_tensor))


class _Fallback:
    """A descriptor for objects that do not have the attribute themselves."""

    def __init__(self, get: Callable[[Any], Any]) -> None:
        self._get = get

    def __get__(self, owner: Any, _: type) -> Any:
        return self if owner is None else self._get(owner)


def _patch_operators(patches: _Patches, hazards: Hazards) -> None:
    """Patch operators that torchax does not implement, to return zeros of the shapes of the meta device."""
    import jax
    import jax.numpy as jnp
    import torch
    from torch.utils import _mode_utils
    from torch.utils import _pytree as pytree
    from torchax import tensor
    from torchax.ops import mappings, ops_registry

    find = tensor.Environment._get_op_or_decomp  # noqa: SLF001

    def found(self: Any, function: Any) -> Any:
        try:
            return find(self, function)
        except tensor.OperatorNotFound:
            if not isinstance(function, torch._ops.OpOverload):  # noqa: SLF001
                raise
        hazards.record("operator", f"torchax does not implement `{function.name()}`")

        def on_meta(value: Any) -> Any:
            return torch.empty(value.shape, dtype=value.dtype, device="meta")

        def zeros(value: Any) -> Any:
            dtype = jax.dtypes.canonicalize_dtype(mappings.t2j_dtype(value.dtype))
            return tensor.Tensor(jnp.zeros(tuple(value.shape), dtype), self)

        def shaped(*args: Any, **kwargs: Any) -> Any:
            kwargs.pop("env", None)
            with _mode_utils.no_dispatch(), torch._C.DisableTorchFunction():  # noqa: SLF001
                args, kwargs = pytree.tree_map_only(torch.Tensor, on_meta, (args, kwargs))
                result = function(*args, **kwargs)
            return pytree.tree_map_only(torch.Tensor, zeros, result)

        return ops_registry.Operator(
            function,
            shaped,
            is_jax_function=False,
            is_user_defined=True,
            needs_env=False,
            is_view_op=False,
        )

    patches.put(tensor.Environment, "_get_op_or_decomp", found)


def _patch_assignments(patches: _Patches, hazards: Hazards) -> None:
    """Patch assignments of traced values to attributes of modules."""
    import torch

    assign = torch.nn.Module.__setattr__

    def assigned(self: Any, name: str, value: Any) -> None:
        if is_traced(value):
            hazards.record_assignment(self, name)
        assign(self, name, value)

    patches.put(torch.nn.Module, "__setattr__", assigned)


def executed_lines(root: str) -> tuple[Callable[..., Any], dict[str, set[int]]]:
    """A function for `sys.settrace` that collects the executed lines of files in a folder, and the lines."""
    lines: dict[str, set[int]] = {}
    prefix = f"{root}{os.sep}"

    def local(frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            lines.setdefault(frame.f_code.co_filename, set()).add(frame.f_lineno)
        return local

    def entered(frame: FrameType, event: str, _: Any) -> Any:
        if event == "call" and frame.f_code.co_filename.startswith(prefix):
            return local
        return None

    return entered, lines
