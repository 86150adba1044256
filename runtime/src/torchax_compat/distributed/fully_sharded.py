"""`FullyShardedDataParallel` and `fully_shard`, where each device is a rank: parameters are sharded by size.

A large parameter is sharded over the mesh along its longest dimension that the number of devices divides.
Its gradient and its optimizer state follow.
JAX gathers parameters where a function uses them.
On several processes, each has all parameters, sharded over its own devices.
The gradients are averages over the ranks, as those of `DistributedDataParallel`.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import jax
import torch
from torch import distributed
from torchax.tensor import Tensor

from .. import ranks
from ..patches import application
from ..tensor import arrays, module_to, sharding
from . import synchronization

_PREFIX = "_fsdp_wrapped_module."
#: Parameters with fewer elements are replicated: gathering them takes longer than it saves memory.
FEWEST_ELEMENTS = 1 << 12


def shard(module: torch.nn.Module) -> None:
    """Move a module to the device, and shard its large parameters over the mesh."""
    ranks.report_once(
        f"parameters with at least {FEWEST_ELEMENTS} elements are sharded over {ranks.AXIS}={ranks.count()}, "
        "along their longest dimension that the number of devices divides"
    )
    module.to("jax")
    synchronization.synchronize(module, sends_buffers=False)
    for parameter in module.parameters():
        if isinstance(parameter, Tensor):
            array = parameter.jax()
            arrays.put(parameter, jax.device_put(array, sharding.by_size(array.shape, FEWEST_ELEMENTS)))


def _as_declared(options: dict[str, Any], name: str) -> None:
    """Warn of options that change numbers, and that have no effect."""
    if options.get(name) is not None:
        warnings.warn(
            f"`{name}` has no effect: the sharded module computes in the type of its parameters; use "
            "`torch.autocast`",
            stacklevel=4,
        )


def _without_prefix(_module: Any, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    for name in [name for name in state if name.startswith(prefix + _PREFIX)]:
        state[prefix + name.removeprefix(prefix + _PREFIX)] = state.pop(name)


def _with_prefix(_module: Any, state: dict[str, Any], prefix: str, *_others: Any) -> None:
    for name in [name for name in state if name.startswith(prefix)]:
        state[prefix + _PREFIX + name.removeprefix(prefix)] = state.pop(name)


def _wraps(self: Any, module: torch.nn.Module, *_args: Any, **options: Any) -> None:
    torch.nn.Module.__init__(self)
    _as_declared(options, "mixed_precision")
    shard(module)
    self._fsdp_wrapped_module = module
    self.register_state_dict_post_hook(_without_prefix)
    self.register_load_state_dict_pre_hook(_with_prefix)


def _calls(self: Any, *inputs: Any, **kwargs: Any) -> Any:
    return self._fsdp_wrapped_module(*inputs, **kwargs)


def _named(self: Any, *args: Any, **kwargs: Any) -> Iterator[tuple[str, Any]]:
    for name, parameter in torch.nn.Module.named_parameters(self, *args, **kwargs):
        yield name.replace(_PREFIX, ""), parameter


def _clips(self: Any, max_norm: float, norm_type: float = 2.0) -> Any:
    return torch.nn.utils.clip_grad_norm_(list(self.parameters()), max_norm, norm_type)


@contextlib.contextmanager
def _within(*_args: Any, **_options: Any) -> Iterator[None]:
    """A context without an effect: parameters are whole arrays, and gradients are averages."""
    yield


def _optimizer_state(_model: Any, optimizer: Any, *_args: Any, **_options: Any) -> Any:
    return optimizer.state_dict()


def _optimizer_state_to_load(_model: Any, _optimizer: Any, state: Any, *_args: Any, **_options: Any) -> Any:
    return state


def _no_effect(*_args: Any, **_options: Any) -> None:
    """The methods of a sharded module: JAX decides when to gather, and averages gradients at once."""


def _sharded(module: Any, **options: Any) -> Any:
    """`fully_shard(module)`, which returns the module."""
    policy = options.get("mp_policy")
    if policy is not None and getattr(policy, "param_dtype", None) is not None:
        _as_declared(options, "mp_policy")
    for one in module if isinstance(module, list) else [module]:
        shard(one)
        if not hasattr(one, "set_requires_gradient_sync"):
            kind: Any = type(one)
            one.__class__ = _sharded_class(kind)
    return module


_METHODS = {
    "__init__": _wraps,
    "forward": _calls,
    "named_parameters": _named,
    "clip_grad_norm_": _clips,
    "no_sync": _within,
    "apply": torch.nn.Module.apply,
    "state_dict_type": staticmethod(_within),
    "set_state_dict_type": staticmethod(_no_effect),
    "summon_full_params": staticmethod(_within),
    "optim_state_dict": staticmethod(_optimizer_state),
    "optim_state_dict_to_load": staticmethod(_optimizer_state_to_load),
}


@functools.cache
def _sharded_class(kind: Any) -> Any:
    """The class of a module that `fully_shard` has sharded."""
    from torch.distributed.fsdp import FSDPModule

    def new(cls: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: ARG001 # an item of a container is a plain one
        return kind(*args, **kwargs)

    def apply(self: Any, *args: Any, **kwargs: Any) -> Any:
        return module_to.move(self, *args, **kwargs)

    names = [name for name, value in vars(FSDPModule).items() if callable(value) and name[0] != "_"]
    members = {**dict.fromkeys(names, _no_effect), "__new__": new, "_apply": apply}
    return type(f"FSDP{kind.__name__}", (FSDPModule, kind), {**members, "__module__": kind.__module__})


def _replace() -> Callable[[], None]:
    """Replace the class and the function of torch, until the function that is returned is called."""
    if not distributed.is_available():
        return lambda: None
    from torch.distributed import fsdp  # it imports much, which only programs with ranks wait for

    kind = fsdp.FullyShardedDataParallel
    methods = [(kind, name, value) for name, value in _METHODS.items()]
    undone = application.replace([*methods, (fsdp, "fully_shard", _sharded)])
    return functools.partial(application.restore, undone)


ranks.STARTS.append(_replace)
