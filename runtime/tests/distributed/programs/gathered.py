"""What a program for torch_xla becomes: batches on the device, gradients and values of all ranks."""

import torch
import torch.distributed as dist
from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.utils.data import DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable
from torchax_compat.data import DeviceLoader
from torchax_compat.distributed import gather_values


@differentiable
def compute_loss(model, x, y):
    return functional.cross_entropy(model(x), y)


def average_gradients(model, world):
    """What `xm.optimizer_step` does first; ranks in one process have the averages already."""
    if DEVICE == "cpu":
        for parameter in model.parameters():
            dist.all_reduce(parameter.grad)
            parameter.grad /= world


def values_of_ranks(value):
    if DEVICE == "jax":
        return gather_values(value)
    found = [None] * dist.get_world_size()
    dist.all_gather_object(found, value)
    return found


def main():
    rank, world = start()
    model = Net(norm=True).to(DEVICE)
    data = Points(40)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, shuffle=True)
    loader = DeviceLoader(DataLoader(data, batch_size=4, sampler=sampler, drop_last=True), DEVICE)
    optimizer = compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1 * world))
    for epoch in range(2):
        sampler.set_epoch(epoch)
        correct, total = 0, 0
        for x, y, _ in loader:
            optimizer.zero_grad()
            loss = compute_loss(model, x, y)
            loss.backward()
            average_gradients(model, world)
            optimizer.step()
            with torch.no_grad():
                correct += model(x).argmax(1).eq(y).sum().item()
            total += x.size(0)
        accuracies = values_of_ranks(100.0 * (correct / total))
        first = values_of_ranks({"x": x[0], "epoch": epoch})
        if rank == 0:
            print(len(loader), f"{sum(accuracies) / len(accuracies):.4f}", accuracies)
            print([f"{one['x'].sum().item():.4f}" for one in first], first[-1]["epoch"])
    end(model)
