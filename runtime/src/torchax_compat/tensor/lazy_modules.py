"""Lazy modules, such as `nn.LazyLinear`.

A parameter that is moved before its shape is known is created on the device.
A module that a traced function calls for the first time gets its parameters before the function is traced.
"""

from __future__ import annotations

from typing import Any

import jax
import torch
from torch.nn.parameter import UninitializedTensorMixin
from torch.utils.weak import WeakIdKeyDictionary
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import DisableTorchFunction, infer_parameters, pytree
from ..patches.declarations import TORCH, patch

_materialize = UninitializedTensorMixin.materialize
#: Whether a tensor without a shape is to be created on the device.
_awaited = WeakIdKeyDictionary()


class AwaitedError(Exception):
    """A traced function called a module that has no parameters yet."""

    def __init__(self, module: torch.nn.Module, inputs: Any) -> None:
        super().__init__(module)
        self.module, self.inputs = module, inputs

    def infer(self) -> None:
        """Create the module's parameters before the trace, from the shapes of its inputs."""
        infer_parameters(self.module, self.module, *pytree.tree_map_only(_Shaped, _Shaped.made, self.inputs))


class _Shaped:
    def __init__(self, tensor: torch.Tensor) -> None:
        self.shape, self.dtype = tuple(tensor.shape), tensor.dtype

    def made(self) -> Any:
        return torch.zeros(self.shape, dtype=self.dtype, device="jax")


def moved(tensor: torch.Tensor, dtype: Any, is_there: bool | None) -> Any:
    """A lazy parameter or buffer that was moved, or converted to another dtype if `is_there` is None."""
    if is_there is not None:
        _awaited[tensor] = is_there
    with DisableTorchFunction():
        return tensor if dtype is None else tensor.to(dtype)


@patch(
    "torch.nn.parameter:UninitializedTensorMixin.materialize",
    why="A parameter that was moved to torchax before its shape is known is created on the host.",
    upstream=TORCH + "nn/parameter.py",
)
def _materialized(tensor: torch.Tensor, shape: Any, device: Any = None, dtype: Any = None) -> Any:
    """`UninitializedTensorMixin.materialize`."""
    is_there = torch.device(device).type in ("cuda", "jax") if device else _awaited.pop(tensor, False)
    with DisableTorchFunction():
        if not is_there:
            return _materialize(tensor, shape, device, dtype)
        wants_gradient, dtype = tensor.requires_grad, dtype or tensor.data.dtype
    made = torch.empty(shape, dtype=dtype, device="jax")
    if isinstance(tensor, torch.nn.Parameter):
        made = torch.nn.Parameter(made, wants_gradient)
    torch.utils.swap_tensors(tensor, made)  # optimizers may have it already
    return None


@patch(
    "torch.nn.modules.lazy:LazyModuleMixin._infer_parameters",
    why="Parameters that are created while JAX traces belong to the trace.",
    upstream=TORCH + "nn/modules/lazy.py",
)
def _inferred(self: Any, module: torch.nn.Module, args: Any, kwargs: Any = None) -> Any:
    """`LazyModuleMixin._infer_parameters`, the hook before a lazy module's first call."""
    inputs = args, kwargs or {}
    tensors = [leaf for leaf in pytree.tree_leaves(inputs) if isinstance(leaf, (Tensor, View))]
    if not any(isinstance(tensor.jax(), jax.core.Tracer) for tensor in tensors):
        return infer_parameters(self, module, *inputs)
    raise AwaitedError(self, pytree.tree_map_only((Tensor, View), _Shaped, inputs))
