"""Process groups and wrappers of several GPUs, with one process that drives all chips."""

# mypy: disallow-subclassing-any=False, disallow-untyped-decorators=False

from __future__ import annotations

import copy
import pickle
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torchax_compat import differentiable, single_process
from torchax_compat.distributed import local_collectives


def test_what_is_summed_or_sent_in_one_process_is_what_it_was() -> None:
    x = torch.ones(2, device="jax")
    assert dist.all_reduce(x) is None
    done = dist.broadcast(x, 0, async_op=True)
    assert done.wait()
    assert done.is_completed()
    assert dist.barrier() is None
    assert [1.0, 1.0] == x.tolist()


@pytest.mark.usefixtures("alone")
def test_tensors_are_gathered_through_the_host() -> None:
    x, host = torch.ones(2, device="jax"), torch.zeros(2)
    found, whole = [torch.zeros(2, device="jax")], torch.zeros(2, device="jax")
    assert dist.all_gather(found, x) is None
    assert dist.all_gather_into_tensor(whole, x * 2, async_op=True).wait()
    assert ([1.0, 1.0], [2.0, 2.0]) == (found[0].tolist(), whole.tolist())
    dist.all_gather([host], torch.ones(2))
    assert [1.0, 1.0] == host.tolist()
    dist.reduce(x, 0)
    dist.scatter(whole, [x * 3], 0)
    assert [3.0, 3.0] == whole.tolist()


@pytest.mark.usefixtures("alone")
def test_objects_are_gathered_past_torchax() -> None:
    objects: list[Any] = [None]
    dist.all_gather_object(objects, {"a": 1})
    assert [{"a": 1}] == objects


@pytest.mark.usefixtures("alone")
def test_several_processes_reduce_and_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dist, "get_world_size", lambda *_: 2)
    x = torch.ones(2, device="jax")
    dist.all_reduce(x)
    dist.barrier()
    assert [1.0, 1.0] == x.tolist()
    assert isinstance(dist.broadcast(x, 0, async_op=True), local_collectives.Done)


def test_undivided_modules_are_called_as_they_are() -> None:
    net = nn.Linear(2, 1).to("jax")
    wrapped = single_process(net)
    x = torch.ones(3, 2)
    assert torch.equal(net(x.to("jax")), wrapped(x))
    assert wrapped.module is net
    assert ["module.bias", "module.weight"] == sorted(wrapped.state_dict())
    assert isinstance(wrapped, (nn.DataParallel, nn.parallel.DistributedDataParallel))
    with wrapped.no_sync():
        assert not wrapped.eval().training
    assert wrapped.train().training
    made = pickle.loads(pickle.dumps(wrapped))
    assert net.weight.tolist() == made.module.weight.tolist()
    assert copy.deepcopy(wrapped).module is not net


def test_wrappers_of_the_program_call_their_module() -> None:
    class WithCallback(nn.DataParallel):
        def replicate(self, module: Any, device_ids: Any) -> Any:
            raise AssertionError

    net = WithCallback(nn.Linear(2, 1).to("jax"), device_ids=[0, 1])
    loss = differentiable(lambda net, x: net(x).square().mean())(net, torch.ones(3, 2))
    loss.backward()
    assert (1, 2) == tuple(net.module.weight.grad.shape)
    assert ["module.bias", "module.weight"] == sorted(net.state_dict())
    (inputs,), (named,) = net.scatter((torch.ones(1),), {"x": torch.ones(2), "n": 3}, [0])
    assert ("jax", "jax", 3) == (inputs[0].device.type, named["x"].device.type, named["n"])
    assert "jax" == net.src_device_obj.type


def test_modules_are_called_by_data_parallel() -> None:
    net = nn.Bilinear(2, 2, 1)
    x = torch.ones(3, 2)
    due = net(x, x)
    assert torch.equal(due, nn.parallel.data_parallel(net, (x,), module_kwargs={"input2": x}))
    there = nn.parallel.data_parallel(net.to("jax"), (x, x))
    assert torch.allclose(due, there.cpu(), atol=1e-6)
    assert [1.0] == nn.parallel.data_parallel(nn.Identity(), torch.ones(1)).tolist()
