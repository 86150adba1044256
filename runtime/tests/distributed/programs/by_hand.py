"""One process per device by hand: gradients that the program averages itself, and batches in dictionaries."""

import os

import torch
import torch.distributed as dist
from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.utils.data import BatchSampler, DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable


@differentiable
def compute_loss(model, batch):
    return functional.cross_entropy(model(batch["x"]), batch["y"])


class Named(Points):
    def __getitem__(self, index):
        x, y, _ = super().__getitem__(index)
        return {"x": x, "y": y, "name": str(index), "weight": 0.5 + y.item()}


def main():
    start()
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    model = Net().to(DEVICE)
    for value in model.state_dict().values():
        dist.broadcast(value, 0)
    data = Named(40)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=False)
    loader = DataLoader(data, batch_sampler=BatchSampler(sampler, 5, drop_last=False))
    optimizer = compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in loader:
        batch = {name: value.to(DEVICE) if name in ("x", "y") else value for name, value in batch.items()}
        loss = compute_loss(model, batch)
        optimizer.zero_grad()
        loss.backward()
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad, op=dist.ReduceOp.SUM)
            parameter.grad /= world
        optimizer.step()
        weight = batch["weight"].sum()
        found = [None] * world
        dist.all_gather_object(found, {"loss": round(loss.item(), 4), "weight": weight.item()})
        weight = weight.to(DEVICE)
        dist.reduce(weight, 0)
        names = [None] * world
        dist.all_gather_object(names, [number * 2 for number in batch["y"].tolist()])
        largest = loss.detach().clone()
        dist.all_reduce(largest, op=dist.ReduceOp.MAX)
        if rank == 0:
            print(names, dist.get_backend())
            print(batch["name"], weight.item(), f"{largest.item():.5f}")
            print(" ".join(f"{one['loss']} {one['weight']}" for one in found))
    end(model)
