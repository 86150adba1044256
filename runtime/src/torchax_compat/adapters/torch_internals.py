"""The private names of torch that the runtime uses: the originals, from before patches are applied."""

from __future__ import annotations

import torch
from torch import _ops, _tensor_str
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.utils import clip_grad
from torch.overrides import _get_current_function_mode_stack
from torch.utils import _python_dispatch, _pytree
from torch.utils._mode_utils import no_dispatch as no_dispatch  # context without `__torch_dispatch__`
from torch.utils.data import DataLoader, _DatasetKind, _utils
from torch.utils.data.dataloader import _BaseDataLoaderIter

#: Nested lists, tuples, dicts and registered classes.
pytree = _pytree

#: Context in which neither modes nor classes of tensors see calls of torch functions.
DisableTorchFunction = torch._C.DisableTorchFunction
#: Context in which no class of tensors sees operations.
DisableTorchDispatch = torch._C._DisableTorchDispatch
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


def exchange_worker_info(info: WorkerInfo | None) -> WorkerInfo | None:
    """Set what `get_worker_info()` returns, and return what it was."""
    before: WorkerInfo | None = _utils.worker._worker_info
    _utils.worker._worker_info = info
    return before
