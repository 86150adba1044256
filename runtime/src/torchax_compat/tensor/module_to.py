"""Moves of modules and parameters to the device, which create new parameters.

In PyTorch, `.cuda()` changes the data of a parameter.
A parameter that is moved to torchax is a new object, and so is one on the device that is converted by
`half()`, since torch's own checks would see the old dtype.
The new parameter replaces the old one in optimizers, in other modules that share it, in gradient clipping,
and in calls of torch functions with a list of weights from before the move.
If CUDA is requested by a string that is only known at run time, the device is torchax's.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch.nn.utils import clip_grad
from torch.utils.weak import WeakIdKeyDictionary
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, apply_to_module
from ..adapters.torchax_internals import to_copy
from ..patches.declarations import TORCH, TORCHAX, patch, setup
from . import arrays, deferral, gradient_clipping, lazy_modules, placements

_optimizers: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
#: The new parameter for each old one.
_became = WeakIdKeyDictionary()
#: The `id`s of old parameters, some of which may be those of other objects by now.
_moved: set[int] = set()
#: Modules with parameters, by `id`, since not all are hashable.
_holders: weakref.WeakValueDictionary[int, torch.nn.Module] = weakref.WeakValueDictionary()
_make = torch.optim.Optimizer.__init__
_register, _to = torch.nn.Module.register_parameter, torch.nn.Module.to
#: The depth of nested modules that are being moved.
_depth = 0
#: Called with a module that was moved, or converted, with all that it contains.
AFTER_MOVES: list[Callable[[torch.nn.Module], None]] = []


def is_moving() -> bool:
    """Whether a module is being moved, or converted."""
    return _depth > 0


@patch(
    "torch.optim:Optimizer.__init__",
    why="The parameters of a module are new ones after it was moved to torchax.",
    upstream=TORCH + "optim/optimizer.py",
)
def _made(optimizer: torch.optim.Optimizer, *args: Any, **kwargs: Any) -> None:
    """`Optimizer.__init__`."""
    _make(optimizer, *args, **kwargs)
    _optimizers.add(optimizer)
    for group in optimizer.param_groups:
        group["params"][:] = map(_latest, group["params"])


@patch(
    "torch.nn:Module.register_parameter",
    why="Modules that share a parameter get the new one when one of them is moved.",
    upstream=TORCH + "nn/modules/module.py",
)
def _registered(module: torch.nn.Module, name: str, parameter: Any) -> None:
    """`Module.register_parameter`."""
    _register(module, name, parameter)
    _holders[id(module)] = module


@patch(
    "torch.nn:Module._apply",
    why="Optimizers and other modules keep the old parameters of a module that is moved to torchax.",
    upstream=TORCH + "nn/modules/module.py",
)
def move(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`Module._apply`, behind `.to("jax")`; torch calls it for submodules as well."""
    global _depth
    _depth += 1
    try:
        result = _moved_with_others(module, *args, **kwargs)
    finally:
        _depth -= 1
        if not _depth:
            _share()
    if not _depth:
        for function in AFTER_MOVES:
            function(module)
    return result


@setup("sharding rules", why="`disable()` ends the effect of `shard_by_name()`.")
def _rules() -> Any:
    return AFTER_MOVES.clear


@patch(
    "torch.nn:Module.to",
    why="PyTorch refuses to move modules to the device of a tensor without data, which torchax tensors seem.",
    upstream=TORCH + "nn/modules/module.py",
)
@functools.wraps(_to)
def _like(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    """`Module.to`, which may get a tensor for its device and dtype: torch would see that it has no data."""
    like = args[0] if args else kwargs.get("tensor")
    if not isinstance(like, (Tensor, View)):
        return _to(module, *args, **kwargs)
    kwargs.pop("tensor", None)
    return _to(module, "jax", like.dtype, *args[1:], **kwargs)


def tensors() -> Iterator[Tensor]:
    """The parameters and buffers of all modules that were moved."""
    for holder in list(_holders.values()):
        held = (*holder._parameters.values(), *holder._buffers.values())
        yield from (one for one in held if isinstance(one, Tensor))


def _share() -> None:
    """Replace old parameters by new ones in modules that share them."""
    for holder in list(_holders.values()):
        for name, p in list(holder._parameters.items()):
            new = p if p is None else _latest(p)
            if new is not p:
                holder._parameters[name] = new


def _moved_with_others(module: torch.nn.Module, *args: Any, **kwargs: Any) -> Any:
    _holders[id(module)] = module  # a copy registers no parameters
    before = {name: _latest(p) for name, p in module._parameters.items() if p is not None}
    for name, p in before.items():
        if module._parameters[name] is not p:
            module._parameters[name] = p
    result = apply_to_module(module, *args, **kwargs)
    for name, p in module._parameters.items():
        if isinstance(p, Tensor) and _type_of(p) is not p.dtype:
            module._parameters[name] = _made_anew(p)
    now = dict(module._parameters.items())  # for a traced TorchScript module, it has no `get`
    anew = {p: now.get(name, p) for name, p in before.items()}
    anew = {p: new for p, new in anew.items() if new is not None and new is not p}
    for p, new in anew.items():
        _became[p] = new
        _moved.add(id(p))
        placements.pass_on(p, new)
    for optimizer in _optimizers if anew else ():
        for group in optimizer.param_groups:
            group["params"][:] = [anew.get(p, p) for p in group["params"]]
        for p in [p for p in optimizer.state if p in anew]:
            optimizer.state[anew[p]] = optimizer.state.pop(p)
    return result


def _type_of(tensor: torch.Tensor) -> Any:
    """The dtype that torch's own checks see."""
    with DisableTorchFunction():
        return torch.Tensor.dtype.__get__(tensor)


def _made_anew(parameter: Any) -> Any:
    new = torch.nn.Parameter(parameter, parameter.requires_grad)
    new.grad = None if parameter.grad is None else arrays.tensor(parameter.grad.jax().astype(new.jax().dtype))
    return new


def _clipping(clip: Any, record: Any) -> Any:
    """Gradient clipping, for a list that may have been created before the module was moved.

    `record` returns None for a clipping that has to be computed at once.
    """

    @functools.wraps(clip)
    def run(parameters: Any, *args: Any, **kwargs: Any) -> Any:
        given = [parameters] if isinstance(parameters, torch.Tensor) else list(parameters)
        if not _moved.isdisjoint(map(id, given)):
            given = [_latest(one) if id(one) in _moved else one for one in given]
        recorded = None if deferral.current is None else record(given, *args, **kwargs)
        return clip(given, *args, **kwargs) if recorded is None else recorded

    return run


def _never(*_: Any, **_options: Any) -> None:
    """Record no clipping."""


def latest(args: Any) -> Any:
    """Arguments with new parameters in place of those from before a move."""
    if not any(type(one) is torch.nn.Parameter for one in args):
        return args
    return tuple(_latest(one) if type(one) is torch.nn.Parameter else one for one in args)


def _latest(parameter: Any) -> Any:
    while parameter in _became:
        parameter = _became[parameter]
    return parameter


@patch(
    "torchax.tensor:Environment._to_copy",
    why='It does not move tensors to a device `"cuda"` of a string known at run time, nor lazy parameters.',
    upstream=TORCHAX + "tensor.py",
)
def _copied(environment: Any, tensor: torch.Tensor, dtype: Any, device: Any) -> Any:
    """`Environment._to_copy`, behind `.to(...)`."""
    is_there = device is not None and torch.device(device).type in ("cuda", "jax")
    if torch.nn.parameter.is_lazy(tensor):
        return lazy_modules.moved(tensor, dtype, None if device is None else is_there)
    return to_copy(environment, tensor, dtype, "jax" if is_there else device)


for _name, _record in (("clip_grad_norm_", gradient_clipping.record), ("clip_grad_value_", _never)):
    _clip = _clipping(getattr(clip_grad, _name), _record)
    for _module in ("torch.nn.utils.clip_grad", "torch.nn.utils"):
        patch(
            f"{_module}:{_name}",
            why="A list of parameters from before a move to torchax has old ones, without gradients.",
            upstream=TORCH + "nn/utils/clip_grad.py",
        )(_clip)
