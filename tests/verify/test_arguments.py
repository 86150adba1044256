"""What libraries ask of tensors and of containers, beside the folder of fixed programs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

pytest.importorskip("torchax")

NAMED = """\
import torch
import torch.nn.functional as F
import torchax
import torchax_training

torchax.enable_globally()
torch.manual_seed(0)
host = torch.randn(1, 2, 4, 4)
CALLS = [
    lambda x: F.interpolate(input=x, scale_factor=2),
    lambda x: F.pad(input=x, pad=(1, 1, 0, 1), mode="reflect"),
    lambda x: F.linear(x, weight=x[0, 0], bias=x[0, 0, 0]),
    lambda x: torch.take_along_dim(input=x, indices=x.argsort(-1), dim=-1),
    lambda x: torch.argsort(input=x, dim=-1, descending=True),
    lambda x: torch.repeat_interleave(input=x, repeats=2, dim=1),
    lambda x: torch.linalg.det(A=x[0, 0]),
    lambda x: torch.linalg.solve(A=x[0, 0], B=x[0, 1]),
    lambda x: torch.linalg.svd(A=x[0, 0], full_matrices=False)[1],
    lambda x: torch.where(condition=x > 0, input=x, other=0.0),
    lambda x: torch.quantile(input=x, q=0.5),
    lambda x: torch.empty(size=(2, 3), device=x.device) * 0,
]
for call in CALLS:
    assert (call(host) - call(host.to("jax")).cpu()).abs().max() < 1e-4
print(len(CALLS), torch.allclose(input=host.to("jax"), other=host.to("jax") + 1e-9))
"""


def test_arguments_may_be_given_by_their_names_in_torch(printed: Callable[[str], str]) -> None:
    assert printed(NAMED) == "12 True\n"


ADDRESSED = """\
import torch
import torchax
import torchax_training

torchax.enable_globally()
net = torch.nn.Linear(3, 2).to("jax")
x, y = torch.zeros(4, 3, device="jax"), torch.zeros(4, 3, device="jax")
print(x.data_ptr() == y.data_ptr(), len({p.data_ptr() for p in net.parameters()}), 0 in (x.data_ptr(),))
print([p.data_ptr() for p in net.parameters()] == [p.data_ptr() for p in net.state_dict().values()])
print([one.data_ptr() - x.data_ptr() for one in (x.detach(), x.data, x.view(-1), x[1:], x[1], x.t())])
base = x.untyped_storage()
others = x[2:], x.t(), x.t().reshape(-1), x + 0
print([one.untyped_storage().data_ptr() == base.data_ptr() for one in others])
print(base.nbytes(), x[1:].untyped_storage().nbytes(), y.untyped_storage().data_ptr() != base.data_ptr())
"""


def test_tensors_have_addresses_that_tell_what_shares_its_memory(printed: Callable[[str], str]) -> None:
    assert printed(ADDRESSED) == (
        "False 2 False\nTrue\n[0, 0, 0, 12, 12, 0]\n[True, True, False, False]\n48 48 True\n"
    )


MAPPED = """\
from collections import OrderedDict

import torch
import torchax
from torchax_training import differentiable


class Made(OrderedDict):
    def __getitem__(self, key):
        return super().__getitem__(key)()


class Lazy(dict):
    def keys(self):
        return ["another"]

    def items(self):
        raise AssertionError("all are made")

    def values(self):
        raise AssertionError("all are made")

    def __iter__(self):
        return iter(self.keys())


ACTIVATIONS, LAZY = Made(relu=torch.nn.ReLU, broken=None), Lazy(far=1.0)
torchax.enable_globally()
net = torch.nn.Linear(3, 1).to("jax")


@differentiable
def compute_loss(net, x):
    return ACTIVATIONS["relu"](net(x)).sum() * len(LAZY)


for _ in range(3):
    loss = compute_loss(net, torch.ones(2, 3).to("jax"))
    loss.backward()
print(compute_loss.is_compiled, net.weight.grad.shape)
"""


def test_what_a_container_makes_when_asked_is_not_made_to_watch_it(printed: Callable[[str], str]) -> None:
    assert printed(MAPPED) == "True torch.Size([1, 3])\n"


GENERATED = """\
import torch
import torchax
import torchax_training
from torch.utils.data import DataLoader

torchax.enable_globally()
net = torch.nn.Linear(3, 1).to("jax")
device = next(net.parameters()).device
one, other = (torch.Generator(device=where).manual_seed(3) for where in (device, "cpu"))
print(isinstance(one, torch.Generator), isinstance(device, torch.Generator), one.device)
there, host = torch.randn(4, generator=one, device=device), torch.randn(4, generator=other)
print(there.device.type, torch.allclose(there.cpu(), host))
for generator in (torch.Generator(device), torch.Generator()):
    print([x.item() for x in DataLoader(range(4), shuffle=True, generator=generator.manual_seed(0))])
"""


def test_a_generator_of_the_device_is_one_of_the_host(printed: Callable[[str], str]) -> None:
    shown = printed(GENERATED).splitlines()
    assert shown[:2] == ["True False cpu", "jax True"]
    assert shown[2] == shown[3]
