"""DDP, `DistributedSampler`, batch statistics, clipping, and metrics of all forms."""

import torch
import torch.distributed as dist
from common import DEVICE, Net, Points, end, start
from torch import nn
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader
from torch.utils.data.distributed import DistributedSampler
from torchax_compat import compile_optimizer, differentiable


def mean_of_ranks(value):
    value = value.clone().detach()
    dist.all_reduce(value, op=dist.ReduceOp.SUM)
    return value / dist.get_world_size()


@differentiable
def compute_loss(model, x, y):
    out = model(x)
    return functional.cross_entropy(out, y), out


def main():
    rank, world = start()
    model = DistributedDataParallel(Net(norm=True).to(DEVICE))
    data = Points()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=4, sampler=sampler)
    optimizer = compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.05 * world, momentum=0.9))
    steps, seen = 0, []
    for epoch in range(2):
        sampler.set_epoch(epoch)
        total, count, right = 0.0, 0, torch.zeros(1, device=DEVICE)
        sums = torch.zeros(2, device=DEVICE)
        for x, y, numbers in loader:
            seen += numbers.tolist()
            x, y = x.to(DEVICE), y.to(DEVICE)
            loss, out = compute_loss(model, x, y)
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 0.5)
            optimizer.step()
            steps += 1
            total += loss.item() * x.size(0)
            count += x.size(0)
            right += (out.argmax(1) == y).sum()
            sums[0] += loss.item()
            sums[1] += len(x)
            mean = mean_of_ranks(loss)
            if rank == 0:
                print(f"loss of rank 0 {loss.item():.5f}, of all {mean.item():.5f}")
        pair = torch.tensor([total, count], device=DEVICE)
        for value in (pair, right, sums):
            dist.all_reduce(value)
        if rank == 0:
            print(f"epoch {epoch}: loss {(pair[0] / pair[1]).item():.5f} of {pair[1].item():.0f} samples")
            print(f"right {right.item():.0f}, sums {sums[0].item():.5f} {sums[1].item():.0f}")
    model.eval()
    right, losses = 0, torch.zeros((), device=DEVICE)
    with torch.no_grad():
        for x, y, _ in loader:
            out = model(x.to(DEVICE))
            right += (out.argmax(1) == y.to(DEVICE)).sum().item()
            losses += nn.CrossEntropyLoss()(out, y.to(DEVICE))
    parts = [torch.zeros_like(losses) for _ in range(world)]
    dist.all_gather(parts, losses)
    right = torch.tensor(right, device=DEVICE)
    dist.all_reduce(right)
    if rank == 0:
        print("right", right.item(), *(f"{part.item():.5f}" for part in parts))
        print("steps", steps, "seen", seen)
    end(model)
