"""Collectives of tensors of the host and of the device, and of objects, and what only rank 0 computes."""

import torch
import torch.distributed as dist
from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable

OPERATIONS = (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.PRODUCT)


def shown(value):
    return [f"{one:.4f}" for one in value.double().flatten().tolist()]


def combined(values, rank, world):
    """What the collectives of a tensor of each rank give."""
    last = world - 1
    for operation in OPERATIONS:
        found = values.clone()
        dist.all_reduce(found, op=operation)
        yield shown(found)
    found = values.clone()
    dist.broadcast(found, src=last)
    yield shown(found)
    parts = [torch.zeros_like(values) for _ in range(world)]
    dist.all_gather(parts, values)
    yield [shown(one) for one in parts]
    gathered = [torch.zeros_like(values) for _ in range(world)] if rank == 0 else None
    dist.gather(values, gathered, dst=0)
    yield [shown(one) for one in gathered or ()]
    found = torch.zeros_like(values)
    dist.scatter(found, parts if rank == 0 else None, src=0)
    yield shown(found)
    whole = torch.zeros(world * len(values), dtype=values.dtype, device=values.device)
    dist.all_gather_into_tensor(whole, values)
    yield shown(whole)
    objects = [None] * world
    dist.all_gather_object(objects, {"values": values.tolist()})
    yield objects
    objects = [{"a": 1}, "b"] if rank == 0 else [None, None]
    dist.broadcast_object_list(objects, src=0)
    yield objects
    dist.barrier()


@differentiable
def compute_loss(model, x, y):
    return functional.cross_entropy(model(x), y)


class Branched(Net):
    """A classifier with a layer that is not used."""

    def __init__(self):
        super().__init__(norm=True)
        self.unused = torch.nn.Linear(3, 3)


def main():
    rank, world = start()
    torch.manual_seed(rank)  # the wrapper sends the parameters of rank 0
    model = DistributedDataParallel(Branched().to(DEVICE), find_unused_parameters=True)
    optimizer = compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    data = Points(40)
    for x, y, numbers in DataLoader(data, batch_size=5, sampler=DistributedSampler(data)):
        whole, part = numbers, numbers.float() / 7
        optimizer.zero_grad()
        loss = compute_loss(model, x.to(DEVICE), y.to(DEVICE))
        loss.backward()
        optimizer.step()
        if rank == 0:
            model.eval()
            with torch.no_grad():
                print(f"{loss.item():.5f} {model.module(torch.ones(2, 6).to(DEVICE)).sum().item():.5f}")
            model.train()
    dist.barrier()
    for values in (whole, part, whole.to(DEVICE), part.to(DEVICE)):
        for found in combined(values, rank, world):
            if rank == 0:
                print(found)
    end(model)
