"""Accumulated gradients with `no_sync`, sums as losses, and comparisons within the batch of a rank."""

import contextlib

import torch
from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable


@differentiable
def compute_loss(model, x, y):
    out = functional.normalize(model(x), dim=1)
    alike = out @ out.T / 0.5
    contrast = functional.cross_entropy(alike, torch.arange(len(x), device=x.device))
    return contrast + 0.1 * functional.cross_entropy(out, y, reduction="sum")


def main():
    rank, world = start()
    model = DistributedDataParallel(Net().to(DEVICE))
    data = Points(40)
    sampler = DistributedSampler(data, num_replicas=world, rank=rank, drop_last=True)
    loader = DataLoader(data, batch_size=5, sampler=sampler)
    optimizer = compile_optimizer(torch.optim.AdamW(model.parameters(), lr=0.01))
    running = 0.0
    for step, (x, y, _) in enumerate(loader):
        is_last = step % 2 == 1
        with contextlib.nullcontext() if is_last else model.no_sync():
            loss = compute_loss(model, x.to(DEVICE), y.to(DEVICE)) / 2
            loss.backward()
        running = 0.9 * running + 0.1 * loss.item()
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
        if rank == 0:
            print(f"{loss.item():.5f} {running:.5f}")
    end(model)
