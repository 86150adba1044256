"""TorchScript, which torchax does without; importing this file leaves it out.

Modules that are scripted do not keep tensors of torchax: they, and functions, stay what they are in Python, and
JAX compiles them.
Where they are saved, a copy on the host is scripted.
"""

from __future__ import annotations

import copy
import functools

import torch
import torch.jit

from torch.jit import _recursive

_script, _save, _kind = torch.jit.script, torch.jit.save, type(torch.jit.ScriptModule)


class _Ready(Exception):  # noqa: N818 # no error: the module in Python is done, and is to be scripted
    pass


def _stop(*_args, **_kwargs):
    """`create_script_module`."""
    raise _Ready


def _made(cls, *args, **kwargs):
    """A `ScriptModule`, with its methods in Python."""
    for name, stub in cls._methods.items():
        if name not in cls.__dict__:
            setattr(cls, name, stub.original_method)
    module = cls.__new__(cls)
    make, _recursive.create_script_module = _recursive.create_script_module, _stop
    try:
        module.__init__(*args, **kwargs)
    except _Ready:
        pass
    finally:
        _recursive.create_script_module = make
    return module


def _called(cls, *args, **kwargs):
    is_own = issubclass(cls, torch.jit.ScriptModule) and not cls.__module__.startswith("torch.")
    return (_made if is_own else type.__call__)(cls, *args, **kwargs)


def _left(obj, *args, **kwargs):
    """`torch.jit.script`."""
    if isinstance(obj, torch.nn.Module) and not hasattr(obj, "save"):
        obj.__dict__["save"] = functools.partial(_saved, obj)
    return obj


def _saved(module, *args, **kwargs):
    """`torch.jit.save`."""
    if not isinstance(module, torch.jit.RecursiveScriptModule):
        plain = copy.copy(module)
        plain.__dict__ = {name: value for name, value in module.__dict__.items() if name != "save"}
        module = _script(copy.deepcopy(plain).cpu())
    return _save(module, *args, **kwargs)


_kind.__call__ = _called
torch.jit.script, torch.jit.save = _left, _saved
