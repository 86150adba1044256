"""`torch.autocast` for torchax tensors: the operators of PyTorch's lists for CUDA run in bfloat16 or float32.

torch disables `autocast` for `cuda` on a machine without CUDA, and knows no operators for `jax`.
Here both devices mean torchax, and `tensor/dispatch.py` converts the arguments of operators in the lists.
`float16` becomes `bfloat16`: a TPU computes in bfloat16, whose range needs no loss scaling.
"""

from __future__ import annotations

import contextlib
import functools
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import torch
import torchax
from torch.amp import autocast_mode
from torchax.tensor import Tensor
from torchax.view import View

from ..adapters.torch_internals import custom_backend_name, nn_functions
from ..patches.declarations import TORCH, patch
from ..tensor import conversions

_aten = torch.ops.aten
_KINDS = (Tensor, View)
#: Operators that run in the lower precision, in float32, and in the widest dtype of their arguments: those of
#: `ATen/autocast_mode.h`, and those that torchax is given in their place.
_LOWER = """
    _convolution conv1d conv2d conv3d conv_tbc conv_transpose1d conv_transpose2d conv_transpose3d convolution
    prelu _prelu_kernel addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm baddbmm bmm
    chain_matmul linalg_multi_dot lstm_cell gru_cell rnn_tanh_cell rnn_relu_cell
    scaled_dot_product_attention
"""
_FLOAT32 = """
    acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow softplus
    layer_norm native_layer_norm rms_norm _fused_rms_norm group_norm native_group_norm frobenius_norm
    nuclear_norm cosine_similarity poisson_nll_loss cosine_embedding_loss nll_loss nll_loss_forward nll_loss2d
    nll_loss2d_forward hinge_embedding_loss kl_div l1_loss smooth_l1_loss huber_loss mse_loss
    margin_ranking_loss multilabel_margin_loss soft_margin_loss triplet_margin_loss multi_margin_loss
    binary_cross_entropy_with_logits dist pdist _pdist_forward cdist _cdist_forward renorm logsumexp
    upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d _upsample_nearest_exact2d
    upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d upsample_bilinear2d
    _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d _upsample_bicubic2d_aa
"""
#: In float32, unless a dtype is given.
_UNLESS_GIVEN = """
    prod softmax _softmax log_softmax _log_softmax cumprod cumsum linalg_vector_norm linalg_matrix_norm sum
    norm
"""
_WIDEST = """
    addcdiv addcmul atan2 bilinear cross linalg_cross dot vdot grid_sampler grid_sampler_2d grid_sampler_3d
    index_put tensordot scatter_add cat stack
"""
_said = False


class _State(threading.local):
    """The dtype of `torch.autocast` in a thread; torch forgets its own below torch functions."""

    dtype = None


_state = _State()


def is_on() -> bool:
    """Whether the code runs within `torch.autocast`."""
    return _state.dtype is not None


def state() -> Any:
    """The dtype of `torch.autocast`; None outside of it."""
    return _state.dtype


def _lower(args: Any, kwargs: dict[str, Any]) -> Any:
    return _converted((args, kwargs), _state.dtype)


def _float32(args: Any, kwargs: dict[str, Any]) -> Any:
    return _converted((args, kwargs), torch.float32)


def _unless_given(args: Any, kwargs: dict[str, Any]) -> Any:
    is_given = any(isinstance(value, torch.dtype) for value in (*args, *kwargs.values()))
    return (args, kwargs) if is_given else _float32(args, kwargs)


def _widest(args: Any, kwargs: dict[str, Any]) -> Any:
    kinds = {one.dtype for one in _tensors((args, kwargs))}
    return (
        _converted((args, kwargs), torch.float32)
        if torch.float32 in kinds and len(kinds) > 1
        else (args, kwargs)
    )


def _tensors(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return [one for item in value for one in _tensors(item)]
    if isinstance(value, dict):
        return _tensors(list(value.values()))
    return [value] if isinstance(value, _KINDS) and value.dtype.is_floating_point else []


def _converted(value: Any, dtype: Any) -> Any:
    """Arguments with float tensors of the device in a dtype; those of float64 stay."""
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(_converted(one, dtype) for one in value)
    if isinstance(value, dict):
        return {name: _converted(one, dtype) for name, one in value.items()}
    if not isinstance(value, _KINDS) or not value.dtype.is_floating_point:
        return value
    if value.dtype in (dtype, torch.float64):
        return value
    whole = value.torch() if isinstance(value, View) else value
    return conversions.cast(torchax.default_env(), whole, dtype)


def _operations(names: Any) -> Iterator[Any]:
    """The operations of these names that write to no argument."""
    for name in names.split():
        packet = getattr(_aten, name, None)
        for kind in packet.overloads() if packet is not None else ():
            overload = getattr(packet, kind)
            if not overload._schema.is_mutable:
                yield overload


#: How the arguments of each operation are converted.
POLICIES = dict.fromkeys(_operations(_LOWER), _lower) | dict.fromkeys(_operations(_FLOAT32), _float32)
POLICIES |= dict.fromkeys(_operations(_UNLESS_GIVEN), _unless_given)
POLICIES |= dict.fromkeys(_operations(_WIDEST), _widest)
# Functions that torchax computes as a whole.
_WHOLE = (
    *(nn_functions.linear, torch.functional.einsum, nn_functions.scaled_dot_product_attention),
    *(torch.lstm, torch.gru, torch.rnn_tanh, torch.rnn_relu),
)
POLICIES |= dict.fromkeys(_WHOLE, _lower)
POLICIES |= dict.fromkeys((torch.cdist, torch.nn.functional.interpolate), _float32)
# Functions of the lists that torch splits into other operations before torchax gets them.
_SPLIT = (
    ("gru_cell lstm_cell rnn_tanh_cell rnn_relu_cell", _lower),
    (
        "cosine_embedding_loss hinge_embedding_loss kl_div l1_loss margin_ranking_loss multi_margin_loss",
        _float32,
    ),
    ("multilabel_margin_loss poisson_nll_loss rms_norm soft_margin_loss triplet_margin_loss", _float32),
)
for _names, _policy in _SPLIT:
    for _name in _names.split():
        _owners = (owner for owner in (torch, torch.nn.functional) if hasattr(owner, _name))
        POLICIES |= dict.fromkeys((getattr(owner, _name) for owner in _owners), _policy)
for _name in ("softmax", "log_softmax"):  # which convert to a given dtype first
    POLICIES |= {getattr(owner, _name): _unless_given for owner in (torch, torch.Tensor, torch.nn.functional)}


@contextlib.contextmanager
def disabled() -> Iterator[Any]:
    """Context of an operator whose arguments are converted: the operations within it stay as they are."""
    before, _state.dtype = _state.dtype, None
    try:
        yield
    finally:
        _state.dtype = before


_make, _enter, _exit = (getattr(autocast_mode.autocast, f"__{name}__") for name in ("init", "enter", "exit"))


_WHY = "PyTorch disables `autocast` for `cuda` without CUDA, and has no list of operators for `jax`."
_UPSTREAM = TORCH + "amp/autocast_mode.py"


@patch("torch.amp.autocast_mode:autocast.__init__", why=_WHY, upstream=_UPSTREAM)
@functools.wraps(_make)
def _made(
    self: Any, device_type: Any, dtype: Any = None, enabled: bool = True, cache_enabled: Any = None
) -> None:
    """`torch.autocast(...)`."""
    if device_type not in ("cuda", "jax"):
        _make(self, device_type, dtype, enabled, cache_enabled)
        return
    dtype = torch.get_autocast_dtype("cuda") if dtype is None else dtype
    if dtype == torch.float16:
        _say()
        dtype = torch.bfloat16
    self.device, self.fast_dtype, self._enabled = "cuda", dtype, enabled
    self.custom_backend_name = custom_backend_name()
    self._cache_enabled = torch.is_autocast_cache_enabled() if cache_enabled is None else cache_enabled


def _say() -> None:
    global _said
    if not _said:
        _said = True
        warnings.warn("`torch.autocast` uses bfloat16 on torchax, not float16", stacklevel=4)


@patch("torch.amp.autocast_mode:autocast.__enter__", why=_WHY, upstream=_UPSTREAM)
def _entered(self: Any) -> Any:
    if self.device == "cuda":
        vars(self).setdefault("outer_dtypes", []).append(_state.dtype)
        _state.dtype = self.fast_dtype if self._enabled else None
    return _enter(self)


@patch("torch.amp.autocast_mode:autocast.__exit__", why=_WHY, upstream=_UPSTREAM)
def _left(self: Any, *error: Any) -> Any:
    if self.device == "cuda":
        _state.dtype = self.outer_dtypes.pop()
    return _exit(self, *error)
