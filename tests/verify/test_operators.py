"""Operators of the folder beside fixed programs, in many settings: values and gradients are torch's."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torchax")

COMPARED = """\
import random

import jax
import numpy as np
import torch
import torchax
import torchax_training
import torch.nn.functional as F
from torchax import interop

random.seed(0)
torch.manual_seed(0)


def some(*choices, count):
    return [random.choice(choices) for _ in range(count)]


def compare(function, *inputs, gradients=True):
    \"\"\"What torch gives on the host, and its gradients, beside those within torchax.\"\"\"
    inputs = [x.requires_grad_() for x in inputs]
    due = function(*inputs)
    weight = torch.randn_like(due)
    expected = [due, *(torch.autograd.grad(due, inputs, weight) if gradients else ())]

    def there(*values):
        with torchax.default_env():
            return interop.jax_view(function(*interop.torch_view(values)))

    made, pullback = jax.vjp(there, *[x.detach().numpy() for x in inputs])
    got = [made, *(pullback(weight.numpy()) if gradients else ())]
    for one, other in zip(got, expected, strict=True):
        other = other.detach().numpy()
        assert one.shape == other.shape, (one.shape, other.shape)
        assert np.abs(one - other).max() < 1e-5 * max(1, np.abs(other).max())
"""

CONVOLVED = """\
for number in range(9):
    count = number % 3 + 1
    groups, deep, wide = random.choice([1, 3]), random.choice([1, 2]), random.choice([1, 2])
    kernel, stride = some(1, 2, 3, count=count), some(1, 2, 3, count=count)
    dilation, padding = some(1, 2, count=count), some(0, 1, count=count)
    more = [random.randrange(max(pair)) for pair in zip(stride, dilation)]
    x = torch.randn(2, groups * deep, *some(6, 7, 8, count=count))
    plain = torch.randn(groups * wide, deep, *kernel)
    transposed = torch.randn(groups * deep, wide, *kernel)
    name = f"conv{count}d"
    convolve, spread = getattr(F, name), getattr(F, name.replace("v", "v_transpose"))
    compare(lambda x, w: convolve(x, w, None, stride, padding, dilation, groups), x, plain)
    compare(lambda x, w: spread(x, w, None, stride, padding, more, groups, dilation), x, transposed)
print(number + 1)
"""

RESAMPLED = """\
for number in range(40):
    count = random.choice([1, 2, 2, 3])
    x = torch.randn(2, 3, *[random.randint(2, 7) for _ in range(count)])
    linear = ("linear", "bilinear", "trilinear")[count - 1]
    mode = random.choice(["nearest", "nearest-exact", linear, linear, "area", "adaptive"])
    sizes = [random.randint(1, 9) for _ in range(count)]
    if mode == "adaptive":
        pool = getattr(F, f"adaptive_avg_pool{count}d")
        compare(lambda x: pool(x, sizes[0] if count == 1 else sizes), x)
        continue
    told = {"size": sizes}
    if random.random() < 0.5:
        told = {"scale_factor": random.choice([2, 3, 0.5, 1.5])}
    if mode == linear:
        told["align_corners"] = random.random() < 0.5
    compare(lambda x: F.interpolate(x, mode=mode, **told), x)
# Of pictures torch forgets the scale where as many places are wanted, and of others on the way back alone.
for x, scale in ((torch.randn(1, 1, 3, 4), (1.3, 1.0)), (torch.randn(1, 1, 3), (1.3,))):
    compare(lambda x: F.interpolate(x, scale_factor=scale), x, gradients=False)
long = torch.randn(1, 1, 1100)
compare(lambda x: F.interpolate(x, size=2200, mode="linear"), long)
print(number + 1)
"""


OPTIONS = """\
x, edges = torch.randn(2, 3, 7, 8), torch.randn(9).sort()[0]
for number in range(8):
    told = {"stride": random.choice([1, 2, 3]), "padding": random.choice([0, 1]), "ceil_mode": True}
    told["count_include_pad"] = number % 2 == 0
    compare(lambda x: F.avg_pool2d(x, 3, **told), x)
compare(lambda x: F.avg_pool2d(x, (2, 3), ceil_mode=True, divisor_override=4), x)
compare(lambda x: torch.searchsorted(edges.to(x.device), x, side="right").float(), x, gradients=False)
compare(lambda x: torch.searchsorted(x.sort()[0], x).float(), x, gradients=False)
compare(lambda x: torch.bucketize(x, edges.to(x.device), right=True).float(), x, gradients=False)
compare(lambda x: torch.take_along_dim(x, x[:1].argsort(3), 3), x)
compare(lambda x: x.take_along_dim(x.argsort(3)), x)
for count, wide in ((1, 2), (2, 2), (2, 3), (3, 2)):
    pool, unpool = getattr(F, f"max_pool{count}d"), getattr(F, f"max_unpool{count}d")
    back = lambda x: unpool(*pool(x, wide, 2, return_indices=True), wide, 2)
    compare(back, torch.randn(2, 3, *[8 + wide % 2] * count))
compare(back, torch.randn(3, *[8] * count))
wide = -(2**32) + 1
for function in (torch.mul, torch.add, torch.sub, torch.div, torch.clamp_min):
    compare(lambda x: function(x, wide), x)
compare(lambda x: torch.where(x > 0, x, torch.ones_like(x) * wide).masked_fill(x < -1, wide), x)
fft = torch.fft
for told in ({}, {"norm": "ortho"}, {"norm": "forward"}):
    compare(lambda x: fft.irfft2(fft.rfft2(x)[..., :3], s=(5, 7), **told), torch.randn(2, 5, 7))
    compare(lambda x: fft.irfftn(fft.rfftn(x), s=(4, 6, 5), **told), torch.randn(3, 6, 7))
grid = torch.randn(2, 5, 6, 2) * 3
for mode in ("zeros", "border", "reflection"):
    compare(lambda x, grid: F.grid_sample(x, grid, padding_mode=mode, align_corners=True), x, grid)
print(number + 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize(("loop", "count"), [(CONVOLVED, 9), (RESAMPLED, 40), (OPTIONS, 8)])
def test_operators_are_torchs_with_their_gradients(
    loop: str, count: int, printed: Callable[[str], str]
) -> None:
    assert printed(COMPARED + loop) == f"{count}\n"
