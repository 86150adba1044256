"""Operators of networks: convolutions, pooling, normalization, losses, attention and recurrent cells."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from ..samples import Table, bf16, boolean, f32, index, positive, small, unit

CONVOLUTIONS = Table()
CONVOLUTIONS.add(
    {"conv1d": functional.conv1d},
    (f32(2, 3, 6), f32(4, 3, 3), f32(4)),
    (f32(2, 3, 6), f32(4, 3, 3), None, 2, 1),
)
CONVOLUTIONS.add(
    {"conv2d": functional.conv2d},
    (f32(2, 4, 5, 6), f32(4, 4, 3, 3), f32(4), 1, 1),
    (f32(2, 4, 5, 6), f32(4, 2, 3, 2), None, (2, 1), (1, 0), 1, 2),
    (f32(2, 4, 5, 6), f32(4, 1, 2, 2), f32(4), 1, "same", 2, 4),
    (bf16(2, 4, 5, 6), bf16(4, 4, 1, 1)),
)
CONVOLUTIONS.add({"conv2d of one image": functional.conv2d}, (f32(4, 5, 6), f32(2, 4, 3, 3)))
CONVOLUTIONS.add({"conv3d": functional.conv3d}, (f32(1, 2, 4, 4, 3), f32(2, 2, 2, 2, 2), f32(2), 1, 1))
CONVOLUTIONS.add(
    {"conv_transpose1d": functional.conv_transpose1d}, (f32(2, 3, 5), f32(3, 4, 3), f32(4), 2, 1, 1)
)
CONVOLUTIONS.add(
    {"conv_transpose2d": functional.conv_transpose2d},
    (f32(2, 4, 4, 3), f32(4, 2, 3, 3), f32(2), 2, 1),
    (f32(2, 4, 4, 3), f32(4, 1, 3, 2), None, (2, 1), 0, (1, 0), 2),
)
CONVOLUTIONS.add(
    {
        "max_pool1d": lambda x: functional.max_pool1d(x[:, :, 0], 2, padding=1),
        "max_pool2d": lambda x: (functional.max_pool2d(x, 2), functional.max_pool2d(x, 3, 2, 1)),
        "max_pool2d with ceil_mode": lambda x: functional.max_pool2d(x, 2, 2, ceil_mode=True),
        "max_pool2d with indices": lambda x: functional.max_pool2d(x, 2, return_indices=True),
        "max_pool2d with dilation": lambda x: functional.max_pool2d(x, 2, 1, dilation=2),
        "max_unpool2d": lambda x: functional.max_unpool2d(
            *functional.max_pool2d(x, 2, return_indices=True), 2
        ),
        "avg_pool1d": lambda x: functional.avg_pool1d(x[:, :, 0], 2, padding=1),
        "avg_pool2d": lambda x: (functional.avg_pool2d(x, 2), functional.avg_pool2d(x, 3, 2, 1)),
        "avg_pool2d with options": lambda x: (
            functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
            functional.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
            functional.avg_pool2d(x, 2, divisor_override=3),
        ),
        "lp_pool2d": lambda x: functional.lp_pool2d(x.abs() + 1, 2, 2),
        "adaptive_avg_pool2d": lambda x: (
            functional.adaptive_avg_pool2d(x, 1),
            functional.adaptive_avg_pool2d(x, (2, 3)),
            functional.adaptive_avg_pool2d(x, (3, 4)),
        ),
        "adaptive_avg_pool1d": lambda x: functional.adaptive_avg_pool1d(x[:, :, 0], 4),
        "interpolate": lambda x: (
            functional.interpolate(x, scale_factor=2),
            functional.interpolate(x, (3, 7)),
        ),
        "interpolate bilinearly": lambda x: (
            functional.interpolate(x, scale_factor=2, mode="bilinear"),
            functional.interpolate(x, (7, 4), mode="bilinear", align_corners=True),
        ),
        "interpolate nearest-exact": lambda x: functional.interpolate(x, (3, 7), mode="nearest-exact"),
    },
    (f32(2, 3, 5, 6),),
)
CONVOLUTIONS.add(
    {
        "max_pool3d": lambda x: functional.max_pool3d(x, 2),
        "avg_pool3d": lambda x: functional.avg_pool3d(x, 2, 1),
        "adaptive_avg_pool3d": lambda x: functional.adaptive_avg_pool3d(x, (2, 3, 1)),
        "interpolate of volumes": lambda x: functional.interpolate(x, (3, 2, 4), mode="trilinear"),
    },
    (f32(1, 2, 4, 4, 2),),
)
CONVOLUTIONS.add(
    {
        "grid_sample": lambda x, at: functional.grid_sample(x, at, align_corners=False),
        "grid_sample at corners": lambda x, at: functional.grid_sample(
            x, at, padding_mode="border", align_corners=True
        ),
        "grid_sample nearest": lambda x, at: functional.grid_sample(
            x, at, mode="nearest", padding_mode="reflection", align_corners=False
        ),
    },
    (f32(1, 2, 4, 5), small(1, 3, 3, 2)),
    is_composite=True,
)
CONVOLUTIONS.add(
    {"grid_sample of volumes": lambda x, at: functional.grid_sample(x, at, align_corners=False)},
    (f32(1, 2, 3, 4, 4), small(1, 2, 3, 2, 3)),
    is_composite=True,
)

NORMALIZATIONS = Table()
NORMALIZATIONS.add(
    {
        "layer_norm": lambda x, w, b: (
            functional.layer_norm(x, (4,), w, b),
            functional.layer_norm(x, (3, 4)),
        ),
        "rms_norm": lambda x, w, b: functional.rms_norm(x, (4,), w) + b,
        "group_norm": lambda x, w, b: functional.group_norm(x.mT, 2, w, b),
        "batch_norm": lambda x, w, b: functional.batch_norm(x.mT, None, None, w, b, training=True),
        "batch_norm by statistics": lambda x, w, b: functional.batch_norm(
            x.mT, b.detach(), b.detach().abs() + 1, w, b
        ),
        "batch_norm of statistics": lambda x, w, b: _with_statistics(functional.batch_norm, x.mT, w, b),
        "instance_norm": lambda x, w, b: functional.instance_norm(x.mT, None, None, w, b),
        "instance_norm of statistics": lambda x, w, b: _with_statistics(functional.instance_norm, x.mT, w, b),
    },
    (f32(2, 3, 4), f32(4), f32(4)),
)
NORMALIZATIONS.add(
    {"batch_norm in half precision": lambda x: functional.batch_norm(x, None, None, training=True)},
    (bf16(5, 4, 2),),
)


def _with_statistics(function: Any, x: Any, weight: Any, bias: Any) -> Any:
    """What a normalization gives, and the statistics that it updates."""
    mean, variance = torch.zeros(4, device=x.device), torch.ones(4, device=x.device)
    flag = "training" if function is functional.batch_norm else "use_input_stats"
    made = function(x, mean, variance, weight=weight, bias=bias, momentum=0.3, **{flag: True})
    return made, mean, variance


LOSSES = Table()
LOSSES.add(
    {
        f"{name} by {reduction}": functools.partial(getattr(functional, name), reduction=reduction)
        for name in ("l1_loss", "mse_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss")
        for reduction in ("mean", "none")
    },
    (f32(3, 4), f32(3, 4)),
)
LOSSES.add(
    {
        "binary_cross_entropy": functional.binary_cross_entropy,
        "binary_cross_entropy with weights": lambda x, y: functional.binary_cross_entropy(
            x, y, y.detach(), reduction="sum"
        ),
        "binary_cross_entropy_with_logits": lambda x, y: functional.binary_cross_entropy_with_logits(
            x * 5, y, pos_weight=y.detach()[0]
        ),
        "kl_div": lambda x, y: functional.kl_div(x.log(), y, reduction="batchmean"),
        "kl_div of logarithms": lambda x, y: functional.kl_div(
            x.log(), y.log(), log_target=True, reduction="sum"
        ),
        "gaussian_nll_loss": lambda x, y: functional.gaussian_nll_loss(x, y, y + 0.5),
        "cross_entropy of probabilities": lambda x, y: functional.cross_entropy(x, y, label_smoothing=0.1),
    },
    (unit(3, 4), unit(3, 4)),
)
LOSSES.add(
    {
        "binary_cross_entropy of 0 and 1": lambda x, y: functional.binary_cross_entropy(
            x.float(), y.float(), reduction="none"
        )
    },
    (boolean(3, 4), boolean(3, 4)),
)
LOSSES.add(
    {
        "cross_entropy": functional.cross_entropy,
        "cross_entropy with options": lambda x, y: functional.cross_entropy(
            x, y, weight=x.detach()[0].abs() + 0.5, ignore_index=1, label_smoothing=0.1
        ),
        "cross_entropy of each": lambda x, y: functional.cross_entropy(x, y, reduction="none"),
        "nll_loss": lambda x, y: functional.nll_loss(x.log_softmax(-1), y, ignore_index=2),
        "multi_margin_loss": functional.multi_margin_loss,
    },
    (f32(3, 4), index(3, below=4)),
)
LOSSES.add({"cross_entropy of images": functional.cross_entropy}, (f32(2, 4, 3, 2), index(2, 3, 2, below=4)))
LOSSES.add(
    {
        "soft_margin_loss": lambda x, y: functional.soft_margin_loss(x, 2 * y.float() - 1),
        "multilabel_soft_margin_loss": lambda x, y: functional.multilabel_soft_margin_loss(x, y.float()),
        "hinge_embedding_loss": lambda x, y: functional.hinge_embedding_loss(x, 2 * y.float() - 1),
    },
    (f32(3, 4), boolean(3, 4)),
)
LOSSES.add(
    {
        "multilabel_margin_loss": lambda x, y: (
            functional.multilabel_margin_loss(x, y - 1),
            functional.multilabel_margin_loss(x, y - 1, reduction="none"),
        )
    },
    (f32(3, 4), index(3, 4, below=5)),
)
LOSSES.add(
    {
        "triplet_margin_loss": functional.triplet_margin_loss,
        "margin_ranking_loss": lambda x, y, z: functional.margin_ranking_loss(x, y, z.sign()),
    },
    (f32(3, 4), f32(3, 4), positive(3, 4)),
)
LOSSES.add(
    {
        "ctc_loss": lambda x, y: functional.ctc_loss(
            x.log_softmax(-1), y + 1, torch.tensor([6, 5]), torch.tensor([3, 2])
        ),
        "ctc_loss of each": lambda x, y: functional.ctc_loss(
            x.log_softmax(-1), y + 1, (6, 5), (2, 1), reduction="none", zero_infinity=True
        ),
    },
    (f32(6, 2, 4), index(2, 3, below=3)),
)

ATTENTION = Table()
_HEADS = (f32(2, 2, 4, 3),) * 3
ATTENTION.add(
    {
        "scaled_dot_product_attention": functional.scaled_dot_product_attention,
        "attention that is causal": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, is_causal=True
        ),
        "attention with a mask": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.ones(4, 4, dtype=torch.bool, device=q.device).tril()
        ),
        "attention with biases": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, attn_mask=k[:1, :1] @ q[:1, :1].mT, scale=0.3
        ),
        "attention to nothing": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, attn_mask=torch.ones(4, 4, dtype=torch.bool, device=q.device).tril(-1)
        ),
    },
    _HEADS,
)
ATTENTION.add(
    {
        "attention of groups": lambda q, k, v: functional.scaled_dot_product_attention(
            q, k, v, enable_gqa=True
        )
    },
    (f32(2, 4, 4, 3), f32(2, 2, 4, 3), f32(2, 2, 4, 3)),
)

RECURRENT = Table()


def _settings(layers: int, *, directions: bool = False) -> tuple[Any, ...]:
    """Biases, layers, dropout, training, both directions, and the batch as the first dimension."""
    has_biases, is_training, is_batch_first = True, False, False
    return has_biases, layers, 0.0, is_training, directions, is_batch_first


def _recurrent(name: str, **options: Any) -> Any:
    """A function of inputs, a state and flat weights, as modules call it."""
    module = getattr(nn, name)(3, 2, **options)
    shapes = [p.shape for p in module.parameters()]
    function = getattr(torch, {"LSTM": "lstm", "GRU": "gru", "RNN": "rnn_tanh"}[name])
    layers = len(module.all_weights)

    def call(x: torch.Tensor, weights: torch.Tensor) -> Any:
        parts = weights[: sum(shape.numel() for shape in shapes)].split([shape.numel() for shape in shapes])
        flat = [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]
        state = torch.zeros(layers, x.shape[1], 2, device=x.device)
        states = (state, state) if name == "LSTM" else state
        directions = bool(options.get("bidirectional"))
        return function(x, states, flat, *_settings(options.get("num_layers", 1), directions=directions))

    return call


RECURRENT.add(
    {
        "lstm": _recurrent("LSTM"),
        "lstm of two layers": _recurrent("LSTM", num_layers=2),
        "lstm in both directions": _recurrent("LSTM", bidirectional=True),
        "gru": _recurrent("GRU"),
        "gru in both directions": _recurrent("GRU", bidirectional=True),
        "rnn_tanh": _recurrent("RNN"),
    },
    (f32(4, 2, 3), small(240)),
)
RECURRENT.add(
    {"lstm_cell": lambda x, h, w, u: torch.lstm_cell(x, (h, h * 2), w, u, w[:, 0], u[:, 0])},
    (f32(2, 3), f32(2, 2), f32(8, 3), f32(8, 2)),
    is_composite=True,
)
RECURRENT.add(
    {"gru_cell": lambda x, h, w, u: torch.gru_cell(x, h, w, u, w[:, 0], u[:, 0])},
    (f32(2, 3), f32(2, 2), f32(6, 3), f32(6, 2)),
    is_composite=True,
)
RECURRENT.add(
    {
        "rnn_relu": lambda x, h, w, u: torch.rnn_relu(
            x[None], h[None], [w, u, w[:, 0], u[:, 0]], *_settings(1)
        ),
        "rnn_tanh_cell": lambda x, h, w, u: torch.rnn_tanh_cell(x, h, w, u),
        "rnn_relu_cell": lambda x, h, w, u: torch.rnn_relu_cell(x, h, w, u),
    },
    (f32(2, 3), f32(2, 2), f32(2, 3), f32(2, 2)),
)
RECURRENT.add(
    {
        "packed sequences": lambda x: nn.utils.rnn.pad_packed_sequence(
            nn.utils.rnn.pack_padded_sequence(x, torch.tensor([4, 2]), enforce_sorted=False)
        )[0],
        "pad_sequence": lambda x: nn.utils.rnn.pad_sequence([x[:3, 0], x[:, 1]]),
    },
    (f32(4, 2, 3),),
)
CONVOLUTIONS.add(
    {
        "interpolate bicubically": lambda x: functional.interpolate(x, (7, 4), mode="bicubic"),
        "interpolate by area": lambda x: functional.interpolate(x, (2, 3), mode="area"),
        "interpolate with antialias": lambda x: functional.interpolate(
            x, (3, 3), mode="bilinear", antialias=True
        ),
        "affine_grid": lambda x: functional.affine_grid(x[:, 0, :2, :3], [2, 1, 3, 4]),
        "local_response_norm": lambda x: functional.local_response_norm(x, 3),
        "adaptive_max_pool2d": lambda x: functional.adaptive_max_pool2d(x, (3, 4)),
        "adaptive_max_pool1d": lambda x: functional.adaptive_max_pool1d(x[:, :, 0], 4),
    },
    (f32(2, 3, 5, 6),),
    is_composite=True,
)
CONVOLUTIONS.add(
    {
        "adaptive_max_pool3d": lambda x: functional.adaptive_max_pool3d(x, (2, 3, 1)),
        "max_unpool3d": lambda x: functional.max_unpool3d(
            *functional.max_pool3d(x, 2, return_indices=True), 2
        ),
    },
    (f32(1, 2, 4, 4, 2),),
    is_composite=True,
)
LOSSES.add(
    {
        "cosine_embedding_loss": lambda x, y, z: functional.cosine_embedding_loss(
            x, y, z.detach()[:, 0].sign()
        ),
    },
    (f32(3, 4), f32(3, 4), positive(3, 4)),
    is_composite=True,
)
