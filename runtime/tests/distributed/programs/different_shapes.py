"""Batches that are padded to a length of their own on each rank, and a loss that is divided by a count."""

import torch
from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler
from torchax_compat import compile_optimizer, differentiable


@differentiable
def compute_loss(model, x, y, mask):
    losses = functional.cross_entropy(model(x.flatten(0, 1)), y.flatten(), reduction="none")
    return (losses * mask.flatten()).sum() / mask.sum()


def padded(items):
    length = 1 + max(index for _, _, index in items) % 4
    x = torch.stack([x.repeat(length, 1) for x, _, _ in items])
    y = torch.stack([y.repeat(length) for _, y, _ in items])
    mask = torch.ones(y.shape)
    mask[::2, -1] = 0
    return x, y, mask


def main():
    rank, _ = start()
    model = DistributedDataParallel(Net(norm=True).to(DEVICE))
    data = Points(40)
    loader = DataLoader(data, batch_size=5, sampler=DistributedSampler(data), collate_fn=padded)
    optimizer = compile_optimizer(torch.optim.SGD(model.parameters(), lr=0.1))
    for batch in loader:
        x, y, mask = (one.to(DEVICE) for one in batch)
        optimizer.zero_grad()
        loss = compute_loss(model, x, y, mask)
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(tuple(x.shape), f"{loss.item():.5f}")
    end(model)
