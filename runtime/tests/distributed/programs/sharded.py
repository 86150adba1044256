"""Sharded parameters, by class and by function, with clipping and a checkpoint."""

import torch
import torch.distributed as dist
from common import DEVICE, Points, start
from torch import nn
from torch.distributed.fsdp import (
    FullOptimStateDictConfig,
    FullStateDictConfig,
    FullyShardedDataParallel,
    StateDictType,
    fully_shard,
)
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable


@differentiable
def compute_loss(model, x, y):
    return functional.cross_entropy(model(x), y)


def trained(model, clip, optimizer=None):
    rank = dist.get_rank()
    data = Points(40)
    loader = DataLoader(data, batch_size=5, sampler=DistributedSampler(data))
    if optimizer is None:
        optimizer = compile_optimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
    for x, y, _ in loader:
        optimizer.zero_grad()
        loss = compute_loss(model, x.to(DEVICE), y.to(DEVICE))
        loss.backward()
        norm = clip(model)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        optimizer.step()
        if rank == 0:
            print(f"{loss.item():.5f} {norm.item():.5f}")
    if DEVICE == "jax":
        check_shards(optimizer)
    return optimizer


def check_shards(optimizer):
    """Each device has its part of the large parameters, and of what the optimizer keeps for them."""
    large = [one for group in optimizer.param_groups for one in group["params"] if one.numel() >= 4096]
    for parameter in large:
        for tensor in (parameter, optimizer.state[parameter]["exp_avg"]):
            shard = tensor.jax().addressable_shards[0].data
            assert shard.size * dist.get_world_size() == tensor.numel(), (shard.shape, tensor.shape)
    assert large


def main():
    rank, _ = start()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    model = FullyShardedDataParallel(model, device_id=None if DEVICE == "jax" else torch.device("cpu"))
    optimizer = trained(model, lambda model: model.clip_grad_norm_(0.5))
    with FullyShardedDataParallel.state_dict_type(
        model,
        StateDictType.FULL_STATE_DICT,
        FullStateDictConfig(rank0_only=False),
        FullOptimStateDictConfig(rank0_only=False),
    ):
        state = {name: value.clone() for name, value in model.state_dict().items()}
        moments = FullyShardedDataParallel.optim_state_dict(model, optimizer)
        if rank == 0:
            print({name: round(value.square().sum().item(), 4) for name, value in state.items()})
        trained(model, lambda model: model.clip_grad_norm_(0.5), optimizer)
        model.load_state_dict(state)
        moments = FullyShardedDataParallel.optim_state_dict_to_load(model, optimizer, moments)
        optimizer.load_state_dict(moments)
        trained(model, lambda model: model.clip_grad_norm_(0.5), optimizer)
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(6, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 3))
    fully_shard(model[2])
    fully_shard(model)
    trained(model, lambda model: nn.utils.clip_grad_norm_(model.parameters(), 0.5))
    sums = [value.detach().square().sum() for value in model.parameters()]
    sums = [value.full_tensor() if hasattr(value, "full_tensor") else value for value in sums]
    if rank == 0:
        print(*(f"{value.item():.4f}" for value in sums))
    dist.barrier()
