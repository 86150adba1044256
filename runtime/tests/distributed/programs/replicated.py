"""A loader without a `DistributedSampler`, whose batches are the same on all ranks."""

from common import DEVICE, Net, Points, end, start
from torch.nn import functional
from torch.nn.parallel import DistributedDataParallel
from torch.optim import SGD
from torch.utils.data import DataLoader
from torchax_compat import differentiable


@differentiable
def compute_loss(model, x, y):
    return functional.cross_entropy(model(x), y)


def main():
    rank, _ = start()
    model = DistributedDataParallel(Net().to(DEVICE))
    optimizer = SGD(model.parameters(), lr=0.1)
    for x, y, _ in DataLoader(Points(10), batch_size=5):
        optimizer.zero_grad()
        loss = compute_loss(model, x.to(DEVICE), y.to(DEVICE))
        loss.backward()
        optimizer.step()
        if rank == 0:
            print(f"{loss.item():.5f}")
    end(model)
