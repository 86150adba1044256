"""`flex_attention` on torchax has the values and the gradients of the same attention in plain torch."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch._higher_order_ops.flex_attention import math_attention
from torch.nn.attention import flex_attention as flex
from torchax.interop import jax_jit

from ..comparison import plain_torch

Mod = Callable[..., torch.Tensor]


def on_host(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    score_mod: Mod | None = None,
    block_mask: Any = None,
    scale: float | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """PyTorch's implementation in plain operators; `flex_attention` itself has no gradients on the CPU."""
    mask = (flex.noop_mask,) if block_mask is None else block_mask.as_tuple()
    scale = 1 / math.sqrt(query.size(-1)) if scale is None else scale
    made, lse, best = math_attention(query, key, value, score_mod or flex._identity, mask, scale, {})
    return made, lse * math.log(2), best * math.log(2)


def causal(_b: Any, _h: Any, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    return q >= kv


def near(_b: Any, _h: Any, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    return (q - kv).abs() < 3


def inputs(heads: int = 4, of_keys: int = 4, queries: int = 12, keys: int = 12) -> list[torch.Tensor]:
    return [
        torch.randn(2, heads, queries, 8),
        torch.randn(2, of_keys, keys, 8),
        torch.randn(2, of_keys, keys, 6),
    ]


def relative(score: torch.Tensor, _b: Any, _h: Any, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    return score + (q - kv)


def alibi(score: torch.Tensor, _b: Any, h: torch.Tensor, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    return score + torch.exp2(-(h + 1.0)) * (kv - q)


def capped(score: torch.Tensor, *_: Any) -> torch.Tensor:
    return 2 * torch.tanh(score / 2)


def causal_score(score: torch.Tensor, _b: Any, _h: Any, q: torch.Tensor, kv: torch.Tensor) -> torch.Tensor:
    return torch.where(q >= kv, score, -float("inf"))


MODS = {"none": None, "relative": relative, "alibi": alibi, "capped": capped, "causal": causal_score}
MASKS: dict[str, Mod] = {
    "causal": causal,
    "both": flex.and_masks(causal, near),
    "either": flex.or_masks(causal, near),
    "with queries that see nothing": lambda _b, _h, q, kv: (q > 2) & (q >= kv),
    "all": flex.noop_mask,
    "by batch and head": lambda b, h, q, kv: kv <= q + b + h,
}


@pytest.mark.parametrize("name", MODS)
def test_scores_are_changed(name: str, compare: Callable[..., None]) -> None:
    compare(lambda q, k, v: attention(q, k, v, MODS[name]), *inputs())


@pytest.mark.parametrize("name", MASKS)
@pytest.mark.parametrize("block", [4, (4, 2), 128])
def test_block_masks(name: str, block: int, compare: Callable[..., None]) -> None:
    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = flex.create_block_mask(MASKS[name], 2, 4, 12, 12, device=q.device, BLOCK_SIZE=block)
        return attention(q, k, v, relative, mask)

    compare(masked, *inputs())


def attention(*args: Any) -> torch.Tensor:
    return flex.flex_attention(*args) if args[0].device.type == "jax" else on_host(*args)[0]


def test_fewer_heads_of_keys_and_other_lengths(compare: Callable[..., None]) -> None:
    def grouped(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        if q.device.type == "jax":
            return flex.flex_attention(q, k, v, alibi, scale=0.3, enable_gqa=True)
        return on_host(q, k, v, alibi, scale=0.3)[0]

    compare(grouped, *inputs(of_keys=2, keys=7))


def test_captured_tensors_are_differentiated(compare: Callable[..., None]) -> None:
    lengths, bias = torch.tensor([5, 12]), torch.randn(4, 12, 12)

    def captured(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, bias: torch.Tensor) -> torch.Tensor:
        seen = torch.arange(12, device=q.device) < lengths.to(q.device)[:, None]

        def biased(score: torch.Tensor, b: Any, h: Any, i: Any, j: Any) -> torch.Tensor:
            return torch.where(seen[b][i] & seen[b, j], score + bias[h, i, j], float("-inf"))

        return attention(q, k, v, biased)

    compare(captured, *inputs(), bias)


def test_statistics() -> None:
    query, key, value = inputs()
    with plain_torch():
        due = on_host(query, key, value, alibi)
    at = [x.to("jax") for x in (query, key, value)]
    made, lse = flex.flex_attention(*at, alibi, return_lse=True)
    again, aux = flex.flex_attention(*at, alibi, return_aux=flex.AuxRequest(lse=True, max_scores=True))
    for expected, actual in zip(
        (*due, *due), (made, lse, aux.max_scores, again, aux.lse, aux.max_scores), strict=True
    ):
        torch.testing.assert_close(actual.cpu(), expected, atol=1e-5, rtol=1e-5)


def test_compiled_by_torch_and_by_jax() -> None:
    query, key, value = inputs()
    with plain_torch():
        mask = flex.create_block_mask(causal, None, None, 12, 12, device="cpu", BLOCK_SIZE=4)
        expected = on_host(query, key, value, None, mask)[0]
    mask = flex.create_block_mask(causal, None, None, 12, 12, device="jax", BLOCK_SIZE=4)
    compiled = torch.compile(flex.flex_attention, dynamic=False)
    at = [x.to("jax") for x in (query, key, value)]
    for function in (compiled, jax_jit(lambda q, k, v: compiled(q, k, v, block_mask=mask))):
        found = function(*at, block_mask=mask) if function is compiled else function(*at)
        torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=1e-5)


def test_a_mask_made_within_jitted_code() -> None:
    query, key, value = inputs()

    def masked(q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        mask = flex.create_block_mask(near, None, None, 12, 12, device=q.device, BLOCK_SIZE=4)
        return flex.flex_attention(q, k, v, block_mask=mask)

    at = [x.to("jax") for x in (query, key, value)]
    with plain_torch():
        mask = flex.create_block_mask(near, None, None, 12, 12, device="cpu", BLOCK_SIZE=4)
        expected = on_host(query, key, value, None, mask)[0]
    torch.testing.assert_close(jax_jit(masked)(*at).cpu(), expected, atol=1e-5, rtol=1e-5)


def test_blocks_that_a_mask_does_not_list_are_not_seen() -> None:
    """Without `mask_mod`, as written for kernels that skip blocks."""
    counts, columns = torch.tensor([[[1, 2, 1]]]), torch.tensor([[[[0, 1, 2], [1, 0, 2], [2, 0, 1]]]])
    mask = flex.BlockMask.from_kv_blocks(counts.to("jax"), columns.to("jax"), BLOCK_SIZE=4)
    seen = torch.tensor([[1, 0, 0], [1, 1, 0], [0, 0, 1]]).bool()
    seen = seen.repeat_interleave(4, 0).repeat_interleave(4, 1)
    query, key, value = inputs()
    with plain_torch():
        expected = torch.nn.functional.scaled_dot_product_attention(query, key, value, seen)
    found = flex.flex_attention(*(x.to("jax") for x in (query, key, value)), block_mask=mask)
    torch.testing.assert_close(found.cpu(), expected, atol=1e-5, rtol=1e-5)


def test_half_precision() -> None:
    query, key, value = (x.bfloat16() for x in inputs())
    with plain_torch():
        expected = on_host(query, key, value, alibi)[0]
    found = flex.flex_attention(*(x.to("jax") for x in (query, key, value)), alibi)
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.cpu().float(), expected.float(), atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("is_entered", [True, False])
def test_tensors_of_the_host(is_entered: bool) -> None:
    query, key, value = inputs()
    with plain_torch():
        expected = on_host(query, key, value, alibi)[0]
    with contextlib.nullcontext() if is_entered else plain_torch():
        found = flex.flex_attention(query, key, value, alibi)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("shapes", "options", "message"),
    [
        ([(2, 4, 6, 8), (2, 2, 6, 8)], {}, "heads"),
        ([(2, 4, 6, 8), (2, 3, 6, 8)], {"enable_gqa": True}, "heads"),
        ([(2, 4, 6, 8), (2, 4, 6, 7)], {}, "embedding dimension"),
        ([(2, 4, 6, 8), (1, 4, 6, 8)], {}, "batch size"),
        ([(2, 4, 6, 8), (2, 4, 6, 8)], {"block_mask": 9}, "created for block_mask.shape"),
    ],
)
def test_shapes_that_do_not_match_are_refused(shapes: Any, options: Any, message: str) -> None:
    query, key = (torch.ones(shape, device="jax") for shape in shapes)
    if "block_mask" in options:
        options = {"block_mask": flex.create_block_mask(causal, 1, 1, 9, 9, device="jax")}
    with pytest.raises(ValueError, match=message):
        flex.flex_attention(query, key, key, **options)
