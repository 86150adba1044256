"""TorchScript: `torch.jit.script`, `torch.jit.trace` and `torch.jit.save`.

Scripted and traced modules cannot hold torchax tensors.
So modules and functions stay in Python, and JAX compiles them.
When a module is saved, a copy on the host is scripted or traced.
Modules and inputs on the host are traced without torchax.
"""

from __future__ import annotations

import copy
import functools
from typing import Any

import torch
import torch.jit
import torchax
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, no_dispatch, pytree, script_modules
from ..patches.declarations import TORCH, patch

_script, _save, _trace = torch.jit.script, torch.jit.save, torch.jit.trace
_compiled = (torch.jit.RecursiveScriptModule, torch.jit.TopLevelTracedModule)
_WHY = "Scripted and traced modules cannot hold torchax tensors."


class _Ready(Exception):  # noqa: N818 # not an error: the Python module is complete
    pass


def _stop(*_args: Any, **_kwargs: Any) -> Any:
    """`create_script_module`."""
    raise _Ready


def _made(cls: Any, *args: Any, **kwargs: Any) -> Any:
    """A `ScriptModule` with its methods in Python."""
    for name, stub in cls._methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, stub.original_method)
    module = cls.__new__(cls)
    make, script_modules.create_script_module = script_modules.create_script_module, _stop
    try:
        module.__init__(*args, **kwargs)
    except _Ready:
        pass
    finally:
        script_modules.create_script_module = make
    return module


@patch(
    "torch.jit._script:ScriptMeta.__call__",
    why=_WHY,
    upstream=TORCH + "jit/_script.py",
)
def _called(cls: Any, *args: Any, **kwargs: Any) -> Any:
    is_own = issubclass(cls, torch.jit.ScriptModule) and not cls.__module__.startswith("torch.")
    return (_made if is_own else type.__call__)(cls, *args, **kwargs)


@patch("torch.jit:script", why=_WHY, upstream=TORCH + "jit/_script.py")
def _left(obj: Any, *_args: Any, **_kwargs: Any) -> Any:
    """`torch.jit.script`."""
    return _kept(obj, _script)


def _kept(obj: Any, to_script: Any) -> Any:
    if isinstance(obj, torch.nn.Module) and not isinstance(obj, _compiled):
        obj.__dict__["save"] = functools.partial(_saved, obj)
        obj.__dict__["_to_script"] = to_script
    return obj


@patch("torch.jit:trace", why=_WHY, upstream=TORCH + "jit/_trace.py")
def _traced(func: Any, example_inputs: Any = None, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.trace`."""
    given = pytree.tree_leaves((example_inputs, kwargs.get("example_kwarg_inputs")))
    given += func.parameters() if isinstance(func, torch.nn.Module) else ()
    if not any(isinstance(one, (Tensor, View)) for one in given):
        with torchax.disable_temporarily(), DisableTorchFunction(), no_dispatch():
            return _trace(func, example_inputs, *args, **kwargs)
    inputs, named = pytree.tree_map_only(
        torch.Tensor, lambda one: one.detach().cpu(), (example_inputs, kwargs)
    )
    return _kept(func, lambda module: _traced(module, inputs, *args, **named))


@patch(
    "torch.jit:save",
    why=_WHY,
    upstream=TORCH + "jit/_serialization.py",
)
def _saved(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`torch.jit.save`."""
    if not isinstance(module, _compiled):
        plain, to_script = copy.copy(module), module.__dict__.get("_to_script", _script)
        own = ("save", "_to_script")
        plain.__dict__ = {name: value for name, value in module.__dict__.items() if name not in own}
        module = to_script(copy.deepcopy(plain).cpu())
    return _save(module, *args, **kwargs)
