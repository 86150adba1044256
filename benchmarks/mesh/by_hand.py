"""The step of `train_mesh.py`, written by hand in JAX for a mesh, and how its arguments are sharded."""

from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import Mesh, NamedSharding, PartitionSpec

BATCH, LENGTH, LAYERS, WIDTH, VOCABULARY, HEAD = 2, 128, 2, 256, 4096, 64
_BY_OUTPUTS, _BY_INPUTS = ("q", "k", "v", "up"), ("o", "down")


def shapes() -> dict[str, tuple[int, ...]]:
    """The shapes of the parameters, by name."""
    found = {"tokens": (VOCABULARY, WIDTH), "head": (VOCABULARY, WIDTH), "norm": (2, WIDTH)}
    for i in range(LAYERS):
        found |= {f"{i}.{name}": (WIDTH, WIDTH) for name in "qkvo"}
        found |= {f"{i}.up": (4 * WIDTH, WIDTH), f"{i}.down": (WIDTH, 4 * WIDTH)}
        found |= {f"{i}.norm1": (2, WIDTH), f"{i}.norm2": (2, WIDTH)}
    return found


def spec(way: str, name: str, shape: tuple[int, ...]) -> PartitionSpec:
    """How a parameter is sharded."""
    kind = name.rpartition(".")[2]
    if way == "plan" and kind in _BY_OUTPUTS:
        return PartitionSpec("model", None)
    if way == "plan" and kind in _BY_INPUTS:
        return PartitionSpec(None, "model")
    if way == "fsdp" and shape[0] * shape[1] >= 4096:
        return PartitionSpec("data", None) if shape[0] >= shape[1] else PartitionSpec(None, "data")
    return PartitionSpec()


def _norm(p: Any, x: Any) -> Any:
    normal = (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)
    return normal * p[0] + p[1]


def loss(p: Any, x: Any, y: Any) -> Any:
    """The mean cross entropy of a batch."""
    h = p["tokens"][x]
    for i in range(LAYERS):
        n = _norm(p[f"{i}.norm1"], h)
        q, k, v = ((n @ p[f"{i}.{name}"].T).reshape(*h.shape[:2], -1, HEAD) for name in "qkv")
        attended = jax.nn.dot_product_attention(q, k, v, is_causal=True).reshape(h.shape)
        h = h + attended @ p[f"{i}.o"].T
        up = jax.nn.gelu(_norm(p[f"{i}.norm2"], h) @ p[f"{i}.up"].T, approximate=False)
        h = h + up @ p[f"{i}.down"].T
    logits = _norm(p["norm"], h) @ p["head"].T
    return -jnp.take_along_axis(jax.nn.log_softmax(logits), y[..., None], -1).mean()


def step(p: Any, m: Any, v: Any, count: Any, x: Any, y: Any) -> Any:
    """AdamW with the options of the program."""
    value, g = jax.value_and_grad(loss)(p, x, y)
    count = count + 1
    m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, g)
    v = jax.tree.map(lambda v, g: 0.999 * v + 0.001 * g * g, v, g)

    def update(p: Any, m: Any, v: Any) -> Any:
        root = jnp.sqrt(v / (1 - 0.999**count)) + 1e-8
        return p * (1 - 1e-3 * 1e-2) - 1e-3 * m / (1 - 0.9**count) / root

    return jax.tree.map(update, p, m, v), m, v, count, value


def lowered(way: str, mesh: Mesh) -> Any:
    """The step for a mesh with the dimensions `data` and `model`, with donated parameters and states."""

    def of(shape: tuple[int, ...], dtype: Any, spec: PartitionSpec) -> Any:
        return jax.ShapeDtypeStruct(shape, dtype, sharding=NamedSharding(mesh, spec))

    parameters = {name: of(s, jnp.float32, spec(way, name, s)) for name, s in shapes().items()}
    tokens = of((BATCH * mesh.shape["data"], LENGTH), jnp.int32, PartitionSpec("data"))
    kept = jax.tree.map(lambda one: one.sharding, parameters)
    outputs = (kept, kept, kept, None, None)
    count = of((), jnp.float32, PartitionSpec())
    jitted = jax.jit(step, donate_argnums=(0, 1, 2, 3), out_shardings=outputs)
    return jitted.lower(parameters, parameters, parameters, count, tokens, tokens)
