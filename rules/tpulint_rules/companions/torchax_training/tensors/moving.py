"""What is moved to the device; importing this file brings that in.

Torch changes the data of a parameter that is moved by `.cuda()`; one that is moved to torchax is made anew.
Who else has it is given the new one here: optimizers, whenever they were made and of whatever list, other
modules, which share the weight, once they are moved, and what clips gradients.
Where CUDA is asked for by a text that is read when the program runs, torchax is meant.
"""

from __future__ import annotations

import functools
import weakref

import torch
import torchax
from torch.nn.utils import clip_grad
from torch.utils.weak import WeakIdKeyDictionary

_optimizers = weakref.WeakSet()
#: What parameters were made anew as.
_became = WeakIdKeyDictionary()
_make, _move = torch.optim.Optimizer.__init__, torch.nn.Module._apply


def _made(optimizer, *args, **kwargs):
    """`Optimizer.__init__`."""
    _make(optimizer, *args, **kwargs)
    _optimizers.add(optimizer)
    for group in optimizer.param_groups:
        group["params"][:] = map(_latest, group["params"])


def _moved(module, *args, **kwargs):
    """`Module._apply`, behind `.to("jax")`, which torch calls for the modules within as well."""
    before = {name: _latest(p) for name, p in module._parameters.items() if p is not None}
    module._parameters.update(before)
    result = _move(module, *args, **kwargs)
    anew = {p: module._parameters.get(name, p) for name, p in before.items()}
    anew = {p: new for p, new in anew.items() if new is not None and new is not p}
    for p, new in anew.items():
        _became[p] = new
    for optimizer in _optimizers if anew else ():
        for group in optimizer.param_groups:
            group["params"][:] = [anew.get(p, p) for p in group["params"]]
        for p in [p for p in optimizer.state if p in anew]:
            optimizer.state[anew[p]] = optimizer.state.pop(p)
    return result


def _clipping(clip):
    """What clips gradients, of a list that may have been made before the module was moved."""

    @functools.wraps(clip)
    def run(parameters, *args, **kwargs):
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        return clip(list(map(_latest, given)), *args, **kwargs)

    return run


def _latest(parameter):
    while parameter in _became:
        parameter = _became[parameter]
    return parameter


_copy = torchax.tensor.Environment._to_copy


def _copied(environment, tensor, dtype, device):
    """`Environment._to_copy`, behind `.to(...)`."""
    is_there = device is not None and torch.device(device).type in ("cuda", "jax")
    return _copy(environment, tensor, dtype, "jax" if is_there else device)


torchax.tensor.Environment._to_copy = _copied
torch.optim.Optimizer.__init__ = _made
torch.nn.Module._apply = _moved
for _name in ("clip_grad_norm_", "clip_grad_value_"):
    _clip = _clipping(getattr(clip_grad, _name))
    setattr(clip_grad, _name, _clip)
    setattr(torch.nn.utils, _name, _clip)
