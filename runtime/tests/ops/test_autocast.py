"""`torch.autocast` has the dtypes of PyTorch's lists for CUDA, and the numbers of bfloat16."""

# mypy: allow-untyped-defs, allow-incomplete-defs, allow-untyped-calls
# mypy: allow-untyped-decorators, allow-subclassing-any
# ruff: noqa: ARG005

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.ops import autocast

from ..comparison import plain_torch

HALF, FULL = torch.bfloat16, torch.float32
X = torch.linspace(-1, 1, 12).reshape(3, 4)
Y = torch.linspace(0.5, 2, 12).reshape(3, 4)
#: Operators of a tensor in float32 and one in bfloat16, with the dtype of the result.
OPERATORS: dict[str, tuple[Callable[..., Any], torch.dtype]] = {
    "@": (lambda x, h: x @ x.T, HALF),
    "matmul": (lambda x, h: torch.matmul(x, h.T), HALF),
    "mm": (lambda x, h: x.mm(h.t()), HALF),
    "bmm": (lambda x, h: torch.bmm(x[None], h.T[None]), HALF),
    "addmm": (lambda x, h: torch.addmm(x[0, :3], x, h.T), HALF),
    "einsum": (lambda x, h: torch.einsum("ij,kj->ik", x, h), HALF),
    "linear": (lambda x, h: functional.linear(x, x), HALF),
    "conv1d": (lambda x, h: functional.conv1d(x[None], x[:, :3, None]), HALF),
    "conv2d": (lambda x, h: functional.conv2d(x[None, None], x[None, None, :2, :2]), HALF),
    "prelu": (lambda x, h: functional.prelu(x, x[0, :1]), HALF),
    "attention": (lambda x, h: functional.scaled_dot_product_attention(x[None], x[None], x[None]), HALF),
    "exp": (lambda x, h: h.exp(), FULL),
    "log": (lambda x, h: (h + 3).log(), FULL),
    "power": (lambda x, h: h**2, FULL),
    "rsqrt": (lambda x, h: (h + 3).rsqrt(), FULL),
    "softmax": (lambda x, h: h.softmax(-1), FULL),
    "softmax of a function": (lambda x, h: functional.softmax(h, dim=-1), FULL),
    "softmax with a dtype": (lambda x, h: h.softmax(-1, dtype=HALF), HALF),
    "log softmax": (lambda x, h: functional.log_softmax(h, -1), FULL),
    "sum": (lambda x, h: h.sum(), FULL),
    "sum of a dimension": (lambda x, h: h.sum(0), FULL),
    "cumulative sum": (lambda x, h: h.cumsum(0), FULL),
    "norm": (lambda x, h: h.norm(), FULL),
    "layer norm": (lambda x, h: functional.layer_norm(h, (4,)), FULL),
    "group norm": (lambda x, h: functional.group_norm(h[None], 1), FULL),
    "squared error": (lambda x, h: functional.mse_loss(h, x), FULL),
    "cross entropy": (
        lambda x, h: functional.cross_entropy(h, torch.tensor([0, 1, 2], device=x.device)),
        FULL,
    ),
    "logits": (lambda x, h: functional.binary_cross_entropy_with_logits(h, x.abs()), FULL),
    "smooth error": (lambda x, h: functional.smooth_l1_loss(h, h * 2), FULL),
    "divergence": (lambda x, h: functional.kl_div(h, x.abs()), FULL),
    "divergence of half": (lambda x, h: functional.kl_div(h, h), FULL),
    "absolute error": (lambda x, h: functional.l1_loss(h, h * 2), FULL),
    "hinge": (lambda x, h: functional.hinge_embedding_loss(h, torch.ones_like(h)), FULL),
    "triplets": (lambda x, h: functional.triplet_margin_loss(h, h * 2, h * 3), FULL),
    "ranking": (lambda x, h: functional.margin_ranking_loss(h[0], h[1], torch.ones_like(h[0])), FULL),
    "counts": (lambda x, h: functional.poisson_nll_loss(h, h), FULL),
    "root mean square": (lambda x, h: functional.rms_norm(h, (4,)), FULL),
    "gated cell": (lambda x, h: torch.gru_cell(x, x, x.repeat(4, 1), x.repeat(4, 1)), HALF),
    "plain cell": (lambda x, h: torch.rnn_tanh_cell(x, x, x[:, :].new_ones(4, 4), x.new_ones(4, 4)), HALF),
    "similarity": (lambda x, h: functional.cosine_similarity(h, x), FULL),
    "distances": (lambda x, h: torch.cdist(h, h), FULL),
    "upsampling": (lambda x, h: functional.interpolate(h[None, None], scale_factor=2), FULL),
    "cat": (lambda x, h: torch.cat([x, h]), FULL),
    "stack": (lambda x, h: torch.stack([h, h]), HALF),
    "sum of both": (lambda x, h: x + h, FULL),
    "product": (lambda x, h: h * h, HALF),
    "relu": (lambda x, h: h.relu(), HALF),
    "gelu": (lambda x, h: functional.gelu(h), HALF),
    "mean": (lambda x, h: h.mean(), HALF),
    "max": (lambda x, h: h.amax(), HALF),
    "of float32": (lambda x, h: x * 2, FULL),
    "whole numbers": (lambda x, h: torch.arange(4, device=x.device).sum().float(), FULL),
}


@pytest.mark.parametrize("name", OPERATORS)
def test_operators_have_the_dtypes_of_cuda(name: str) -> None:
    function, kind = OPERATORS[name]
    with torch.autocast("cuda", dtype=HALF):
        found = function(X.to("jax"), Y.to(HALF).to("jax"))
    due = function(X.double(), Y.to(HALF).double()).to(kind) if name != "softmax with a dtype" else None
    assert kind == found.dtype
    if due is not None:
        torch.testing.assert_close(found.cpu().float(), due.float(), rtol=3e-2, atol=3e-2)


class Net(nn.Module):
    """A small transformer block with a convolution, and what stays in float32."""

    def __init__(self):
        super().__init__()
        self.lin, self.norm = nn.Linear(4, 4), nn.LayerNorm(4)
        self.attention = nn.MultiheadAttention(4, 2, batch_first=True)
        self.conv, self.batch = nn.Conv1d(3, 3, 3, padding=1), nn.BatchNorm1d(3)
        self.head = nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(x + self.lin(x))
        x = x + self.attention(x, x, x, need_weights=False)[0]
        return self.head(functional.gelu(self.batch(self.conv(x))))


def _steps(net: Any, x: Any, y: Any, device: str, loss: Callable[..., Any]) -> Any:
    optimizer, seen = torch.optim.SGD(net.parameters(), lr=0.1), []
    optimizer = compile_optimizer(optimizer) if device == "jax" else optimizer
    for _ in range(3):
        optimizer.zero_grad()
        value = loss(net, x, y)
        value.backward()
        optimizer.step()
        seen.append(value.item())
    return seen, {p.dtype for p in net.parameters()}, {p.grad.dtype for p in net.parameters()}


@pytest.mark.parametrize("place", ["within", "around"])
def test_training_has_the_losses_of_bfloat16_and_weights_in_float32(place: str) -> None:
    torch.manual_seed(0)
    net, x, y = Net(), torch.randn(2, 3, 4), torch.randint(0, 2, (2, 3))

    def make(device: str) -> Callable[..., Any]:
        def within(net: Any, x: Any, y: Any) -> Any:
            with torch.autocast(device, dtype=HALF):
                out = net(x)
                assert HALF == out.dtype
                return functional.cross_entropy(out.flatten(0, 1), y.flatten())

        def inner(net: Any, x: Any, y: Any) -> Any:
            return functional.cross_entropy(net(x).flatten(0, 1), y.flatten())

        if place == "within":
            return differentiable(within) if device == "cuda" else within
        inner = differentiable(inner) if device == "cuda" else inner

        def around(net: Any, x: Any, y: Any) -> Any:
            with torch.autocast(device, dtype=HALF):
                return inner(net, x, y)

        return around

    with plain_torch():
        due = _steps(copy.deepcopy(net), x, y, "cpu", make("cpu"))
    found = _steps(net.to("jax"), x.to("jax"), y.to("jax"), "jax", make("cuda"))
    torch.testing.assert_close(torch.tensor(found[0]), torch.tensor(due[0]), rtol=3e-2, atol=3e-2)
    assert ({FULL}, {FULL}) == found[1:]


def test_contexts_nest_and_can_be_off() -> None:
    x = X.to("jax")

    @torch.autocast("cuda", dtype=HALF)
    def decorated(x: Any) -> Any:
        return x @ x.T

    with torch.autocast("cuda", dtype=HALF):
        assert torch.is_autocast_enabled()
        assert HALF == (x @ x.T).dtype
        with torch.autocast("cuda", enabled=False):
            assert FULL == (x @ x.T).dtype
        with torch.amp.autocast("jax", dtype=HALF, enabled=True):
            assert HALF == (x @ x.T).dtype
        assert HALF == (x @ x.T).dtype
    assert not torch.is_autocast_enabled()
    assert (HALF, FULL) == (decorated(x).dtype, (x @ x.T).dtype)
    with torch.autocast("cpu", dtype=HALF):
        assert FULL == (x @ x.T).dtype


def test_a_compiled_function_has_a_version_for_each_state() -> None:
    function = differentiable(lambda x: (x @ x.T).sum(0))
    x = X.to("jax")
    kinds = []
    for is_on in (True, False, True, False):
        with torch.autocast("jax", dtype=HALF, enabled=is_on), torch.no_grad():
            kinds.append(function(x).dtype)
            kinds.append((nn.Identity()(x) @ x.T).dtype)
    assert [FULL, HALF, FULL, FULL] * 2 == kinds


def test_half_precision_becomes_bfloat16_and_this_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(autocast, "_said", False)
    x = X.to("jax")
    with pytest.warns(UserWarning, match="bfloat16"):
        context = torch.cuda.amp.autocast(dtype=torch.float16)
    with context:
        assert HALF == (x @ x.T).dtype
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        with torch.autocast("cuda"):
            assert HALF == (x @ x.T).dtype


def test_recurrent_layers_run_in_bfloat16() -> None:
    layer = nn.LSTM(4, 5, batch_first=True).to("jax")
    with torch.autocast("cuda", dtype=HALF), torch.no_grad():
        assert HALF == layer(X.to("jax")[None])[0].dtype


def test_operators_on_the_host_stay_as_they_are() -> None:
    with torch.autocast("cuda", dtype=HALF):
        assert FULL == (X @ X.T).dtype
