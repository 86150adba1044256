"""`FullyShardedDataParallel` and `fully_shard`, where each device is a rank: parameters are sharded by size.

A large parameter is sharded over the devices of all processes, along its longest dimension that their number
divides.
Its gradient and its optimizer state follow.
JAX gathers parameters where a function uses them.
The gradients are averages over the ranks, as those of `DistributedDataParallel`.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from jax.sharding import PartitionSpec
from torch import distributed

from .. import ranks
from ..adapters.torch_internals import pytree
from ..patches import application
from ..ranks import between_processes
from ..tensor import module_to, placements, sharding
from . import distributed_tensors, meshes, synchronization

_PREFIX = "_fsdp_wrapped_module."
#: Parameters with fewer elements are replicated: gathering them takes longer than it saves memory.
FEWEST_ELEMENTS = 1 << 12


def shard(module: torch.nn.Module) -> None:
    """Move a module to the device, and shard its large parameters over the devices of all processes."""
    ranks.report_once(
        f"parameters with at least {FEWEST_ELEMENTS} elements are sharded over {ranks.AXIS}={ranks.world()}, "
        "along their longest dimension that the number of devices divides"
    )
    if all(not one.is_meta for one in module.parameters()):
        module.to("jax")
        synchronization.synchronize(module, sends_buffers=False)
    for parameter in module.parameters():
        kept = placements.of(parameter)
        if kept is None or not _axes(kept).intersection(between_processes.data_axes()):
            placements.keep(parameter, *_sharding(parameter, kept))


def _axes(kept: placements.Kept) -> set[Any]:
    """The dimensions of the mesh over which a parameter is sharded."""
    return set(pytree.tree_leaves(tuple(kept.sharding.spec)))


def _sharding(parameter: torch.Tensor, kept: placements.Kept | None) -> tuple[Any, Any]:
    """How to shard a parameter, which a plan may have sharded over other devices already."""
    from torch.distributed.tensor import Shard

    spec: list[Any] = [None] * parameter.dim()
    if kept is not None:
        spec[: len(kept.sharding.spec)] = kept.sharding.spec
    taken = [number for number, axis in enumerate(spec) if axis is not None]
    dimension = sharding.longest_dimension(tuple(parameter.shape), ranks.world(), FEWEST_ELEMENTS, taken)
    is_shared = ranks.processes() > 1
    if dimension is not None:
        spec[dimension] = between_processes.data_axes() if is_shared else ranks.AXIS
    declared = (meshes.of_data(), (Shard(0),)) if kept is None else kept.declared
    of = between_processes.same_on_all if is_shared else sharding.by
    return of(PartitionSpec(*spec)), declared


def _as_declared(options: dict[str, Any], name: str) -> None:
    """Warn of options that change numbers, and that have no effect."""
    if options.get(name) is not None:
        warnings.warn(
            f"`{name}` has no effect: the sharded module computes in the type of its parameters; use "
            "`torch.autocast`",
            stacklevel=4,
        )


def _with_whole_tensors(_module: Any, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Replace tensors that are sharded over several processes by whole ones; all processes call it."""
    own = {name: value for name, value in state.items() if name.startswith(prefix)}
    state.update(zip(own, distributed_tensors.whole(list(own.values())), strict=True))


def _with_placements(module: Any, state: dict[str, Any], prefix: str, _metadata: Any) -> None:
    """Let tensors of a state say how the parameters of the module are placed."""
    for name, parameter in module.named_parameters():
        if prefix + name in state:
            placements.pass_on(parameter, state[prefix + name])


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
    self.register_state_dict_post_hook(_with_whole_tensors)
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
    """The state of an optimizer; later steps do not change it."""
    leaves, tree = pytree.tree_flatten(optimizer.state_dict())
    return pytree.tree_unflatten(list(map(_copy, leaves, distributed_tensors.whole(leaves))), tree)


def _copy(before: Any, whole: Any) -> Any:
    return whole.clone() if whole is before and isinstance(whole, torch.Tensor) else whole


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
            one.register_state_dict_post_hook(_with_placements)
            one.register_state_dict_post_hook(_with_whole_tensors)
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

    def end() -> None:
        application.restore(undone)
        placements.forget()

    return end


ranks.STARTS.append(_replace)
