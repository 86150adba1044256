"""The training steps of the programs beside this file, each written by hand as one jitted JAX function.

`python by_hand.py gpt|resnet|unet` starts from the weights and data of `train_gpt.py` and so on, reads the
same environment variables, and prints the same lines.
Parameters, states of optimizers and averages are donated.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
import torch

Values = dict[str, jax.Array]
#: Takes parameters, other values that change, and a batch; gives the loss and the new other values.
Loss = Callable[[Values, Values, Any], tuple[jax.Array, Values]]


def linear(p: Values, name: str, x: jax.Array) -> jax.Array:
    """Apply a `Linear`, in the dtype of `x`."""
    return x @ p[f"{name}.weight"].astype(x.dtype).T + p[f"{name}.bias"].astype(x.dtype)


def conv(p: Values, name: str, x: jax.Array, stride: int = 1, padding: int = 0) -> jax.Array:
    """Apply a `Conv2d`."""
    out = jax.lax.conv_general_dilated(
        x,
        p[f"{name}.weight"],
        (stride, stride),
        [(padding, padding)] * 2,
        dimension_numbers=("NCHW", "OIHW", "NCHW"),
    )
    return out + p[f"{name}.bias"][:, None, None] if f"{name}.bias" in p else out


def layer_norm(p: Values, name: str, x: jax.Array) -> jax.Array:
    """Apply a `LayerNorm` in float32."""
    x = x.astype(jnp.float32)
    normal = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return normal * p[f"{name}.weight"] + p[f"{name}.bias"]


def cross_entropy(logits: jax.Array, labels: jax.Array) -> jax.Array:
    """Compute the mean cross entropy in float32."""
    return optax.softmax_cross_entropy_with_integer_labels(logits.astype(jnp.float32), labels).mean()


def gpt_loss(p: Values, rest: Values, batch: tuple[jax.Array]) -> tuple[jax.Array, Values]:
    """Compute the loss of GPT-2, with matrix products and attention in bfloat16 if `BF16=1`."""
    train_gpt = importlib.import_module("train_gpt")
    dtype = jnp.bfloat16 if train_gpt.BF16 else jnp.float32
    tokens, labels = batch[0][:, :-1], batch[0][:, 1:]
    x = p["tokens.weight"][tokens] + p["positions.weight"]
    heads = (*x.shape[:2], 3, -1, train_gpt.HEAD_SIZE)
    for number in range(train_gpt.LAYERS):
        name = f"layers.{number}"
        normal = layer_norm(p, f"{name}.norm1", x).astype(dtype)
        q, k, v = jnp.moveaxis(linear(p, f"{name}.qkv", normal).reshape(heads), 2, 0)
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(x.shape)
        x = x + linear(p, f"{name}.out", attended)
        up = linear(p, f"{name}.up", layer_norm(p, f"{name}.norm2", x).astype(dtype))
        x = x + linear(p, f"{name}.down", jax.nn.gelu(up, approximate=False))
    logits = layer_norm(p, "norm", x).astype(dtype) @ p["tokens.weight"].astype(dtype).T
    return cross_entropy(logits, labels), rest


def batch_norm(p: Values, rest: Values, name: str, x: jax.Array) -> jax.Array:
    """Apply a `BatchNorm2d` in training mode, and update its running statistics in `rest`."""
    mean, variance = x.mean((0, 2, 3)), x.var((0, 2, 3))
    count = x.size // x.shape[1]
    for kind, value in (("mean", mean), ("var", variance * count / (count - 1))):
        rest[f"{name}.running_{kind}"] = 0.9 * rest[f"{name}.running_{kind}"] + 0.1 * value
    rest[f"{name}.num_batches_tracked"] += 1
    scale = p[f"{name}.weight"] * jax.lax.rsqrt(variance + 1e-5)
    return x * scale[:, None, None] + (p[f"{name}.bias"] - mean * scale)[:, None, None]


def resnet_loss(p: Values, rest: Values, batch: tuple[jax.Array, ...]) -> tuple[jax.Array, Values]:
    """Compute the loss of ResNet-50."""
    train_resnet = importlib.import_module("train_resnet")
    (images, labels), rest = batch, dict(rest)
    x = jax.nn.relu(batch_norm(p, rest, "stem.1", conv(p, "stem.0", images, 2, 3)))
    x = jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 1, 3, 3), (1, 1, 2, 2), ((0, 0), (0, 0), (1, 1), (1, 1))
    )
    strides = [
        2 if stage and not block else 1
        for stage, count in enumerate(train_resnet.BLOCKS)
        for block in range(count)
    ]
    for number, stride in enumerate(strides):
        name, identity = f"blocks.{number}", x
        if f"{name}.shortcut.0.weight" in p:
            identity = conv(p, f"{name}.shortcut.0", x, stride)
            identity = batch_norm(p, rest, f"{name}.shortcut.1", identity)
        x = jax.nn.relu(batch_norm(p, rest, f"{name}.bn1", conv(p, f"{name}.conv1", x)))
        x = jax.nn.relu(batch_norm(p, rest, f"{name}.bn2", conv(p, f"{name}.conv2", x, stride, 1)))
        x = batch_norm(p, rest, f"{name}.bn3", conv(p, f"{name}.conv3", x))
        x = jax.nn.relu(x + identity)
    return cross_entropy(linear(p, "head", x.mean((2, 3))), labels), rest


def group_norm(p: Values, name: str, x: jax.Array, groups: int) -> jax.Array:
    """Apply a `GroupNorm`."""
    grouped = x.reshape(x.shape[0], groups, -1)
    mean, variance = grouped.mean(-1, keepdims=True), grouped.var(-1, keepdims=True)
    normal = ((grouped - mean) * jax.lax.rsqrt(variance + 1e-5)).reshape(x.shape)
    return normal * p[f"{name}.weight"][:, None, None] + p[f"{name}.bias"][:, None, None]


def unet_loss(p: Values, rest: Values, batch: tuple[jax.Array, ...]) -> tuple[jax.Array, Values]:
    """Compute the loss of the U-Net for images, times and noise."""
    train_unet = importlib.import_module("train_unet")

    def block(name: str, x: jax.Array) -> jax.Array:
        h = conv(p, f"{name}.conv1", jax.nn.silu(group_norm(p, f"{name}.norm1", x, train_unet.GROUPS)), 1, 1)
        h = h + linear(p, f"{name}.time", jax.nn.silu(time))[:, :, None, None]
        h = conv(p, f"{name}.conv2", jax.nn.silu(group_norm(p, f"{name}.norm2", h, train_unet.GROUPS)), 1, 1)
        return h + (conv(p, f"{name}.skip", x) if f"{name}.skip.weight" in p else x)

    images, times, noise = batch
    signal = jnp.cumprod(1 - jnp.linspace(1e-4, 0.02, train_unet.TIMES))[times][:, None, None, None]
    half = train_unet.WIDTH // 2
    angles = times[:, None] * jnp.exp(-jnp.log(10000.0) * jnp.arange(half) / half)
    time = linear(p, "time.0", jnp.concatenate([jnp.sin(angles), jnp.cos(angles)], 1))
    time = linear(p, "time.2", jax.nn.silu(time))
    x, skips = conv(p, "first", jnp.sqrt(signal) * images + jnp.sqrt(1 - signal) * noise, 1, 1), []
    for number in range(3):
        if number:
            batch_size, channels, height, width = x.shape
            x = x.reshape(batch_size, channels, height // 2, 2, width // 2, 2).mean((3, 5))
        x = block(f"down.{number}", x)
        skips.append(x)
    x = block("middle", x)
    for number in range(3):
        if number:
            x = x.repeat(2, axis=2).repeat(2, axis=3)
        x = block(f"up.{number}", jnp.concatenate([x, skips.pop()], 1))
    return jnp.square(conv(p, "last", x, 1, 1) - noise).mean(), rest


def step_of(loss: Loss, optimizer: optax.GradientTransformation, decay: float | None) -> Any:
    """Make the jitted step; with a `decay`, it also updates averages of the parameters."""

    def step(state: Any, batch: Any) -> Any:
        p, rest, moments, ema = state
        (value, rest), gradients = jax.value_and_grad(loss, has_aux=True)(p, rest, batch)
        updates, moments = optimizer.update(gradients, moments, p)
        p = optax.apply_updates(p, updates)
        if decay is not None:
            ema = jax.tree.map(lambda mean, new: decay * mean + (1 - decay) * new, ema, p)
        return (p, rest, moments, ema), value

    return jax.jit(step, donate_argnums=0)


PROGRAMS: dict[str, tuple[str, Loss, optax.GradientTransformation, float | None]] = {
    "gpt": (
        "GPT",
        gpt_loss,
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(3e-4, 0.9, 0.95, weight_decay=0.1)),
        None,
    ),
    "resnet": (
        "ResNet",
        resnet_loss,
        optax.chain(optax.add_decayed_weights(1e-4), optax.sgd(0.01, momentum=0.9)),
        None,
    ),
    "unet": ("UNet", unet_loss, optax.adam(2e-4), 0.999),
}


def main(name: str) -> None:
    """Train, and print losses and the time of a step."""
    program = importlib.import_module(f"train_{name}")
    model, loss_function, optimizer, decay = PROGRAMS[name]
    torch.manual_seed(0)
    module = getattr(program, model)()
    # `named_parameters` has a weight that modules share once.
    p = {key: jnp.array(value.detach().numpy()) for key, value in module.named_parameters()}
    rest = {key: jnp.array(value.numpy()) for key, value in module.named_buffers()}
    ema = None if decay is None else jax.tree.map(jnp.copy, p)
    state = (p, rest, optimizer.init(p), ema)
    step_function = step_of(loss_function, optimizer, decay)
    data = [
        tuple(np.asarray(one) for one in (batch if isinstance(batch, tuple) else (batch,)))
        for batch in program.batches()
    ]
    steps, log_every = program.STEPS, program.LOG_EVERY
    start = 0.0
    for step in range(steps):
        if step == steps // 2:
            jax.block_until_ready(state)
            start = time.perf_counter()
        batch = jax.device_put(data[step % len(data)])
        state, loss = step_function(state, batch)
        if step % log_every == log_every - 1:
            print(f"step {step} loss {loss.item():.5f}")
    jax.block_until_ready(state)
    print(f"ms per step {(time.perf_counter() - start) / (steps - steps // 2) * 1e3:.3f}")


if __name__ == "__main__":
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    main(sys.argv[1])
