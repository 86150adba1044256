"""Attention with masks has the values and gradients of torch, in rows that may look at nothing, too."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable

import pytest
import torch
from torch import nn
from torch.nn import functional

MASKS = {
    "of truth values": torch.ones(3, 4, dtype=torch.bool).tril(),
    "of numbers": torch.arange(12.0).reshape(3, 4) / 5,
    "that differ between elements of a batch": torch.arange(24.0).reshape(2, 1, 3, 4) / 9,
    "with rows that may look at nothing": torch.tensor([[False] * 4, [True] * 4, [True, False] * 2]),
    "of numbers, with such rows": torch.tensor([[float("-inf")] * 4, [0.0] * 4, [0.0, float("-inf")] * 2]),
}


@pytest.mark.parametrize("name", MASKS)
def test_attention_with_masks(name: str, compare: Callable[..., None]) -> None:
    mask = MASKS[name]
    query, key, value = torch.randn(2, 2, 3, 5), torch.randn(2, 2, 4, 5), torch.randn(2, 2, 4, 6)
    compare(
        lambda q, k, v: functional.scaled_dot_product_attention(q, k, v, mask.to(q.device), scale=0.5),
        query,
        key,
        value,
    )


def test_attention_without_a_mask_and_with_a_causal_one(compare: Callable[..., None]) -> None:
    query = torch.randn(2, 2, 4, 6)
    compare(lambda q: functional.scaled_dot_product_attention(q, q, q), query)
    compare(lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), query)


def test_attention_of_grouped_queries(compare: Callable[..., None]) -> None:
    query, key = torch.randn(2, 4, 3, 5), torch.randn(2, 2, 3, 5)
    mask = torch.ones(3, 3, dtype=torch.bool).tril()
    compare(
        lambda q, k: functional.scaled_dot_product_attention(q, k, k, mask.to(q.device), enable_gqa=True),
        query,
        key,
    )


def test_attention_drops_the_weights_that_torch_drops() -> None:
    query, mask = torch.randn(2, 2, 3, 4), torch.zeros(3, 3)
    results = []
    for device in ("cpu", "jax"):
        torch.manual_seed(3)
        x = query.to(device)
        results.append(functional.scaled_dot_product_attention(x, x, x, mask.to(device), dropout_p=0.5).cpu())
    assert torch.allclose(*results, atol=1e-6)


def test_safe_softmax_may_be_given_a_dtype() -> None:
    x = torch.tensor([[1.0, 2.0], [float("-inf")] * 2])
    got = torch.ops.aten._safe_softmax(x.to("jax").half(), -1, torch.float32)
    assert torch.float32 == got.dtype
    assert torch.allclose(torch.ops.aten._safe_softmax(x, -1), got.cpu(), atol=1e-6)


def test_transformer_layers_with_padding_on_the_left(compare: Callable[..., None]) -> None:
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True)
    padding = torch.tensor([[True, True, False], [False, False, False]])
    causal = torch.triu(torch.full((3, 3), float("-inf")), diagonal=1)
    state = {name: p.detach() for name, p in layer.named_parameters()}

    def run(x: torch.Tensor) -> torch.Tensor:
        there = {name: p.to(x.device) for name, p in state.items()}
        hidden = padding.to(x.device).float().masked_fill(padding.to(x.device), float("-inf"))
        masks = {"src_mask": causal.to(x.device), "src_key_padding_mask": hidden}
        made: torch.Tensor = torch.func.functional_call(layer, there, (x,), masks)
        return made.nan_to_num(0)

    compare(run, torch.randn(2, 3, 4), tolerance=1e-4)


_SHARDED = """
import re, jax, numpy, torch, torchax_compat
from jax.sharding import NamedSharding, PartitionSpec
torchax_compat.enable()
from torchax_compat.tensor import arrays, sharding
sharding.use(1, model=4)
by_head = NamedSharding(sharding.mesh(), PartitionSpec("data", "model"))
query, key, value = (jax.device_put(numpy.ones((2, 4, 8, 16), "float32"), by_head) for _ in range(3))

def loss(query, key, value):
    given = map(arrays.tensor, (query, key, value))
    return torch.nn.functional.scaled_dot_product_attention(*given, is_causal=True).square().sum(3).jax()

def gradients(*given):
    return jax.vjp(loss, *given)[1](jax.numpy.ones((2, 4, 8)))

compiled = jax.jit(gradients, out_shardings=by_head).lower(query, key, value).compile()
print(re.findall(r" (all-[a-z]+|collective-permute|reduce-scatter)[a-z-]*\\(", compiled.as_text()))
"""


def test_heads_that_are_sharded_need_no_communication() -> None:
    variables = {"JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=4"}
    command = [sys.executable, "-W", "ignore", "-c", _SHARDED]
    ran = subprocess.run(
        command, env={**os.environ, **variables}, capture_output=True, text=True, check=False
    )
    assert (ran.stdout, ran.returncode) == ("[]\n", 0), ran.stderr
