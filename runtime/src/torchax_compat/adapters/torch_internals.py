"""The private names of torch that the runtime uses: the originals, from before patches are applied."""

from __future__ import annotations

from typing import Any

import torch
from torch import _ops, _tensor_str
from torch._functorch import apis, eager_transforms
from torch.autograd import function
from torch.jit import _recursive
from torch.nn.attention import flex_attention
from torch.nn.modules import batchnorm, instancenorm
from torch.nn.modules import module as _module
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import clip_grad, stateless
from torch.optim import lbfgs
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _python_dispatch, _pytree
from torch.utils._mode_utils import no_dispatch as no_dispatch  # context without `__torch_dispatch__`
from torch.utils.data import DataLoader, _DatasetKind, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter

#: Nested lists, tuples, dicts and registered classes.
pytree = _pytree
#: The leaves of a tree whose structure is a prefix of another one's, one for each leaf of that.
broadcast_to_and_flatten = _pytree._broadcast_to_and_flatten

#: Context in which neither modes nor classes of tensors see calls of torch functions.
DisableTorchFunction = torch._C.DisableTorchFunction
#: Context in which they do again.
EnableTorchFunction = torch._C._EnableTorchFunction
#: Context in which no class of tensors sees operations.
DisableTorchDispatch = torch._C._DisableTorchDispatch
#: The attribute `grad` of tensors.
tensor_gradient: Any = torch._C.TensorBase.grad
#: The attributes of tensors for the hooks on their gradients: those before it is accumulated, and after.
tensor_hooks: Any = (torch._C.TensorBase._backward_hooks, torch._C.TensorBase._post_accumulate_grad_hooks)
#: The forward hooks of all modules, by number: those before the call, and after.
forward_hooks: Any = (_module._global_forward_pre_hooks, _module._global_forward_hooks)
#: `Function.apply` without what it does for the transforms of `torch.func`, as a descriptor.
function_apply: Any = torch._C._FunctionBase.__dict__["apply"]
#: Whether a transform of `torch.func` is active.
are_transforms_active = torch._C._are_functorch_transforms_active
#: Starts PyTorch's backward pass.
run_backward = torch.autograd._engine_run_backward
#: Context without modes, of torch functions and of operations.
disable_current_modes = _python_dispatch._disable_current_modes
#: The modes for torch functions that are active in this thread.
function_modes = _get_current_function_mode_stack
#: An operator of torch for certain types of arguments, and all of its overloads.
OpOverload, OpOverloadPacket = _ops.OpOverload, _ops.OpOverloadPacket

#: The elements of a tensor as text, and text with device, dtype and so on appended.
contents_as_text, with_suffixes = _tensor_str._tensor_str, _tensor_str._add_suffixes
#: The tensors of lists by device and dtype, as optimizers group them.
grouped_tensors = torch._C._group_tensors_by_device_and_dtype

#: How many tensors, and views of them, share a storage.
storage_use_count = torch._C._storage_Use_Count
#: The functions of `torch.nn.functional` that are written in C++.
nn_functions = torch._C._nn
#: The name of the device that a package adds to torch, which is `jax` with torchax.
custom_backend_name = torch._C._get_privateuse1_backend_name
#: The functions that pack and unpack sequences of different lengths.
pack_padded_sequence, pad_packed_sequence = (
    torch._VF._pack_padded_sequence,
    torch._VF._pad_packed_sequence,
)

#: Creates a tensor of a subclass without elements.
make_wrapper_subclass = torch.Tensor._make_wrapper_subclass
#: Whether a `torch.autograd.Function` has a `setup_context` of its own.
is_setup_context_defined = function._is_setup_context_defined
#: The gradient hooks of a module: the full ones, and the others.
get_backward_hooks = torch.nn.Module._get_backward_hooks
#: What `vmap`, `grad`, `grad_and_value`, `vjp` and `jvp` of `torch.func` call.
vmap_impl = apis.vmap_impl
grad_impl, grad_and_value_impl = eager_transforms.grad_impl, eager_transforms.grad_and_value_impl
vjp_with_argnums = eager_transforms._vjp_with_argnums
jvp_with_argnums = eager_transforms._jvp_with_argnums
#: The standard basis of the space of some tensors, in chunks, for Jacobians.
chunked_standard_basis = eager_transforms._chunked_standard_basis_for_

#: The module that turns modules into TorchScript.
script_modules = _recursive
#: Context in which a module has other tensors as parameters and buffers.
reparametrize_module = stateless._reparametrize_module
#: The base classes of batch and instance normalization.
BatchNormBase, InstanceNormBase = batchnorm._BatchNorm, instancenorm._InstanceNorm
#: The line search of `LBFGS`.
strong_wolfe = lbfgs._strong_wolfe
#: The checks of `flex_attention`, and the `mask_mod` of a mask that was sliced.
validate_embed_dim = flex_attention._validate_embed_dim
sliced_mask_mod_error = flex_attention._sliced_mask_mod_error
#: A function of one score, batch, head and two positions, for all of these.
vmap_over_scores = flex_attention._vmap_for_bhqkv
#: The size of the block of a mask without blocks.
LARGE_SPARSE_BLOCK_SIZE = flex_attention._LARGE_SPARSE_BLOCK_SIZE

#: The norm of all gradients, and the multiplication with which they are clipped.
total_norm, clip_grads_with_norm = clip_grad._get_total_norm, clip_grad._clip_grads_with_norm_
#: `Module._apply(fn)`, which changes all parameters and buffers, and is behind `to()` and `float()`.
apply_to_module = torch.nn.Module._apply
#: The hook that creates the parameters of a lazy module at its first call.
infer_parameters = LazyModuleMixin._infer_parameters

#: `_get_iterator()` of a `DataLoader`, which chooses the class of its iterator.
loader_iterator = DataLoader._get_iterator
#: The base class of the iterators of a `DataLoader`.
LoaderIterator = _BaseDataLoaderIter
#: Creates the object that fetches items of a data set, by its type.
create_fetcher = _DatasetKind.create_fetcher
#: Fetches items of a data set with indices.
fetch_items = _utils.fetch._MapDatasetFetcher.fetch
#: What `get_worker_info()` returns in a worker.
WorkerInfo = _utils.worker.WorkerInfo
#: The seed of NumPy in a worker, from the base seed of an epoch and the worker's number.
numpy_seed = _utils.worker._generate_state


def exchange_worker_info(info: Any) -> Any:
    """Set what `get_worker_info()` returns, and return what it was."""
    before = _utils.worker._worker_info
    _utils.worker._worker_info = info
    return before


def fake_store() -> Any:
    """The store of a process group whose other ranks do not exist; its backend is `"fake"`."""
    from torch.testing._internal.distributed.fake_pg import FakeStore  # imports much

    return FakeStore()
