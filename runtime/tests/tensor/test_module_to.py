"""Modules that are moved, built without elements, or whose parameters are not known yet."""

# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn.parameter import is_lazy
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.tensor import lazy_modules, meta_tensors, module_to

Alike = Callable[..., None]


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(3, 3), nn.Linear(3, 3, bias=False)
        self.last.weight = self.first.weight

    def forward(self, x: Any) -> Any:
        return self.last(self.first(x))


def test_modules_that_share_a_weight_go_on_sharing_it() -> None:
    net, other = Tied(), nn.Linear(3, 3)
    other.weight = net.first.weight
    net.to("jax")
    assert net.last.weight is net.first.weight is other.weight
    assert ("jax", "cpu") == (other.weight.device.type, other.bias.device.type)
    other.to("jax")
    assert other.weight is net.first.weight
    net.half()
    assert net.last.weight is net.first.weight is other.weight
    assert torch.float16 == other.weight.dtype


def test_optimizers_are_given_the_parameters_that_are_moved(alike: Alike) -> None:
    def trained(device: str) -> Any:
        net = Tied()
        before = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
        parameters = list(net.parameters())
        net.to(device)
        after = torch.optim.SGD(parameters, lr=0.5)
        loss = differentiable(lambda net, x: net(x).square().mean())
        for optimizer in (before, before, after):
            optimizer.zero_grad()
            loss(net, torch.ones(2, 3).to(device)).backward()
            optimizer.step()
        return list(net.parameters())

    alike(trained)


def test_states_of_optimizers_follow_parameters_of_another_type() -> None:
    net = nn.Linear(2, 1).to("jax")
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    differentiable(lambda net, x: net(x).sum())(net, torch.ones(1, 2).to("jax")).backward()
    optimizer.step()
    net.bfloat16()
    assert torch.bfloat16 == net.weight.grad.dtype
    assert set(net.parameters()) == set(optimizer.state)
    assert list(net.parameters()) == optimizer.param_groups[0]["params"]


def test_gradients_of_parameters_that_were_listed_before_the_move_are_clipped() -> None:
    net = nn.Linear(2, 1)
    listed = list(net.parameters())
    net.to("jax")
    differentiable(lambda net, x: net(x).sum())(net, torch.full((1, 2), 3.0).to("jax")).backward()
    nn.utils.clip_grad_norm_(listed, 1.0)
    assert pytest.approx(1, abs=1e-4) == sum(p.grad.square().sum().item() for p in net.parameters())
    nn.utils.clip_grad_value_(listed[0], 0.1)
    assert pytest.approx(0.1) == net.weight.grad.abs().max().item()


def test_functions_of_torch_take_parameters_that_were_listed_before_the_move() -> None:
    net = nn.Linear(2, 1)
    listed = list(net.parameters())
    net.to("jax")
    assert net.weight is module_to.latest((listed[0], 2))[0]
    assert (1, 2) == module_to.latest((1, 2))


def test_devices_of_a_text_are_torchax() -> None:
    for device in ("cuda", "cuda:0", torch.device("cuda"), "jax"):
        assert "jax" == nn.Linear(1, 1).to(device).weight.device.type
    assert "cpu" == nn.Linear(1, 1).to("jax").to("cpu").weight.device.type


def test_modules_that_torchscript_traced_and_copies_are_moved() -> None:
    traced = torch.jit.trace(nn.Linear(2, 1), torch.ones(1, 2))
    assert "jax" == next(traced.to("jax").parameters()).device.type
    made = copy.deepcopy(Tied())
    assert "jax" == made.to("jax").last.weight.device.type


def test_lazy_modules_are_on_the_device_once_their_shapes_are_known(alike: Alike) -> None:
    def made(device: str) -> Any:
        net = nn.Sequential(nn.LazyLinear(2), nn.LazyBatchNorm1d(), nn.LazyConv1d(1, 1, bias=False))[:2].to(
            device
        )
        optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
        shape = net(torch.ones(3, 4).to(device)).shape
        kept = all(p is q for p, q in zip(net.parameters(), optimizer.param_groups[0]["params"], strict=True))
        return tuple(shape), kept, [p.device.type == device for p in net.state_dict().values()], net[0].weight

    alike(made)


def test_lazy_modules_that_a_compiled_function_calls_first() -> None:
    torch.manual_seed(0)
    host = nn.LazyLinear(2)
    due = host(torch.ones(3, 4)).sum()
    torch.manual_seed(0)
    net = nn.LazyLinear(2).to("jax")
    loss = differentiable(lambda net, x: net(x * 1).sum())
    got = loss(net, torch.ones(3, 4, device="jax"))
    assert torch.allclose(due, got.cpu(), atol=1e-5)
    got.backward()
    assert (2, 4) == tuple(net.weight.grad.shape)
    features = nn.Sequential(
        nn.LazyConv2d(2, 3, bias=False), nn.LazyBatchNorm2d(), nn.Flatten(), nn.LazyLinear(1)
    ).to("jax")
    loss(features, torch.ones(2, 1, 4, 4, device="jax")).backward()
    assert (1, 8) == tuple(features[3].weight.grad.shape)


def test_lazy_modules_of_another_type_or_of_the_host() -> None:
    half = nn.LazyLinear(2).half().to("jax")
    half(torch.ones(1, 3, device="jax").half())
    assert (torch.float16, "jax") == (half.weight.dtype, half.weight.device.type)
    host = nn.LazyLinear(2).to("cpu")
    host(torch.ones(1, 3))
    assert "cpu" == host.weight.device.type
    assert is_lazy(nn.LazyLinear(2).to("jax").weight)
    one = nn.LazyLinear(2).weight
    one.materialize((2, 3), device="jax")
    assert "jax" == one.device.type
    assert "Linear" in str(lazy_modules.AwaitedError(nn.Linear(1, 1), ((), {})))


def test_modules_without_elements_need_none(alike: Alike) -> None:
    with torch.device("meta"):
        net = nn.Sequential(nn.Embedding(7, 4), nn.Linear(4, 4), nn.BatchNorm1d(4))
        net.register_buffer("angles", torch.outer(torch.arange(3.0), torch.ones(4)).cos())
    assert {"meta"} == {p.device.type for p in net.state_dict().values()}
    net.to_empty(device="jax")
    assert {"jax"} == {p.device.type for p in net.state_dict().values()}
    with torch.no_grad():
        for p in net.parameters():
            nn.init.constant_(p, 0.5)
    assert "jax" == net[1](torch.ones(2, 4, device="jax")).device.type


def test_what_is_made_or_copied_without_elements() -> None:
    x = torch.ones(2, 3, device="jax")
    assert "meta" == x.to("meta").device.type
    assert "meta" == torch.zeros_like(x, device="meta").device.type
    assert "meta" == torch.empty(2, device=torch.device("meta")).device.type
    assert "meta" == torch.ones(2).to(torch.device("meta")).device.type
    assert [0.0, 0.0] == torch.zeros_like(torch.empty(2, device="meta"), device="jax").tolist()
    assert "cpu" == meta_tensors.on_host(x.to("meta")).device.type


def test_weights_are_assigned_to_a_module_without_elements() -> None:
    net = nn.Linear(2, 1).to("jax")
    with torch.device("meta"):
        other = nn.Linear(2, 1)
    other.load_state_dict(net.state_dict(), assign=True)
    x = torch.ones(1, 2, device="jax")
    assert torch.equal(net(x), other(x))


def test_tensors_are_grouped_by_the_device_where_they_are() -> None:
    x, y = torch.ones(2, device="jax"), torch.ones(2)
    groups = torch.utils._foreach_utils._group_tensors_by_device_and_dtype([[x, y, x]])
    assert {"jax", "cpu"} == {device.type for device, _ in groups}


def test_averages_of_weights(alike: Alike) -> None:
    from torch.optim.swa_utils import AveragedModel, get_ema_avg_fn, get_ema_multi_avg_fn, update_bn

    def averaged(device: str) -> Any:
        net = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3, momentum=None)).to(device)
        averages = [
            AveragedModel(net),
            AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(0.9)),
            AveragedModel(net, avg_fn=get_ema_avg_fn(0.9), use_buffers=True),
        ]
        x = torch.arange(6.0).reshape(3, 2).to(device)
        for step in range(3):
            with torch.no_grad():
                for p in net.parameters():
                    p.add_(step)
            for average in averages:
                average.update_parameters(net)
        update_bn([x, x * 2], averages[0])
        return [one.float() for average in averages for one in average.module.state_dict().values()]

    alike(averaged)


def test_compiled_optimizer_steps_the_parameters_that_were_moved_since() -> None:
    net = nn.Linear(2, 1)
    optimizer = compile_optimizer(torch.optim.SGD(net.parameters(), lr=1.0))
    net.to("jax")
    before = net.weight.tolist()
    differentiable(lambda net, x: net(x).sum())(net, torch.ones(1, 2).to("jax")).backward()
    optimizer.step()
    assert pytest.approx([w - 1 for w in before[0]]) == net.weight.tolist()[0]


def test_modules_that_are_halved_by_hand_are_trained() -> None:
    net = nn.Sequential(nn.Conv1d(2, 4, 3), nn.BatchNorm1d(4), nn.ReLU(), nn.Conv1d(4, 2, 3))
    net.apply(lambda one: one.half() if isinstance(one, nn.Conv1d) else None)
    net.to("jax")
    x = torch.linspace(-1, 1, 48).reshape(2, 2, 12).to("jax").half()
    differentiable(lambda net, x: net(x).float().square().mean())(net, x).backward()
    assert [torch.float16, torch.float16, torch.float32, torch.float32] == [
        p.grad.dtype for p in net.parameters()
    ][:4]
    assert torch.float16 == net.eval()(x).dtype


def test_a_part_of_a_model_that_is_halved_and_back_is_trained_on(alike: Alike) -> None:
    def trained(device: str) -> Any:
        net = Tied().to(device)
        optimizer: Any = torch.optim.SGD(net.parameters(), lr=0.5)
        optimizer = compile_optimizer(optimizer) if device == "jax" else optimizer

        def loss(net: Any, x: Any) -> Any:
            return net(x).square().mean()

        computed = differentiable(loss) if device == "jax" else loss
        for _ in range(2):
            optimizer.zero_grad()
            computed(net, torch.ones(2, 3).to(device)).backward()
            optimizer.step()
            net.first.half()
            net.first.float()
        return net.last.weight is net.first.weight, list(net.parameters())

    alike(trained, tolerance=2e-3)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("is_view", [False, True])
def test_a_module_moves_to_the_device_and_dtype_of_a_tensor(dtype: torch.dtype, is_view: bool) -> None:
    like = torch.ones(2, 3, dtype=dtype).to("jax")
    like = like[0] if is_view else like
    for net in (nn.Linear(3, 4).to(like), nn.Linear(3, 4).to(tensor=like, non_blocking=True)):
        assert ("jax", dtype) == (net.weight.device.type, net.weight.dtype)
        assert (4,) == tuple(net(torch.ones(3, dtype=dtype).to("jax")).shape)


def test_a_module_moves_to_the_device_of_a_tensor_on_the_host() -> None:
    assert "cpu" == nn.Linear(3, 4).to(torch.ones(2)).weight.device.type
