"""A loss with a count and a center over all ranks, which the decorated function communicates itself."""

import torch
import torch.distributed as dist
from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable


@differentiable
def compute_loss(model, x, y):
    mask = (y > 0).float()
    count = mask.sum()
    dist.all_reduce(count)
    count = torch.clamp(count / dist.get_world_size(), min=1)
    out = model(x)
    parts = [torch.zeros_like(out) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, out.detach())
    center = torch.cat(parts).mean(0)
    losses = functional.cross_entropy(out, y, reduction="none") + 0.1 * (out - center).square().sum(1)
    return (losses * mask).sum() / count, count


def main():
    rank, _ = start()
    model = DistributedDataParallel(Net(norm=True).to(DEVICE))
    optimizer = compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    data = Points(40)
    loader = DataLoader(data, batch_size=5, sampler=DistributedSampler(data, drop_last=True))
    for epoch in range(3):
        loader.sampler.set_epoch(epoch)
        for x, y, _ in loader:
            optimizer.zero_grad()
            loss, count = compute_loss(model, x.to(DEVICE), y.to(DEVICE))
            loss.backward()
            optimizer.step()
            if rank == 0:
                print(f"{loss.item():.5f} {count.item():.3f}")
    end(model)
