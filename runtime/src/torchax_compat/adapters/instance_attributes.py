"""The private attributes that the runtime reads from instances of classes of torch, torchax and NumPy.

A function that reads one for another module would take time at each operation, so modules read these
directly; `enable()` checks that they exist.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import torch
import torchax

from .torch_internals import LoaderIterator


def _loader_iterator() -> Any:
    data: Any = [0]
    return LoaderIterator(torch.utils.data.DataLoader(data, generator=torch.Generator()))


def _tensor() -> Any:
    array = jax.device_put(np.zeros((), np.float32))  # which JAX does not compile
    return torchax.tensor.Tensor(array, torchax.default_env())


def _storage() -> Any:
    return torch.empty(0).untyped_storage()


#: By a function that creates an instance, the attributes that are read from such instances.
READ: dict[Callable[[], Any], set[str]] = {
    # By name: parameters, buffers, submodules; hooks by number.
    torch.nn.Module: {
        *("_backward_hooks", "_backward_pre_hooks", "_buffers", "_forward_hooks", "_forward_pre_hooks"),
        *("_modules", "_parameters"),
    },
    # The methods that are to become TorchScript.
    lambda: torch.jit.ScriptModule: {"_methods"},
    # The modules and tensors that are compiled, the compiled methods, and how JAX compiles them.
    lambda: torchax.interop.JittableModule(torch.nn.Module()): {
        *("_extra_dumped_weights", "_extra_jit_args", "_jitted", "_model"),
    },
    # The hooks before and after a step. torch imports its compiler, for seconds, to create an optimizer.
    lambda: torch.optim.Optimizer: {"_optimizer_step_post_hooks", "_optimizer_step_pre_hooks"},
    # Whether it is on, and whether it keeps converted weights.
    lambda: torch.autocast("cpu"): {"_cache_enabled", "_enabled"},
    # How often a tensor was written to, and the address of its memory's description.
    lambda: torch.empty(0): {"_version"},
    _storage: {"_cdata"},
    # The generator of bits behind NumPy's old interface.
    np.random.RandomState: {"_bit_generator"},
    # What the data loader was created with, and the seed of this epoch.
    _loader_iterator: {
        *("_auto_collation", "_base_seed", "_collate_fn", "_dataset", "_dataset_kind", "_drop_last"),
        *("_next_index", "_num_workers", "_reset"),
    },
    # The types of its arguments, and the part of its name behind the dot.
    lambda: torch.ops.aten.add.Tensor: {"_schema", "_overloadname"},
    # The name of an operator with its namespace, such as `aten::add`.
    lambda: torch.ops.aten.add: {"_qualified_op_name"},
    # The array of a tensor, and the environment in which it was created.
    _tensor: {"_elem", "_env"},
    # Implementations and decompositions by operator, moves between devices, and the choice of a device.
    torchax.default_env: {
        *("_decomps", "_get_op_or_decomp", "_ops", "_should_use_torchax_tensor", "_to_copy"),
    },
}
#: Operators of torch in the namespace `aten`.
OPERATORS = {
    *("_adaptive_avg_pool2d", "_adaptive_avg_pool3d", "_cdist_forward", "_conj", "_embedding_bag"),
    *("_embedding_bag_forward_only", "_fft_c2r", "_int_mm", "_is_all_true", "_is_any_true", "_neg_view"),
    *("_pdist_forward", "_safe_softmax", "_sparse_addmm", "_sparse_coo_tensor_with_dims_and_tensors"),
    *("_to_copy", "_trilinear"),
}
#: By class, the attributes that the runtime adds to instances, and that torch and torchax may not use.
ADDED: dict[type, set[str]] = {
    torchax.tensor.Tensor: {"_kept_by", "_shown_by", "_stride", "_taken"},
}
#: The attribute by which torch recognizes parameters of other classes of tensors.
PARAMETER_MARK = "_is_param"


def problems() -> list[str]:
    """The attributes that the installed versions lack, or use for something else."""
    with torch.device("cpu"):  # the default device may be that of torchax already
        instances = [(make(), names) for make, names in READ.items()]
    lacking = [_name(type(one), name) for one, names in instances for name in names if not _has(one, name)]
    lacking += [f"torch.ops.aten.{name}" for name in OPERATORS if not hasattr(torch.ops.aten, name)]
    taken = [_name(owner, name) for owner, names in ADDED.items() for name in names if hasattr(owner, name)]
    marked = _tensor()
    setattr(marked, PARAMETER_MARK, True)
    if not isinstance(marked, torch.nn.Parameter):
        lacking.append(_name(torch.nn.Parameter, PARAMETER_MARK))
    return sorted([*lacking, *taken])


def _has(one: Any, name: str) -> bool:
    """Whether an object has an attribute, or a class declares it for its instances."""
    return hasattr(one, name) or name in getattr(one, "__annotations__", {})


def _name(owner: type, attribute: str) -> str:
    return f"{owner.__module__}.{owner.__qualname__}.{attribute}"
