"""What is moved to the device; importing this file brings that in.

Torch changes the data of a parameter that is moved by `.cuda()`; one that is moved to torchax is made anew, and
so is one there that gets another type by `half()`: torch's own checks would see the one that it had.
Who else has it is given the new one here: optimizers, whenever they were made and of whatever list, other
modules, which share the weight, what clips gradients, and functions of torch that are given the old one, as
those of a penalty are that lists weights ahead of the move.
Where CUDA is asked for by a text that is read when the program runs, torchax is meant.
"""

from __future__ import annotations

import functools
import weakref

import torch
import torchax
from torch.nn.utils import clip_grad
from torch.utils.weak import WeakIdKeyDictionary
from torchax.tensor import Tensor

from .. import arrays
from . import lazy

_optimizers = weakref.WeakSet()
#: What parameters were made anew as.
_became = WeakIdKeyDictionary()
#: Modules that have parameters, by their ids: not all can be told by a hash.
_holders = weakref.WeakValueDictionary()
_make, _move = torch.optim.Optimizer.__init__, torch.nn.Module._apply
_register = torch.nn.Module.register_parameter
#: How many modules are being moved, one within the other.
_depth = 0


def _made(optimizer, *args, **kwargs):
    """`Optimizer.__init__`."""
    _make(optimizer, *args, **kwargs)
    _optimizers.add(optimizer)
    for group in optimizer.param_groups:
        group["params"][:] = map(_latest, group["params"])


def _registered(module, name, parameter):
    """`Module.register_parameter`."""
    _register(module, name, parameter)
    _holders[id(module)] = module


def _moved(module, *args, **kwargs):
    """`Module._apply`, behind `.to("jax")`, which torch calls for the modules within as well."""
    global _depth
    _depth += 1
    try:
        return _moved_with_others(module, *args, **kwargs)
    finally:
        _depth -= 1
        if not _depth:
            _share()


def _share():
    """Give modules that share a parameter the one that it was made anew as."""
    for holder in list(_holders.values()):
        for name, p in list(holder._parameters.items()):
            new = p if p is None else _latest(p)
            if new is not p:
                holder._parameters[name] = new


def _moved_with_others(module, *args, **kwargs):
    _holders[id(module)] = module  # a copy registers no parameters
    before = {name: _latest(p) for name, p in module._parameters.items() if p is not None}
    for name, p in before.items():
        if module._parameters[name] is not p:
            module._parameters[name] = p
    result = _move(module, *args, **kwargs)
    for name, p in module._parameters.items():
        if isinstance(p, Tensor) and _type_of(p) is not p.dtype:
            module._parameters[name] = _made_anew(p)
    now = dict(module._parameters.items())  # those of a module that was traced by TorchScript have no `get`
    anew = {p: now.get(name, p) for name, p in before.items()}
    anew = {p: new for p, new in anew.items() if new is not None and new is not p}
    for p, new in anew.items():
        _became[p] = new
    for optimizer in _optimizers if anew else ():
        for group in optimizer.param_groups:
            group["params"][:] = [anew.get(p, p) for p in group["params"]]
        for p in [p for p in optimizer.state if p in anew]:
            optimizer.state[anew[p]] = optimizer.state.pop(p)
    return result


def _type_of(tensor):
    """The type of numbers that torch's own checks see."""
    with torch._C.DisableTorchFunction():
        return torch.Tensor.dtype.__get__(tensor)


def _made_anew(parameter):
    new = torch.nn.Parameter(parameter, parameter.requires_grad)
    new.grad = None if parameter.grad is None else arrays.tensor(parameter.grad.jax().astype(new.jax().dtype))
    return new


def _clipping(clip):
    """What clips gradients, of a list that may have been made before the module was moved."""

    @functools.wraps(clip)
    def run(parameters, *args, **kwargs):
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        return clip(list(map(_latest, given)), *args, **kwargs)

    return run


def latest(args):
    """Arguments with the parameters that those of the host among them were made anew as."""
    if not any(type(one) is torch.nn.Parameter for one in args):
        return args
    return tuple(_latest(one) if type(one) is torch.nn.Parameter else one for one in args)


def _latest(parameter):
    while parameter in _became:
        parameter = _became[parameter]
    return parameter


_copy = torchax.tensor.Environment._to_copy


def _copied(environment, tensor, dtype, device):
    """`Environment._to_copy`, behind `.to(...)`."""
    is_there = device is not None and torch.device(device).type in ("cuda", "jax")
    if torch.nn.parameter.is_lazy(tensor):
        return lazy.moved(tensor, dtype, None if device is None else is_there)
    return _copy(environment, tensor, dtype, "jax" if is_there else device)


torchax.tensor.Environment._to_copy = _copied
torch.optim.Optimizer.__init__ = _made
torch.nn.Module._apply = _moved
torch.nn.Module.register_parameter = _registered
for _name in ("clip_grad_norm_", "clip_grad_value_"):
    _clip = _clipping(getattr(clip_grad, _name))
    setattr(clip_grad, _name, _clip)
    setattr(torch.nn.utils, _name, _clip)
